"""One endpoint's histograms of one field, merged block by block."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from streams.windows.histograms import EMPTY, MergedHistogram

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class HistogramBlocks:
    """Of each block the merged histogram, the oldest first, and its `sums` and `summed_counts`; `counts`
    (blocks, buckets) has the counts of all, null where those that are not empty have different bounds, or none is
    there."""

    blocks: tuple[MergedHistogram, ...]
    sums: tuple[float, ...]
    summed_counts: tuple[int, ...]
    counts: Matrix | None

    @classmethod
    def of(cls, blocks: Sequence[MergedHistogram]) -> "HistogramBlocks":
        sums, summed = tuple(block.sum for block in blocks), tuple(block.summed_count for block in blocks)
        bounds = {block.bounds for block in blocks if block is not EMPTY}
        if len(bounds) != 1:
            return cls(tuple(blocks), sums, summed, None)
        nothing = np.zeros(len(bounds.pop()) + 1)
        counts = np.array([nothing if block is EMPTY else block.counts for block in blocks])
        return cls(tuple(blocks), sums, summed, counts)

    def moved_on(self, kept: int, newer: Sequence[MergedHistogram]) -> "HistogramBlocks":
        """Without the oldest, with the next `kept` of them, and the newer ones behind them."""
        blocks = (*self.blocks[1 : 1 + kept], *newer)
        if self.counts is None or len(newer) != 1 or newer[0] is EMPTY or newer[0].bounds != _bounds(self.blocks):
            return HistogramBlocks.of(blocks)
        return HistogramBlocks(
            blocks,
            (*self.sums[1 : 1 + kept], newer[0].sum),
            (*self.summed_counts[1 : 1 + kept], newer[0].summed_count),
            np.concatenate((self.counts[1 : 1 + kept], newer[0].counts[None])),
        )

    def merged(self, count: int) -> MergedHistogram | None:
        """That of the last `count` blocks; null where their bounds differ."""
        last = self.blocks[-count:]
        bounds = _bounds(last)
        if bounds is None:
            return EMPTY
        if self.counts is not None:
            counts: Matrix = np.add.reduce(self.counts[-count:], axis=0)
        elif all(block is EMPTY or block.bounds == bounds for block in last):
            counts = np.add.reduce([block.counts for block in last if block is not EMPTY], axis=0)
        else:
            return None
        return MergedHistogram(bounds, counts, fsum(self.sums[-count:]), sum(self.summed_counts[-count:]))


def _bounds(blocks: Sequence[MergedHistogram]) -> tuple[float, ...] | None:
    """Those of the newest that is not empty."""
    return next((block.bounds for block in reversed(blocks) if block is not EMPTY), None)
