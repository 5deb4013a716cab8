"""Memory for one-second buckets: rows of `slots` seconds, in chunks, so that growing never copies what is there.

A chunk is allocated as zeros, which the operating system backs page by page as rows are written.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streams.windows.buckets import BUCKET, UNKNOWN_COUNT, Buckets, whole
from streams.windows.private_pages import PrivatePages
from streams.windows.stretch import compact

__all__ = [
    "BUCKET",
    "CHUNK_ROWS",
    "UNKNOWN_COUNT",
    "BucketRings",
    "ChunkPart",
    "RingSeconds",
    "RowAllocator",
    "RowPart",
    "Seconds",
    "lap_of",
    "row_parts",
]

CHUNK_ROWS = 256

Seconds = NDArray[np.int64]
ChunkPart = tuple[int, NDArray[np.int64] | slice, NDArray[np.int64]]
"""A chunk, which of some places are in it, and where in it they are."""
RowPart = tuple[NDArray[np.int64] | slice, NDArray[np.void], NDArray[np.int64] | slice]
"""Which of some rows are in a chunk, the chunk (CHUNK_ROWS, slots), and where in it they are."""


def lap_of(at_s: Seconds, slots: int) -> Seconds:
    """How many times the ring has gone round at a second, counted from 1."""
    return at_s // slots + 1


class RingSeconds:
    """The seconds (n,) of some samples: the slots that they have in rings, and the laps."""

    def __init__(self, at_s: Seconds, slots: int) -> None:
        self.at_s, self.slots = at_s, slots
        self.slot = at_s % slots
        self.lap = lap_of(at_s, slots)


class RowAllocator:
    """Hands out row numbers, given-back ones first."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self.high_water = 0
        """Rows ever in use at once."""

    @property
    def in_use(self) -> int:
        """Rows whose memory is real."""
        return self.high_water - len(self._free)

    def take(self) -> int:
        if self._free:
            return self._free.pop()
        self.high_water += 1
        return self.high_water - 1

    def give_back(self, row: int) -> None:
        self._free.append(row)


class BucketRings:
    """The scalars of all series: row r, slot s is at `(r % CHUNK_ROWS) * slots + s` of chunk `r // CHUNK_ROWS`."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.rows = RowAllocator()
        self.chunks: list[NDArray[np.void]] = []
        """Each (CHUNK_ROWS, slots) of BUCKET."""
        self._pages: list[PrivatePages] = []
        self._whole: list[Buckets] = []
        self._laps: list[NDArray[np.uint32]] = []
        self._seqs: list[NDArray[np.int64]] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that are in use."""
        return self.rows.in_use * self.slots * BUCKET.itemsize

    def take_row(self) -> int:
        """A row whose slots are all empty; rows that nobody took, and those given back, cost no memory."""
        row = self.rows.take()
        if row // CHUNK_ROWS == len(self.chunks):
            pages = PrivatePages(CHUNK_ROWS * self.slots, BUCKET)
            flat = pages.flat
            self._pages.append(pages)
            self.chunks.append(flat.reshape(CHUNK_ROWS, self.slots))
            self._whole.append(whole(flat))
            self._laps.append(flat["lap"])
            self._seqs.append(flat["seq"])
        return row

    def give_back(self, row: int) -> None:
        first = row % CHUNK_ROWS * self.slots
        self._pages[row // CHUNK_ROWS].clear(first, first + self.slots)
        self.rows.give_back(row)

    def parts_of(self, rows: NDArray[np.int64]) -> list[RowPart]:
        """Where the series at `rows` (n,) are, by chunk."""
        return [
            (selected, self.chunks[chunk], compact(local))
            for chunk, selected, local in split_by_chunk(rows, CHUNK_ROWS)
        ]

    def read_marks(self, places: NDArray[np.int64]) -> tuple[Seconds, Seconds]:
        """Lap and seq, int64 (n,) each, at `places` (row * slots + slot)."""
        lap = np.empty(len(places), np.int64)
        seq = np.empty(len(places), np.int64)
        for chunk, selected, local in split_by_chunk(places, CHUNK_ROWS * self.slots):
            lap[selected] = self._laps[chunk][local]
            seq[selected] = self._seqs[chunk][local]
        return lap, seq

    def write(self, parts: Sequence[ChunkPart], seconds: RingSeconds, buckets: Buckets) -> None:
        """Put one bucket at each of `seconds` (n,) of the series that `parts` (of `row_parts`) name; no two at one
        place. The laps of `buckets` (n,) mean nothing."""
        items = whole(buckets)
        for chunk, selected, first in parts:
            local = first + seconds.slot[selected]
            self._whole[chunk][local] = items[selected]
            self._laps[chunk][local] = seconds.lap[selected]


def row_parts(rows: NDArray[np.int64], slots: int) -> list[ChunkPart]:
    """Where in which chunk the first slots of `rows` (n,) are."""
    return split_by_chunk(rows * slots, CHUNK_ROWS * slots)


def split_by_chunk(places: NDArray[np.int64], chunk_size: int) -> list[ChunkPart]:
    """A part for each chunk that the places touch."""
    chunk_of = places // chunk_size
    if not len(places):
        return []
    first = int(chunk_of[0])
    if (chunk_of == first).all():
        return [(first, slice(None), places - first * chunk_size)]
    order = np.argsort(chunk_of, kind="stable")
    grouped = chunk_of[order]
    starts = np.flatnonzero(np.diff(grouped, prepend=-1)).tolist()
    parts: list[ChunkPart] = []
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        chunk, selected = int(grouped[start]), compact(order[start:end])
        parts.append((chunk, selected, places[selected] - chunk * chunk_size))
    return parts
