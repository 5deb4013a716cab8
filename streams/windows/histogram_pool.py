"""Rows of one-second histograms of one number of buckets and one width, in chunks that never move."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streams.windows.private_pages import PrivatePages
from streams.windows.rings import CHUNK_ROWS, ChunkPart, RingSeconds, RowAllocator, Seconds, row_parts, split_by_chunk
from streams.windows.stretch import Stretch, compact

WIDTHS: tuple[type[np.unsignedinteger], ...] = (np.uint8, np.uint16, np.uint32)


class HistogramPool:
    """Rows of `slots` histograms with one number of buckets and one width.

    The first bucket is stored with one added, so that 0 there says that the slot holds no histogram.
    """

    def __init__(self, slots: int, buckets: int, width: type[np.unsignedinteger]) -> None:
        self.slots, self.buckets, self.width = slots, buckets, width
        self.rows = RowAllocator()
        self.counts: list[NDArray[np.unsignedinteger]] = []
        """Each (CHUNK_ROWS * slots, buckets)."""
        self.sums: list[NDArray[np.float64]] = []
        """Each (CHUNK_ROWS * slots,)."""
        self._pages: list[tuple[PrivatePages, PrivatePages]] = []
        self._whole = np.dtype((np.void, buckets * np.dtype(width).itemsize))
        self._items: list[NDArray[np.void]] = []
        """`counts` with one item a histogram: numpy moves it at once, and not count by count."""

    @property
    def nbytes(self) -> int:
        return self.rows.in_use * self.slots * (self.buckets * np.dtype(self.width).itemsize + 8)

    def take_row(self) -> int:
        row = self.rows.take()
        if row // CHUNK_ROWS == len(self.counts):
            histograms = CHUNK_ROWS * self.slots
            pages = PrivatePages(histograms, self._whole), PrivatePages(histograms, np.float64)
            self._pages.append(pages)
            counts = pages[0].flat.view(self.width).reshape(histograms, self.buckets)
            self.counts.append(counts)
            self._items.append(counts.view(self._whole).reshape(-1))
            self.sums.append(pages[1].flat.view(np.float64))
        return row

    def give_back(self, row: int) -> None:
        first = row % CHUNK_ROWS * self.slots
        for pages in self._pages[row // CHUNK_ROWS]:
            pages.clear(first, first + self.slots)
        self.rows.give_back(row)

    def ring(self, row: int) -> tuple[NDArray[np.unsignedinteger], NDArray[np.float64]]:
        """Views of a row's counts (slots, buckets) and sums (slots,)."""
        first = (row % CHUNK_ROWS) * self.slots
        span = slice(first, first + self.slots)
        return self.counts[row // CHUNK_ROWS][span], self.sums[row // CHUNK_ROWS][span]

    def write(
        self,
        parts: Sequence[ChunkPart],
        seconds: RingSeconds,
        counts: NDArray[np.uint32],
        sums: NDArray[np.float64],
    ) -> None:
        """Put one histogram at each of `seconds` (n,) of the rows that `parts` (of `row_parts`) name, none twice; no
        count is above the largest of the width less one."""
        stored = counts.astype(self.width)
        stored[:, 0] += 1
        items = stored.view(self._whole).reshape(-1)
        for chunk, selected, first in parts:
            local = first + seconds.slot[selected]
            self._items[chunk][local] = items[selected]
            self.sums[chunk][local] = sums[selected]

    def read(self, rows: NDArray[np.int64], span: range) -> tuple[NDArray[np.unsignedinteger], NDArray[np.float64]]:
        """Copies of what is stored of `rows` (n,) for the seconds of `span`, at most as long as a ring: counts
        (n, seconds, buckets) and sums (n, seconds)."""
        counts = np.empty((len(rows), len(span), self.buckets), self.width)
        sums = np.empty((len(rows), len(span)))
        pieces = Stretch(span.start, span.stop, span.start, self.slots).pieces
        for chunk, selected, local in split_by_chunk(rows, CHUNK_ROWS):
            where, ring = compact(local), (CHUNK_ROWS, self.slots)
            for piece in pieces:
                at = where, piece.slots
                counts[selected, piece.columns] = self.counts[chunk].reshape(*ring, self.buckets)[at]
                sums[selected, piece.columns] = self.sums[chunk].reshape(ring)[at]
        return counts, sums

    def clear(self, rows: NDArray[np.int64], at_s: Seconds) -> None:
        """Empty the slots of the seconds `at_s` (n,) of `rows` (n,)."""
        slot = at_s % self.slots
        for chunk, selected, first in row_parts(rows, self.slots):
            self.counts[chunk][first + slot[selected], 0] = 0
