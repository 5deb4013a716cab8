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
    """Of each block the merged histogram, the oldest first; `counts` (blocks, buckets) has the counts of all, null
    where those that are not empty have different bounds, or none is there."""

    blocks: tuple[MergedHistogram, ...]
    counts: Matrix | None

    @classmethod
    def of(cls, blocks: Sequence[MergedHistogram]) -> "HistogramBlocks":
        bounds = {block.bounds for block in blocks if block is not EMPTY}
        if len(bounds) != 1:
            return cls(tuple(blocks), None)
        nothing = np.zeros(len(bounds.pop()) + 1)
        return cls(tuple(blocks), np.array([nothing if block is EMPTY else block.counts for block in blocks]))

    def moved_on(self, kept: int, newer: Sequence[MergedHistogram]) -> "HistogramBlocks":
        """Without the oldest, with the next `kept` of them, and the newer ones behind them."""
        blocks = (*self.blocks[1 : 1 + kept], *newer)
        bounds = self._bounds
        if self.counts is None or len(newer) != 1 or newer[0].bounds != bounds or newer[0] is EMPTY:
            return HistogramBlocks.of(blocks)
        return HistogramBlocks(blocks, np.concatenate((self.counts[1 : 1 + kept], newer[0].counts[None])))

    @property
    def _bounds(self) -> tuple[float, ...] | None:
        return next((block.bounds for block in reversed(self.blocks) if block is not EMPTY), None)

    def merged(self, count: int) -> MergedHistogram | None:
        """That of the last `count` blocks; null where their bounds differ."""
        last = self.blocks[-count:]
        filled = [block for block in last if block is not EMPTY]
        if not filled:
            return EMPTY
        bounds = filled[0].bounds
        if self.counts is not None:
            counts: Matrix = np.add.reduce(self.counts[-count:], axis=0)
        elif all(block.bounds == bounds for block in filled):
            counts = np.add.reduce([block.counts for block in filled], axis=0)
        else:
            return None
        sums, summed = [block.sum for block in filled], [block.summed_count for block in filled]
        return MergedHistogram(bounds, counts, fsum(sums), sum(summed))
