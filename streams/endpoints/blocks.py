"""Which blocks of one endpoint are added up, so that a tick reads its newest seconds alone.

A block's sum is made from its buckets, never from another sum, and blocks whose buckets changed are made anew: what a
window adds up to is the same whether blocks were kept or not.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from streams.endpoints.block_store import BlockStore, Ints, Matrix, blocks_of
from streams.endpoints.histogram_blocks import HistogramBlocks
from streams.endpoints.matrices import matrix_of
from streams.endpoints.ready import Roster
from streams.endpoints.tallies import Tally, make_tally
from streams.endpoints.ticks import TICK_S
from streams.windows.grid import Grid
from streams.windows.histograms import EMPTY, MergedHistogram

ReadGrid = Callable[[int, int], Grid]
"""A grid of seconds `[first, end)`."""

UNCHANGED_S = 2**60
NO_VERSION = -1
_NO_LANES: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """(fields, replicas) each: as a Tally's, by field."""

    sums: Matrix
    counts: Ints
    ready_sums: Matrix
    ready_counts: Ints


@dataclass(slots=True)
class BlockBook:
    """One endpoint's last `count` blocks up to `tick`, of the replicas of `roster`; `version` is that of its series in
    the windows.

    `lanes` (replicas,) are where their blocks are in the store, `ready_lanes` those of their ready seconds alone (the
    same array where none was heard in other ones). `names` has the fields that are added up, from the moment somebody
    asks for them, each with its place among them.
    """

    store: BlockStore
    tick: int = 0
    version: int = NO_VERSION
    roster: Roster | None = None
    count: int = 0
    changed_s: int = UNCHANGED_S
    lanes: Ints = field(default_factory=lambda: _NO_LANES)
    ready_lanes: Ints = field(default_factory=lambda: _NO_LANES)
    names: dict[str, int] = field(default_factory=dict)
    histograms: dict[str, HistogramBlocks] = field(default_factory=dict)
    _windows: dict[int, _Window] = field(default_factory=dict)

    def doubt(self, at_s: int) -> None:
        """A second before the last tick has changed."""
        self.changed_s = min(self.changed_s, at_s)

    def release(self) -> None:
        """Give back what it holds of the store."""
        self.store.give_back(self.lanes)
        if self.ready_lanes is not self.lanes:
            self.store.give_back(self.ready_lanes)
        self.lanes = self.ready_lanes = _NO_LANES
        self.roster, self.version = None, NO_VERSION
        self.names.clear()
        self.histograms.clear()
        self._windows.clear()

    def begin(self, whole: Grid, version: int, roster: Roster) -> None:
        """Start with nothing added up, for windows of up to the length of `whole`, a grid up to the tick."""
        self.release()
        self.tick, self.version, self.roster = whole.end_s, version, roster
        self.count, self.changed_s = (whole.end_s - whole.first_s) // TICK_S, UNCHANGED_S
        self.lanes = self.ready_lanes = self.store.take(len(roster.names))
        if not roster.counts_from_now(whole.end_s) or roster.leaves_out(whole.heard, whole.first_s):
            self.ready_lanes = self.store.take(len(roster.names))

    def keep_names(self, names: Sequence[str], histograms: Collection[str], read: ReadGrid) -> None:
        """Have these fields added up, and no others."""
        self.add_up(names, read)
        self.names = {name: place for place, name in enumerate(names)}
        self.histograms = {name: made for name, made in self.histograms.items() if name in histograms}
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
        if self.ready_lanes is self.lanes and roster.leaves_out(newer.heard, first_s):
            return False
        self._add_up(newer, list(self.names), roster)
        kept = (first_s - oldest_s) // TICK_S
        for name, made in self.histograms.items():
            again = _histograms_of(name, range(first_s, tick, TICK_S), newer, read)
            self.histograms[name] = made.moved_on(kept, again)
        self.move_to(tick, roster)
        return True

    def follow_histogram(self, name: str, newest: MergedHistogram) -> None:
        """Move a field's histograms on by one block."""
        self.histograms[name] = self.histograms[name].moved_on(self.count - 1, (newest,))

    def move_to(self, tick: int, roster: Roster) -> None:
        """Say that all blocks up to `tick` are there."""
        self.tick, self.roster, self.changed_s = tick, roster, UNCHANGED_S
        self._windows.clear()
        if self.ready_lanes is not self.lanes and roster.counts_all(tick - self.count * TICK_S, tick):
            self.store.give_back(self.ready_lanes)
            self.ready_lanes = self.lanes

    def add_up(self, names: Iterable[str], read: ReadGrid) -> None:
        """Have these fields added up from now on; `names` as in `matrix_of`."""
        missing = [name for name in names if name not in self.names]
        if missing and self.roster is not None:
            self._add_up(read(self.tick - self.count * TICK_S, self.tick), missing, self.roster)
            self.names.update({name: len(self.names) + index for index, name in enumerate(missing)})
            self._windows.clear()

    def window(self, name: str, count: int, read: ReadGrid) -> Tally:
        """A field over the last `count` blocks."""
        self.add_up((name,), read)
        found = self._windows.get(count)
        if found is None:
            found = self._windows[count] = self._read(count)
        place = self.names[name]
        sums, counts = found.sums[place], found.counts[place]
        ready = (sums, counts)
        if found.ready_sums is not found.sums:
            ready = found.ready_sums[place], found.ready_counts[place]
        return make_tally((sums, counts), ready, count * TICK_S)

    def _read(self, count: int) -> _Window:
        first_s, names = self.tick - count * TICK_S, list(self.names)
        sums, counts = self.store.read(names, first_s, count, self.lanes)
        if self.ready_lanes is self.lanes:
            return _Window(sums, counts, sums, counts)
        return _Window(sums, counts, *self.store.read(names, first_s, count, self.ready_lanes))

    def histogram(self, name: str, count: int, read: ReadGrid) -> MergedHistogram | None:
        """A field's histogram over the last `count` blocks; null where their bounds differ."""
        found = self.histograms.get(name)
        if found is None:
            starts = range(self.tick - self.count * TICK_S, self.tick, TICK_S)
            found = self.histograms[name] = HistogramBlocks.of(_histograms_of(name, starts, None, read))
        return found.merged(count)

    def _add_up(self, grid: Grid, names: Sequence[str], roster: Roster) -> None:
        """The blocks of a grid whose length is a multiple of TICK_S."""
        if not names:
            return
        matrices = [matrix_of(grid, name) for name in names]
        ready, alive = roster.masks(grid.first_s, grid.end_s)
        sums, counts = blocks_of(matrices, None if alive is None else ~alive)
        self.store.write(names, grid.first_s, self.lanes, sums, counts)
        if self.ready_lanes is not self.lanes:
            if ready is not None or alive is not None:
                sums, counts = blocks_of(matrices, None if ready is None else ~ready)
            self.store.write(names, grid.first_s, self.ready_lanes, sums, counts)


def _histograms_of(name: str, starts: range, newer: Grid | None, read: ReadGrid) -> list[MergedHistogram]:
    """At least one; `newer` is used for the last block, whose end is its own."""
    last_s = starts[-1]
    if newer is None or newer.first_s > starts[0]:
        found = read(starts[0], last_s + TICK_S).histogram_blocks(name, TICK_S)
    else:
        found = newer.since(starts[0]).histogram_blocks(name, TICK_S)
    if found is not None:
        return found
    last = read(last_s, last_s + TICK_S) if newer is None else newer.since(last_s)
    if not last.reports(name):
        return [EMPTY] * len(starts)
    return [*(read(first_s, first_s + TICK_S).histogram(name) for first_s in starts[:-1]), last.histogram(name)]
