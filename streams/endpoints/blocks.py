"""Sums over blocks of five seconds, kept from tick to tick, so that a tick reads its newest seconds alone.

A block's sum is made from its buckets, never from another sum, and blocks whose buckets changed are made anew: what a
window adds up to is the same whether blocks were kept or not.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum

import numpy as np
from numpy.typing import NDArray

from streams.endpoints.matrices import Matrix, matrix_of
from streams.endpoints.ready import Roster
from streams.endpoints.tallies import Ints, Tally
from streams.endpoints.ticks import TICK_S
from streams.windows.grid import Grid
from streams.windows.histograms import EMPTY, MergedHistogram

Cube = NDArray[np.float64]
ReadGrid = Callable[[int, int], Grid]
"""A grid of seconds `[first, end)`."""

UNCHANGED_S = 2**60
NO_VERSION = -1


@dataclass(frozen=True, slots=True, eq=False)
class HistogramBlocks:
    """Of each block a field's merged histogram; all with the same bounds, or none."""

    blocks: tuple[MergedHistogram, ...]

    def merged(self, count: int) -> MergedHistogram | None:
        """That of the last `count` blocks; null where their bounds differ."""
        filled = [block for block in self.blocks[-count:] if block is not EMPTY]
        if not filled:
            return EMPTY
        bounds = filled[0].bounds
        if any(block.bounds != bounds for block in filled):
            return None
        return MergedHistogram(
            bounds,
            np.sum([block.counts for block in filled], axis=0),
            fsum(block.sum for block in filled),
            sum(block.summed_count for block in filled),
        )


@dataclass(slots=True, eq=False)
class _Cubes:
    """(fields, replicas, blocks) each: as a Tally's, by field and block."""

    sums: Cube
    counts: Cube
    ready_sums: Cube
    ready_counts: Cube

    @property
    def are_all_ready(self) -> bool:
        return self.ready_sums is self.sums

    def move_on(self, kept: int, newer: "_Cubes") -> None:
        """Drop the oldest block, keep the next `kept` and put the newer ones behind them."""
        if self.are_all_ready and not newer.are_all_ready:
            self.ready_sums, self.ready_counts = self.sums.copy(), self.counts.copy()
        moved = [(self.sums, newer.sums), (self.counts, newer.counts)]
        if not self.are_all_ready:
            moved += [(self.ready_sums, newer.ready_sums), (self.ready_counts, newer.ready_counts)]
        for cube, behind in moved:
            cube[:, :, :kept] = cube[:, :, 1 : kept + 1]
            cube[:, :, kept:] = behind

    def with_field(self, newer: "_Cubes") -> "_Cubes":
        sums, counts = np.concatenate((self.sums, newer.sums)), np.concatenate((self.counts, newer.counts))
        if (self.are_all_ready or not len(self.sums)) and newer.are_all_ready:
            return _Cubes(sums, counts, sums, counts)
        ready_sums = np.concatenate((self.ready_sums, newer.ready_sums))
        return _Cubes(sums, counts, ready_sums, np.concatenate((self.ready_counts, newer.ready_counts)))

    def last(self, count: int) -> "_Window":
        sums, counts = _last(self.sums, count), _last(self.counts, count).astype(np.int64)
        ready_sums, ready_counts = sums, counts
        if not self.are_all_ready:
            ready_sums, ready_counts = _last(self.ready_sums, count), _last(self.ready_counts, count).astype(np.int64)
        whole = np.logical_and.reduce(ready_counts == count * TICK_S, axis=1) if sums.shape[1] else [False] * len(sums)
        return _Window(sums, counts, ready_sums, ready_counts, whole)


@dataclass(slots=True, eq=False)
class _Window:
    """(fields, replicas) each, and `whole` (fields,): as a Tally's, by field."""

    sums: Matrix
    counts: Ints
    ready_sums: Matrix
    ready_counts: Ints
    whole: Sequence[bool] | NDArray[np.bool_]

    def of(self, place: int) -> Tally:
        sums, counts, is_whole = self.sums[place], self.counts[place], bool(self.whole[place])
        if self.ready_sums is self.sums:
            return Tally(sums, counts, sums, counts, is_whole)
        return Tally(sums, counts, self.ready_sums[place], self.ready_counts[place], is_whole)


def _last(cube: Cube, count: int) -> Matrix:
    """The sums of the last `count` blocks."""
    added: Matrix = np.add.reduce(cube[:, :, -count:], axis=2)
    return added


def _empty(replicas: int, blocks: int) -> _Cubes:
    nothing = np.zeros((0, replicas, blocks))
    return _Cubes(nothing, nothing, nothing, nothing)


@dataclass(slots=True)
class BlockBook:
    """One endpoint's last `count` blocks up to `tick`, of the replicas of `roster`; `version` is that of its series in
    the windows.

    `places` has where each field is in `cubes`. Fields are added up from the moment somebody asks for them.
    """

    tick: int = 0
    version: int = NO_VERSION
    roster: Roster | None = None
    count: int = 0
    changed_s: int = UNCHANGED_S
    places: dict[str, int] = field(default_factory=dict)
    cubes: _Cubes = field(default_factory=lambda: _empty(0, 0))
    histograms: dict[str, HistogramBlocks] = field(default_factory=dict)
    _windows: dict[int, _Window] = field(default_factory=dict)

    def doubt(self, at_s: int) -> None:
        """A second before the last tick has changed."""
        self.changed_s = min(self.changed_s, at_s)

    def begin(self, tick: int, version: int, roster: Roster, span_s: int) -> None:
        """Start with nothing added up, for windows of up to `span_s`."""
        self.tick, self.version, self.roster = tick, version, roster
        self.count, self.changed_s = span_s // TICK_S, UNCHANGED_S
        self.cubes = _empty(len(roster.names), self.count)
        self.places.clear()
        self.histograms.clear()
        self._windows.clear()

    def can_follow(self, near: Grid, version: int, span_s: int) -> bool:
        """Whether these are the blocks before the tick at the end of `near`, and of the same replicas."""
        is_next = self.tick + TICK_S == near.end_s and self.count == span_s // TICK_S
        return is_next and version == self.version and self.roster is not None and near.replicas == self.roster.names

    def follow(self, near: Grid, roster: Roster, read: ReadGrid) -> bool:
        """Move on to the end of `near`, a grid of the last seconds; False where it has to begin anew."""
        tick = near.end_s
        oldest_s = tick - self.count * TICK_S
        first_s = max(oldest_s, min(self.tick, self.changed_s // TICK_S * TICK_S))
        newer = near.since(first_s) if first_s >= near.first_s else read(first_s, tick)
        if newer.replicas != roster.names or not roster.is_like(self.roster):
            return False
        kept = (first_s - oldest_s) // TICK_S
        if self.places:
            self.cubes.move_on(kept, _cubes_of(newer, self.places, roster))
        for name, made in self.histograms.items():
            again = _histograms_of(name, range(first_s, tick, TICK_S), newer, read)
            self.histograms[name] = HistogramBlocks((*made.blocks[1 : 1 + kept], *again))
        self.tick, self.roster, self.changed_s = tick, roster, UNCHANGED_S
        self._windows.clear()
        return True

    def window(self, name: str, count: int, read: ReadGrid) -> Tally:
        """A field over the last `count` blocks; `name` as in `matrix_of`."""
        place = self.places.get(name)
        if place is None:
            assert self.roster is not None
            whole = read(self.tick - self.count * TICK_S, self.tick)
            self.cubes = self.cubes.with_field(_cubes_of(whole, (name,), self.roster))
            place = self.places[name] = len(self.places)
            self._windows.clear()
        found = self._windows.get(count)
        if found is None:
            found = self._windows[count] = self.cubes.last(count)
        return found.of(place)

    def histogram(self, name: str, count: int, read: ReadGrid) -> MergedHistogram | None:
        """A field's histogram over the last `count` blocks; null where their bounds differ."""
        found = self.histograms.get(name)
        if found is None:
            starts = range(self.tick - self.count * TICK_S, self.tick, TICK_S)
            found = self.histograms[name] = HistogramBlocks(tuple(_histograms_of(name, starts, None, read)))
        return found.merged(count)


def _cubes_of(grid: Grid, names: Iterable[str], roster: Roster) -> _Cubes:
    """Blocks of a grid whose length is a multiple of TICK_S."""
    cube = np.array([matrix_of(grid, name) for name in names])
    unknown = np.isnan(cube)
    ready, alive = roster.masks(grid.first_s, grid.end_s)
    sums, counts = _added(cube, unknown if alive is None else unknown | ~alive)
    if ready is None and alive is None:
        return _Cubes(sums, counts, sums, counts)
    return _Cubes(sums, counts, *_added(cube, unknown if ready is None else unknown | ~ready))


def _added(cube: Cube, left_out: NDArray[np.bool_]) -> tuple[Cube, Cube]:
    """Sums and numbers of seconds by block, each added up from left to right."""
    counts = np.full((*cube.shape[:2], cube.shape[2] // TICK_S), float(TICK_S))
    if left_out.any():
        cube = np.where(left_out, 0.0, cube)
        for second in range(TICK_S):
            counts -= left_out[:, :, second::TICK_S]
    sums: Cube = cube[:, :, ::TICK_S] + cube[:, :, 1::TICK_S]
    for second in range(2, TICK_S):
        sums += cube[:, :, second::TICK_S]
    return sums, counts


def _histograms_of(name: str, starts: range, newer: Grid | None, read: ReadGrid) -> list[MergedHistogram]:
    """At least one; `newer` is used for the last block, whose end is its own."""
    last_s = starts[-1]
    last = read(last_s, last_s + TICK_S) if newer is None else newer.since(last_s)
    if not last.reports(name):
        return [EMPTY] * len(starts)
    return [*(read(first_s, first_s + TICK_S).histogram(name) for first_s in starts[:-1]), last.histogram(name)]
