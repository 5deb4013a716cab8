"""Memory for one-second histograms: a ring for each series and field, as narrow as its counts allow.

A ring holds the histograms of one set of bounds, one byte a bucket until a count does not fit (then two, then four).
A histogram with other bounds than its ring's (rare: a process keeps its bounds) waits in a side table, until the ring
holds nothing any more and takes the new bounds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streams.windows.columns import HISTOGRAM_FIELDS, HistogramRows
from streams.windows.histogram_pool import WIDTHS, HistogramPool
from streams.windows.rings import ChunkPart, RingSeconds, Seconds, row_parts


@dataclass(frozen=True, eq=False)
class OddHistogram:
    """One second's histogram whose bounds are not its ring's."""

    at_s: int
    bounds: tuple[float, ...]
    counts: NDArray[np.uint32]
    sum: float


@dataclass(frozen=True, eq=False)
class RingPlaces:
    """Where the rings of some series are for one field, as long as its `version` stays: all of them in one pool, with
    the same bounds (by their code); `parts` of the pool. `largest`: no larger count fits."""

    version: int
    pool: int
    bounds: int
    parts: list[ChunkPart]
    largest: int


class HistogramRings:
    """The histograms of all series, by field; series rows are those of the BucketRings."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.pools: list[HistogramPool] = []
        self.pool_widths = np.full(1, -1, np.int16)
        """Index into WIDTHS of each pool, and -1 at the end, for series whose pool is -1."""
        self._pool_code: dict[tuple[int, int], int] = {}
        self.bounds: list[tuple[float, ...]] = []
        """By bounds code; codes of bounds that no ring has any more are used again."""
        self._bounds_code: dict[tuple[float, ...], int] = {}
        self._bounds_rings: list[int] = []
        self._bounds_free: list[int] = []
        self.fields = {name: FieldRings(name, self) for name in HISTOGRAM_FIELDS}

    @property
    def nbytes(self) -> int:
        return sum(pool.nbytes for pool in self.pools) + sum(rings.nbytes for rings in self.fields.values())

    def pool_code(self, buckets: int, width: int) -> int:
        code = self._pool_code.setdefault((buckets, width), len(self.pools))
        if code == len(self.pools):
            self.pools.append(HistogramPool(self.slots, buckets, WIDTHS[width]))
            self.pool_widths = np.insert(self.pool_widths, code, width)
        return code

    def bounds_code(self, bounds: tuple[float, ...]) -> int:
        """-1 for bounds that no ring has."""
        return self._bounds_code.get(bounds, -1)

    def take_bounds(self, bounds: tuple[float, ...]) -> int:
        """The code of these bounds, with one more ring that has them."""
        code = self.bounds_code(bounds)
        if code < 0:
            code = self._bounds_free.pop() if self._bounds_free else len(self.bounds)
            if code == len(self.bounds):
                self.bounds.append(bounds)
                self._bounds_rings.append(0)
            self.bounds[code] = bounds
            self._bounds_code[bounds] = code
        self._bounds_rings[code] += 1
        return code

    def give_back_bounds(self, code: int) -> None:
        self._bounds_rings[code] -= 1
        if not self._bounds_rings[code]:
            del self._bounds_code[self.bounds[code]]
            self._bounds_free.append(code)

    def reserve(self, rows: int) -> None:
        """Make room for series rows below `rows`."""
        for rings in self.fields.values():
            rings.reserve(rows)

    def free(self, row: int) -> None:
        """Forget all histograms of a series."""
        for rings in self.fields.values():
            rings.free(row)


class FieldRings:
    """Which ring each series has for one field; arrays are indexed by the series' row."""

    def __init__(self, name: str, shared: HistogramRings) -> None:
        self.name = name
        self._shared = shared
        self.pool = np.full(0, -1, np.int16)
        """Index into the shared pools; -1: no ring."""
        self.ring_row = np.zeros(0, np.int32)
        self.bounds = np.zeros(0, np.int32)
        self.last_s = np.zeros(0, np.int64)
        self.version = 0
        """Rises when a series gets another ring."""
        self.rings = 0
        """How many series have one."""
        self.odd: dict[int, dict[int, OddHistogram]] = {}
        """By series row, then by slot."""

    @property
    def nbytes(self) -> int:
        """Another thread may ask."""
        arrays = self.pool.nbytes + self.ring_row.nbytes + self.bounds.nbytes + self.last_s.nbytes
        odd = [odd for slots in list(self.odd.values()) for odd in list(slots.values())]
        return arrays + sum(one.counts.nbytes + 200 for one in odd)

    def reserve(self, rows: int) -> None:
        """Make room for series rows below `rows`."""
        if rows > len(self.pool):
            grown = max(64, rows + rows // 4) - len(self.pool)
            self.pool = np.concatenate((self.pool, np.full(grown, -1, np.int16)))
            self.ring_row = np.concatenate((self.ring_row, np.zeros(grown, np.int32)))
            self.bounds = np.concatenate((self.bounds, np.zeros(grown, np.int32)))
            self.last_s = np.concatenate((self.last_s, np.zeros(grown, np.int64)))

    def write_whole(
        self,
        places: dict[str, RingPlaces],
        rows: NDArray[np.int64],
        seconds: RingSeconds,
        groups: tuple[HistogramRows, ...],
    ) -> bool:
        """As `write`, where that is easy: nobody has or had a histogram, or all have one that fits their rings.

        False, and nothing was done, where it is not. `places` remembers, by field, where the rings of `rows` are; the
        samples are newer than all that their series have.
        """
        if self.odd:
            return False
        if not groups:
            return not self.rings
        if len(groups) > 1 or len(groups[0].rows) != len(rows):
            return False
        known, group = places.get(self.name), groups[0]
        if known is None or known.version != self.version:
            known = self._find(rows)
            if known is None:
                return False
            places[self.name] = known
        if self._shared.bounds[known.bounds] != group.bounds or group.largest > known.largest:
            return False
        self._shared.pools[known.pool].write(known.parts, seconds, group.counts, group.sums)
        np.maximum.at(self.last_s, rows, seconds.at_s)
        return True

    def _find(self, rows: NDArray[np.int64]) -> RingPlaces | None:
        """Null where the series have no rings, or different ones."""
        pools, bounds = self.pool[rows], self.bounds[rows]
        pool = int(pools[0])
        if pool < 0 or (pools != pool).any() or (bounds != bounds[0]).any():
            return None
        shared = self._shared
        largest = int(np.iinfo(shared.pools[pool].width).max) - 1
        parts = row_parts(self.ring_row[rows].astype(np.int64), shared.slots)
        return RingPlaces(self.version, pool, int(bounds[0]), parts, largest)

    def write(self, rows: NDArray[np.int64], at_s: Seconds, groups: tuple[HistogramRows, ...]) -> None:
        """What samples at (`rows`, `at_s`), (n,) each and none twice, have in this field: `groups`, whose rows point
        into the n samples. Samples without one leave their slot empty."""
        self._drop_odd(rows, at_s % self._shared.slots)
        emptied = self.pool[rows] >= 0
        for group in groups:
            kept = self._place(rows[group.rows], at_s[group.rows], group)
            chosen = group.rows[kept]
            self._write_ringed(rows[chosen], at_s[chosen], group.counts[kept], group.sums[kept])
            np.maximum.at(self.last_s, rows[chosen], at_s[chosen])
            emptied[chosen] = False
        if emptied.any():
            rows, at_s = rows[emptied], at_s[emptied]
            for code, selected in self._by_pool(rows):
                self._shared.pools[code].clear(self.ring_row[rows[selected]].astype(np.int64), at_s[selected])

    def free(self, row: int) -> None:
        if row < len(self.pool) and self.pool[row] >= 0:
            self._release_ring(row)
        self.odd.pop(row, None)

    def _by_pool(self, rows: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64] | slice]]:
        codes = self.pool[rows]
        if not len(codes):
            return []
        if (codes == codes[0]).all():
            return [(int(codes[0]), slice(None))]
        return [(code, np.flatnonzero(codes == code)) for code in np.unique(codes).tolist()]

    def _write_ringed(
        self, rows: NDArray[np.int64], at_s: Seconds, counts: NDArray[np.uint32], sums: NDArray[np.float64]
    ) -> None:
        for code, selected in self._by_pool(rows):
            parts = row_parts(self.ring_row[rows[selected]].astype(np.int64), self._shared.slots)
            seconds = RingSeconds(at_s[selected], self._shared.slots)
            self._shared.pools[code].write(parts, seconds, counts[selected], sums[selected])

    def _place(self, rows: NDArray[np.int64], at_s: Seconds, group: HistogramRows) -> NDArray[np.int64] | slice:
        """Which of the group go into rings: their series' rings fit then; the others are in the side table."""
        shared = self._shared
        largest = group.counts.max(axis=1)
        width = (largest >= 2**8 - 1).astype(np.int16) + (largest >= 2**16 - 1)
        has_bounds = (self.pool[rows] >= 0) & (self.bounds[rows] == shared.bounds_code(group.bounds))
        fitting = has_bounds & (shared.pool_widths[self.pool[rows]] >= width)
        if fitting.all():
            return slice(None)
        for index in np.flatnonzero(~fitting).tolist():
            row, second = int(rows[index]), int(at_s[index])
            if self._fit(row, second, group.bounds, int(width[index])):
                fitting[index] = True
            else:
                odd = OddHistogram(second, group.bounds, group.counts[index].copy(), float(group.sums[index]))
                self.odd.setdefault(row, {})[second % shared.slots] = odd
        return np.flatnonzero(fitting)

    def _fit(self, row: int, at_s: int, bounds: tuple[float, ...], width: int) -> bool:
        """Give the series a ring for these bounds and this width, or widen its own; False where it has another."""
        if self.pool[row] >= 0 and self.bounds[row] != self._shared.bounds_code(bounds):
            if self.last_s[row] > at_s - self._shared.slots:
                return False
            self._release_ring(row)
        self.version += 1
        pool = self._shared.pool_code(len(bounds) + 1, width)
        if self.pool[row] < 0:
            self.pool[row], self.bounds[row] = pool, self._shared.take_bounds(bounds)
            self.ring_row[row] = self._shared.pools[pool].take_row()
            self.last_s[row] = at_s
            self.rings += 1
        elif self._shared.pool_widths[self.pool[row]] < width:
            self._widen(row, pool)
        return True

    def _release_ring(self, row: int) -> None:
        self._shared.pools[self.pool[row]].give_back(int(self.ring_row[row]))
        self._shared.give_back_bounds(int(self.bounds[row]))
        self.pool[row] = -1
        self.rings -= 1
        self.version += 1

    def _widen(self, row: int, pool: int) -> None:
        old_pool, old_row = self._shared.pools[self.pool[row]], int(self.ring_row[row])
        self.pool[row], self.ring_row[row] = pool, self._shared.pools[pool].take_row()
        counts, sums = self._shared.pools[pool].ring(int(self.ring_row[row]))
        counts[:], sums[:] = old_pool.ring(old_row)
        old_pool.give_back(old_row)

    def _drop_odd(self, rows: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        if self.odd:
            for row, slot in zip(rows.tolist(), slots.tolist(), strict=True):
                if row in self.odd:
                    self.odd[row].pop(slot, None)
