"""Sums over blocks of five seconds, kept from tick to tick, so that a tick reads its newest seconds alone.

A block's sum is made from its buckets, never from another sum, and blocks whose buckets changed are made anew: what a
window adds up to is the same whether blocks were kept or not.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import fsum

import numpy as np
from numpy.typing import NDArray

from streams.endpoints.matrices import Matrix, matrix_of
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
        filled = [block for block in self.blocks[-count:] if block.bounds]
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


@dataclass(slots=True)
class BlockBook:
    """One endpoint's blocks up to `tick`, of the replicas `names`; `version` is that of its series in the windows.

    `places` has where each field is in `sums` and `counts`, both (fields, replicas, blocks): the sum of a block's known
    seconds, and their number. Fields are added up from the moment somebody asks for them.
    """

    tick: int = 0
    version: int = NO_VERSION
    names: tuple[str, ...] = ()
    count: int = 0
    changed_s: int = UNCHANGED_S
    places: dict[str, int] = field(default_factory=dict)
    sums: Cube = field(default_factory=lambda: np.zeros((0, 0, 0)))
    counts: Cube = field(default_factory=lambda: np.zeros((0, 0, 0)))
    histograms: dict[str, HistogramBlocks] = field(default_factory=dict)
    _windows: dict[int, tuple[Cube, Cube]] = field(default_factory=dict)

    def doubt(self, at_s: int) -> None:
        """A second before the last tick has changed."""
        self.changed_s = min(self.changed_s, at_s)

    def forget(self) -> None:
        self.version = NO_VERSION
        self.places.clear()
        self.histograms.clear()
        self._windows.clear()

    def begin(self, tick: int, version: int, names: tuple[str, ...], span_s: int) -> None:
        """Start with nothing added up, for windows of up to `span_s`."""
        self.forget()
        self.tick, self.version, self.names = tick, version, names
        self.count, self.changed_s = span_s // TICK_S, UNCHANGED_S
        self.sums = self.counts = np.zeros((0, len(names), self.count))

    def follow(self, near: Grid, version: int, span_s: int, read: ReadGrid) -> bool:
        """Move on to the end of `near`, a grid of the last seconds; False if it has to begin anew."""
        tick = near.end_s
        is_next = version == self.version and self.tick + TICK_S == tick and self.count == span_s // TICK_S
        if not is_next or near.replicas != self.names:
            return False
        oldest_s = tick - self.count * TICK_S
        first_s = max(oldest_s, min(self.tick, self.changed_s // TICK_S * TICK_S))
        newer = near.since(first_s) if first_s >= near.first_s else read(first_s, tick)
        if newer.replicas != self.names:
            return False
        kept = (first_s - oldest_s) // TICK_S
        if self.places:
            _move_on(self.sums, self.counts, kept, _blocks_of(newer, self.places))
        for name, made in self.histograms.items():
            again = _histograms_of(name, range(first_s, tick, TICK_S), newer, read)
            self.histograms[name] = HistogramBlocks((*made.blocks[1 : 1 + kept], *again))
        self.tick, self.changed_s = tick, UNCHANGED_S
        self._windows.clear()
        return True

    def window(self, name: str, count: int, read: ReadGrid) -> tuple[Matrix, Matrix]:
        """A field's sums and numbers of known seconds over the last `count` blocks, (replicas,) each; `name` as in
        `matrix_of`."""
        place = self.places.get(name)
        if place is None:
            whole = read(self.tick - self.count * TICK_S, self.tick)
            sums, counts = _blocks_of(whole, (name,))
            self.sums, self.counts = np.concatenate((self.sums, sums)), np.concatenate((self.counts, counts))
            place = self.places[name] = len(self.places)
            self._windows.clear()
        found = self._windows.get(count)
        if found is None:
            found = self.sums[:, :, -count:].sum(axis=2), self.counts[:, :, -count:].sum(axis=2)
            self._windows[count] = found
        return found[0][place], found[1][place]

    def histogram(self, name: str, count: int, read: ReadGrid) -> MergedHistogram | None:
        """A field's histogram over the last `count` blocks; null where their bounds differ."""
        found = self.histograms.get(name)
        if found is None:
            starts = range(self.tick - self.count * TICK_S, self.tick, TICK_S)
            found = self.histograms[name] = HistogramBlocks(tuple(_histograms_of(name, starts, None, read)))
        return found.merged(count)


def _move_on(sums: Cube, counts: Cube, kept: int, newer: tuple[Cube, Cube]) -> None:
    """Drop the oldest block, keep the next `kept` and put the newer ones behind them."""
    for cube, behind in zip((sums, counts), newer, strict=True):
        cube[:, :, :kept] = cube[:, :, 1 : kept + 1]
        cube[:, :, kept:] = behind


def _blocks_of(grid: Grid, names: Iterable[str]) -> tuple[Cube, Cube]:
    """Sums and counts of a grid whose length is a multiple of TICK_S; each block is added up from left to right."""
    cube = np.array([matrix_of(grid, name) for name in names])
    unknown = np.isnan(cube)
    counts = np.full((*cube.shape[:2], cube.shape[2] // TICK_S), float(TICK_S))
    if unknown.any():
        cube[unknown] = 0.0
        for second in range(TICK_S):
            counts -= unknown[:, :, second::TICK_S]
    sums = cube[:, :, ::TICK_S] + cube[:, :, 1::TICK_S]
    for second in range(2, TICK_S):
        sums += cube[:, :, second::TICK_S]
    return sums, counts


def _histograms_of(name: str, starts: range, newer: Grid | None, read: ReadGrid) -> list[MergedHistogram]:
    """`newer` is used for the last block, whose end is its own."""
    found = []
    for first_s in starts:
        is_last = newer is not None and first_s + TICK_S == newer.end_s
        grid = newer.since(first_s) if newer is not None and is_last else read(first_s, first_s + TICK_S)
        found.append(grid.histogram(name))
    return found
