"""Memory for one-second buckets: rows of `slots` seconds, in chunks, so that growing never copies what is there.

A chunk is allocated as zeros, which the operating system backs page by page as rows are written: rows that nobody took
cost no memory.
"""

import numpy as np
from numpy.typing import NDArray

from streams.windows.columns import COUNT_FIELDS, GAUGE_FIELDS

CHUNK_ROWS = 256
UNKNOWN_COUNT = np.uint32(2**32 - 1)
"""Marks an unknown count: one above records.fields.COUNT_MAX."""

BUCKET = np.dtype(
    [
        ("seq", np.int64),
        ("gauges", np.float64, (len(GAUGE_FIELDS),)),
        ("counts", np.uint32, (len(COUNT_FIELDS),)),
        ("streamed", np.float32),
        ("lap", np.uint32),
    ]
)
"""One second of one series, 136 bytes. `lap` tells which second the slot holds, see `lap_of`; 0: none yet.

`streamed` keeps 7 digits: of streamed_fraction only a known 0 means something.
"""
BUCKET_WORDS = BUCKET.itemsize // 8
STREAMED_MIN = np.float32(np.finfo(np.float32).tiny)

Seconds = NDArray[np.int64]


def lap_of(at_s: Seconds, slots: int) -> Seconds:
    """How many times the ring has gone round at a second, counted from 1."""
    return at_s // slots + 1


def pack(values: NDArray[np.float64], seq: Seconds, lap: Seconds) -> NDArray[np.void]:
    """Buckets (n,) of the scalars (n, len(SCALAR_FIELDS))."""
    n_counts, n_gauges = len(COUNT_FIELDS), len(GAUGE_FIELDS)
    buckets = np.empty(len(values), BUCKET)
    counts = values[:, :n_counts]
    buckets["counts"] = np.where(np.isnan(counts), float(UNKNOWN_COUNT), counts)
    buckets["gauges"] = values[:, n_counts : n_counts + n_gauges]
    streamed = values[:, -1]
    buckets["streamed"] = np.where(streamed > 0, np.maximum(streamed, STREAMED_MIN), streamed)
    buckets["seq"] = seq
    buckets["lap"] = lap
    return buckets


class RowAllocator:
    """Hands out row numbers, given-back ones first."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self.high_water = 0
        """Rows ever in use at once: those whose memory is real."""

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
        self._words: list[NDArray[np.uint64]] = []
        self._laps: list[NDArray[np.uint32]] = []
        self._seqs: list[NDArray[np.int64]] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that were ever in use."""
        return self.rows.high_water * self.slots * BUCKET.itemsize

    def take_row(self) -> int:
        """A row whose slots are all empty."""
        row = self.rows.take()
        if row // CHUNK_ROWS == len(self.chunks):
            flat = np.zeros(CHUNK_ROWS * self.slots, BUCKET)
            self.chunks.append(flat.reshape(CHUNK_ROWS, self.slots))
            self._words.append(flat.view(np.uint64).reshape(-1, BUCKET_WORDS))
            self._laps.append(flat["lap"])
            self._seqs.append(flat["seq"])
        return row

    def give_back(self, row: int) -> None:
        self.chunks[row // CHUNK_ROWS]["lap"][row % CHUNK_ROWS] = 0
        self.rows.give_back(row)

    def read_marks(self, places: NDArray[np.int64]) -> tuple[Seconds, Seconds]:
        """Lap and seq, int64 (n,) each, at `places` (row * slots + slot)."""
        lap = np.empty(len(places), np.int64)
        seq = np.empty(len(places), np.int64)
        for chunk, selected, local in split_by_chunk(places, CHUNK_ROWS * self.slots):
            lap[selected] = self._laps[chunk][local]
            seq[selected] = self._seqs[chunk][local]
        return lap, seq

    def write(self, places: NDArray[np.int64], buckets: NDArray[np.void]) -> None:
        """Put one bucket at each of `places`, which do not repeat."""
        words = buckets.view(np.uint64).reshape(-1, BUCKET_WORDS)
        for chunk, selected, local in split_by_chunk(places, CHUNK_ROWS * self.slots):
            self._words[chunk][local] = words[selected]


def split_by_chunk(
    places: NDArray[np.int64], chunk_size: int
) -> list[tuple[int, NDArray[np.int64] | slice, NDArray[np.int64]]]:
    """(chunk, which of the places, where in the chunk) for each chunk that the places touch."""
    chunk_of = places // chunk_size
    if not len(places):
        return []
    first = int(chunk_of[0])
    if (chunk_of == first).all():
        return [(first, slice(None), places - first * chunk_size)]
    parts: list[tuple[int, NDArray[np.int64] | slice, NDArray[np.int64]]] = []
    for chunk in np.unique(chunk_of).tolist():
        selected = np.flatnonzero(chunk_of == chunk)
        parts.append((chunk, selected, places[selected] - chunk * chunk_size))
    return parts
