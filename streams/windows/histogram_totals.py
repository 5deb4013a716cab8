"""Histograms of many series, added up by endpoint and by block of seconds; all of them have the same bounds."""

from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from streams.windows.histograms import EMPTY, MergedHistogram
from streams.windows.stretch import Mask, Matrix, Rows

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StoredHistograms:
    """As a pool stores them: `counts` (series, seconds, buckets), one more in the first bucket of each histogram, and
    `sums` (series, seconds), NaN where the reporter keeps none."""

    bounds: tuple[float, ...]
    counts: NDArray[np.unsignedinteger]
    sums: Matrix

    @property
    def present(self) -> Mask:
        """bool (series, seconds): where there is one."""
        found: Mask = self.counts[:, :, 0] != 0
        return found


def merged_blocks(stored: StoredHistograms, chosen: Mask, starts: Rows, block_s: int) -> list[list[MergedHistogram]]:
    """Of each endpoint, whose series begin at one of `starts`, the merged histogram of each block of `block_s` seconds;
    `chosen` (series, seconds) marks what counts. What is not chosen is overwritten in `stored`.

    Counts are whole numbers. Sums are added along each series' seconds, then without rounding in between (fsum).
    """
    if not chosen.all():
        stored.counts[~chosen] = 0
        stored.sums[~chosen] = 0.0
    counts = _added(stored.counts, chosen, starts, block_s)
    summed, known = counts, stored.sums
    unknown = np.isnan(known)
    if unknown.any():
        with_sums = np.where(unknown[:, :, None], 0, stored.counts)
        summed, known = _added(with_sums, chosen & ~unknown, starts, block_s), np.where(unknown, 0.0, known)
    by_series: list[list[float]] = known.reshape(len(known), -1, block_s).sum(axis=2).T.tolist()
    totals: list[list[int]] = summed.sum(axis=2).tolist()
    filled: list[list[bool]] = np.logical_or.reduce(counts, axis=2).tolist()
    reals, ends = counts.astype(np.float64), [*starts[1:].tolist(), len(known)]
    return [
        [
            MergedHistogram(stored.bounds, reals[place, block], 0.0 + fsum(series[start:end]), totals[place][block])
            if filled[place][block]
            else EMPTY
            for block, series in enumerate(by_series)
        ]
        for place, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True))
    ]


def _added(stored: NDArray[np.unsignedinteger], chosen: Mask, starts: Rows, block_s: int) -> Counts:
    """(endpoints, blocks, buckets): second by second, then series by series, since numpy adds short rows slowly."""
    by_block = stored[:, ::block_s].astype(np.int64)
    for second in range(1, block_s):
        by_block += stored[:, second::block_s]
    by_block[:, :, 0] -= np.count_nonzero(chosen.reshape(len(chosen), -1, block_s), axis=2)
    added: Counts = np.add.reduceat(by_block, starts, axis=0)
    return added
