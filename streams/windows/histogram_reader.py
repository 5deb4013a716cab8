"""Reading the histograms of a set of series over a stretch of seconds."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from streams.windows.histogram_rings import HistogramRings, OddHistogram
from streams.windows.histogram_totals import StoredHistograms, merged_blocks
from streams.windows.histograms import MergedHistogram
from streams.windows.rings import CHUNK_ROWS
from streams.windows.stretch import Mask, Matrix, Rows, Stretch, compact


@dataclass(frozen=True, eq=False)
class RingGroup:
    """Rings of one chunk of one pool, with the same bounds: `counts` (CHUNK_ROWS, slots, buckets) and `sums`
    (CHUNK_ROWS, slots) of the chunk, `local` rows of it, which are those of the series at `where`."""

    bounds: tuple[float, ...]
    counts: NDArray[np.unsignedinteger]
    sums: Matrix
    local: Rows | slice
    where: Rows | slice
    size: int

    def read_counts(self, stretch: Stretch) -> NDArray[np.unsignedinteger]:
        """(size, seconds, buckets) as stored; 0 outside the span."""
        out = np.zeros((self.size, len(stretch), self.counts.shape[2]), self.counts.dtype)
        for piece in stretch.pieces:
            out[:, piece.columns] = self.counts[self.local, piece.slots]
        return out

    def read_sums(self, stretch: Stretch) -> Matrix:
        out = np.zeros((self.size, len(stretch)))
        for piece in stretch.pieces:
            out[:, piece.columns] = self.sums[self.local, piece.slots]
        return out


@dataclass(frozen=True, eq=False)
class Part:
    """Histograms with the same bounds: their counts, the sum of those sums that are known, and how many values the
    histograms with known sums hold."""

    counts: NDArray[np.int64]
    sums: list[float]
    summed_count: int


class HistogramReader:
    """Reads the series at `rows` (k,), in that order."""

    def __init__(self, rows: Rows, histograms: HistogramRings) -> None:
        self._rows = rows
        self._histograms = histograms
        self._groups: dict[str, tuple[int, list[RingGroup]]] = {}

    def reports(self, field: str) -> bool:
        """Whether any of the series has histograms of a field."""
        return bool(self._ring_groups(field)) or bool(self._histograms.fields[field].odd)

    def present(self, field: str, stretch: Stretch) -> Mask:
        """bool (k, seconds): whether the slot has a histogram; to be read where a sample was heard."""
        out = np.zeros((len(self._rows), len(stretch)), np.bool_)
        for group in self._ring_groups(field):
            for piece in stretch.pieces:
                out[group.where, piece.columns] = group.counts[:, :, 0][group.local, piece.slots] != 0
        for index, column, _ in self._odd(field, stretch):
            out[index, column] = True
        return out

    def merged(self, field: str, stretch: Stretch, chosen: Mask) -> list[MergedHistogram]:
        """The sums of the histograms that `chosen` (k, seconds) marks, one for each set of bounds.

        Counts are whole numbers. Sums are added along each series' seconds, then without rounding in between (fsum):
        silent series and the order of rows leave no trace.
        """
        found: dict[tuple[float, ...], list[Part]] = {}
        ringed = chosen
        for index, column, odd in self._odd(field, stretch):
            if chosen[index, column]:
                if ringed is chosen:
                    ringed = chosen.copy()
                ringed[index, column] = False
                found.setdefault(odd.bounds, []).append(_odd_part(odd))
        for group in self._ring_groups(field):
            own = ringed[group.where]
            if own.any():
                found.setdefault(group.bounds, []).append(_ring_part(group, stretch, own))
        return [
            MergedHistogram(
                bounds,
                sum((part.counts for part in parts), np.zeros(len(bounds) + 1, np.int64)).astype(np.float64),
                fsum(value for part in parts for value in part.sums),
                sum(part.summed_count for part in parts),
            )
            for bounds, parts in sorted(found.items())
        ]

    def merged_blocks(self, field: str, stretch: Stretch, chosen: Mask, block_s: int) -> list[MergedHistogram] | None:
        """Of each block of `block_s` seconds all histograms as one; null where their bounds differ, or are stored in
        different ways."""
        groups = self._ring_groups(field)
        if self._histograms.fields[field].odd or len({(group.bounds, group.counts.dtype) for group in groups}) != 1:
            return None
        shape = len(self._rows), len(stretch)
        counts = np.zeros((*shape, groups[0].counts.shape[2]), groups[0].counts.dtype)
        sums = np.zeros(shape)
        for group in groups:
            counts[group.where], sums[group.where] = group.read_counts(stretch), group.read_sums(stretch)
        stored = StoredHistograms(groups[0].bounds, counts, sums)
        return merged_blocks(stored, chosen, np.zeros(1, np.int64), block_s)[0]

    def _ring_groups(self, field: str) -> list[RingGroup]:
        """The series' rings, found anew when a ring of the field was taken, given back or widened."""
        rings = self._histograms.fields[field]
        version, groups = self._groups.get(field, (-1, []))
        if version != rings.version:
            groups = list(self._find_groups(field))
            self._groups[field] = rings.version, groups
        return groups

    def _find_groups(self, field: str) -> Iterator[RingGroup]:
        rings = self._histograms.fields[field]
        members: dict[tuple[int, int, int], list[int]] = {}
        for index, row in enumerate(self._rows.tolist()):
            if rings.pool[row] >= 0:
                chunk = int(rings.ring_row[row]) // CHUNK_ROWS
                members.setdefault((int(rings.pool[row]), int(rings.bounds[row]), chunk), []).append(index)
        for (pool_code, bounds, chunk), indices in members.items():
            pool = self._histograms.pools[pool_code]
            where = np.array(indices, np.int64)
            yield RingGroup(
                self._histograms.bounds[bounds],
                pool.counts[chunk].reshape(CHUNK_ROWS, pool.slots, pool.buckets),
                pool.sums[chunk].reshape(CHUNK_ROWS, pool.slots),
                compact(rings.ring_row[self._rows[where]].astype(np.int64) % CHUNK_ROWS),
                compact(where),
                len(indices),
            )

    def _odd(self, field: str, stretch: Stretch) -> Iterator[tuple[int, int, OddHistogram]]:
        """(series, second, histogram) of the side table."""
        table = self._histograms.fields[field].odd
        if table:
            for index, row in enumerate(self._rows.tolist()):
                for odd in table.get(row, {}).values():
                    if stretch.held_from_s <= odd.at_s < stretch.held_to_s:
                        yield index, odd.at_s - stretch.first_s, odd


def _odd_part(odd: OddHistogram) -> Part:
    counts = odd.counts.astype(np.int64)
    if np.isnan(odd.sum):
        return Part(counts, [], 0)
    return Part(counts, [odd.sum], int(counts.sum()))


def _ring_part(group: RingGroup, stretch: Stretch, chosen: Mask) -> Part:
    stored, sums = group.read_counts(stretch), group.read_sums(stretch)
    if not chosen.all():
        stored[~chosen] = 0
        sums[~chosen] = 0.0
    counts = _totals(stored, int(np.count_nonzero(chosen)))
    by_series = sums.sum(axis=1).tolist()
    summed_count = int(counts.sum())
    unknown = np.isnan(sums)
    if unknown.any():
        by_series = np.where(unknown, 0.0, sums).sum(axis=1).tolist()
        summed_count -= int(_totals(stored[unknown][None], int(np.count_nonzero(unknown))).sum())
    return Part(counts, by_series, summed_count)


def _totals(stored: NDArray[np.unsignedinteger], histograms: int) -> NDArray[np.int64]:
    """Sums (buckets,) of stored histograms (series, seconds, buckets), in whose first buckets each counts one more.

    Two steps, the first along long rows, are four times as fast as one: numpy adds short rows one by one.
    """
    series, seconds, buckets = stored.shape
    by_second = np.add.reduce(stored.reshape(series, seconds * buckets), axis=0, dtype=np.int64)
    total: NDArray[np.int64] = by_second.reshape(seconds, buckets).sum(axis=0)
    total[0] -= histograms
    return total
