"""Reading a set of series over a stretch of seconds: matrices of shape (series, seconds) out of the rings."""

from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from streams.columns import COUNT_FIELDS, FIELD_INDEX, GAUGE_FIELDS
from streams.histogram_rings import FieldRings, HistogramRings
from streams.histograms import MergedHistogram
from streams.rings import CHUNK_ROWS, UNKNOWN_COUNT, BucketRings

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Piece:
    """A run of seconds that lies in one go of the ring: `columns` of the matrix are `slots` of the ring."""

    columns: slice
    slots: slice
    lap: int


class Stretch:
    """The seconds `[first_s, end_s)`, of which the ring holds those from `floor_s` on."""

    def __init__(self, first_s: int, end_s: int, floor_s: int, slots: int) -> None:
        self.first_s, self.end_s = first_s, end_s
        self.pieces: list[Piece] = []
        self.held_from_s, self.held_to_s = max(first_s, floor_s), min(end_s, floor_s + slots)
        at_s = self.held_from_s
        while at_s < self.held_to_s:
            slot = at_s % slots
            count = min(self.held_to_s - at_s, slots - slot)
            columns = slice(at_s - first_s, at_s - first_s + count)
            self.pieces.append(Piece(columns, slice(slot, slot + count), at_s // slots + 1))
            at_s += count

    def __len__(self) -> int:
        return self.end_s - self.first_s


class RingReader:
    """Reads the series at `rows` (k,), in that order."""

    def __init__(self, rows: Rows, buckets: BucketRings, histograms: HistogramRings) -> None:
        self.rows = rows
        self._histograms = histograms
        self._parts: list[tuple[Rows | slice, NDArray[np.void], Rows | slice]] = []
        """(which of the rows, the chunk they are in, where in it) for each chunk."""
        for chunk in np.unique(rows // CHUNK_ROWS).tolist():
            where = np.flatnonzero(rows // CHUNK_ROWS == chunk)
            self._parts.append((_compact(where), buckets.chunks[chunk], _compact(rows[where] % CHUNK_ROWS)))

    def heard(self, stretch: Stretch) -> Mask:
        """bool (k, seconds): whether there is a sample."""
        out = np.zeros((len(self.rows), len(stretch)), np.bool_)
        for where, chunk, local in self._parts:
            laps = chunk["lap"]
            for piece in stretch.pieces:
                out[where, piece.columns] = laps[local, piece.slots] == piece.lap
        return out

    def scalar(self, name: str, stretch: Stretch) -> Matrix:
        """float64 (k, seconds), NaN = unknown; what no sample was heard for is left over from other seconds."""
        index = FIELD_INDEX[name]
        out = np.zeros((len(self.rows), len(stretch)))
        for where, chunk, local in self._parts:
            if index < len(COUNT_FIELDS):
                stored = chunk["counts"][:, :, index]
            elif index < len(COUNT_FIELDS) + len(GAUGE_FIELDS):
                stored = chunk["gauges"][:, :, index - len(COUNT_FIELDS)]
            else:
                stored = chunk["streamed"]
            for piece in stretch.pieces:
                out[where, piece.columns] = stored[local, piece.slots]
        if index < len(COUNT_FIELDS):
            np.putmask(out, out == float(UNKNOWN_COUNT), np.nan)
        return out

    def present(self, field: str, stretch: Stretch) -> Mask:
        """bool (k, seconds): whether the slot has a histogram; to be read where a sample was heard."""
        rings = self._histograms.fields[field]
        out = np.zeros((len(self.rows), len(stretch)), np.bool_)
        for index, row in enumerate(self.rows.tolist()):
            if rings.pool[row] >= 0:
                counts, _ = self._ring(rings, row)
                for piece in stretch.pieces:
                    out[index, piece.columns] = counts[piece.slots, 0] != 0
            for odd in rings.odd.get(row, {}).values():
                if stretch.first_s <= odd.at_s < stretch.end_s:
                    out[index, odd.at_s - stretch.first_s] = True
        return out

    def histograms(self, field: str, stretch: Stretch, chosen: Mask) -> list[MergedHistogram]:
        """The sums of the histograms that `chosen` (k, seconds) marks, one for each set of bounds.

        Counts are whole numbers, and the rings' sums are added without rounding in between (fsum), so that silent
        series and the order of rows leave no trace.
        """
        rings = self._histograms.fields[field]
        found: dict[tuple[float, ...], list[tuple[NDArray[np.int64], float, int]]] = {}
        for index, row in enumerate(self.rows.tolist()):
            if not chosen[index].any():
                continue
            by_second = {odd.at_s: odd for odd in rings.odd.get(row, {}).values()}
            ringed = chosen[index].copy()
            for second in np.flatnonzero(chosen[index]).tolist() if by_second else ():
                odd = by_second.get(stretch.first_s + second)
                if odd is not None:
                    ringed[second] = False
                    total = odd.counts.astype(np.int64)
                    known = not np.isnan(odd.sum)
                    part = total, odd.sum if known else 0.0, int(total.sum()) if known else 0
                    found.setdefault(odd.bounds, []).append(part)
            if rings.pool[row] >= 0 and ringed.any():
                bounds = self._histograms.bounds[rings.bounds[row]]
                found.setdefault(bounds, []).append(self._sum_ring(rings, row, stretch, ringed))
        return [
            MergedHistogram(
                bounds,
                np.sum([counts for counts, _, _ in parts], axis=0).astype(np.float64),
                fsum(value for _, value, _ in parts),
                sum(summed for _, _, summed in parts),
            )
            for bounds, parts in sorted(found.items())
        ]

    def _ring(self, rings: FieldRings, row: int) -> tuple[NDArray[np.unsignedinteger], NDArray[np.float64]]:
        return self._histograms.pools[int(rings.pool[row])].ring(int(rings.ring_row[row]))

    def _sum_ring(
        self, rings: FieldRings, row: int, stretch: Stretch, chosen: Mask
    ) -> tuple[NDArray[np.int64], float, int]:
        """Counts, the sum of the known sums, and how many values these stand for."""
        counts, sums = self._ring(rings, row)
        slots = (stretch.first_s + np.flatnonzero(chosen)) % len(sums)
        taken, values = counts[slots], sums[slots]
        total = _totals(taken)
        unknown = np.isnan(values)
        if unknown.any():
            return total, fsum(values[~unknown]), int(_totals(taken[~unknown]).sum())
        return total, fsum(values), int(total.sum())


def _totals(stored: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
    """Sums (buckets,) of stored histograms (n, buckets), whose first bucket is one too high."""
    total: NDArray[np.int64] = stored.sum(axis=0, dtype=np.int64)
    total[0] -= len(stored)
    return total


def _compact(indices: Rows) -> Rows | slice:
    """A slice where the indices follow one another: numpy reads it without copying."""
    if len(indices) and indices[-1] - indices[0] == len(indices) - 1 and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices
