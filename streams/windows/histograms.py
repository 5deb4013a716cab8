"""Histograms of many seconds and replicas as one, and quantiles from it."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class MergedHistogram:
    """Counts per bucket of all that was merged, in the unit of its field (`ttft_ms`: milliseconds).

    `counts[i]` is the number of values in `(bounds[i-1], bounds[i]]`, the last those above the last bound; float64,
    whole numbers as long as every part had the same bounds. `sum` is that of the parts whose reporter keeps a sum,
    `summed_count` how many values those parts hold. `widths` float64 (len(bounds) + 1,): for each bucket the width of
    the widest bucket, of any part, whose values may lie in it; None: the bucket's own width.
    """

    bounds: tuple[float, ...]
    counts: NDArray[np.float64]
    sum: float = 0.0
    summed_count: int = 0
    widths: NDArray[np.float64] | None = None

    @property
    def total(self) -> float:
        """How many values were counted."""
        return float(self.counts.sum())

    @property
    def mean(self) -> float | None:
        """None where no part with a sum holds a value."""
        return self.sum / self.summed_count if self.summed_count else None


@dataclass(frozen=True)
class Quantile:
    """`value` is off by at most `width`: that of the widest bucket that may hold it.

    Above the last bound nothing is known but that: `value` is then the last bound, and `width` is infinite. `width` is
    infinite, too, where values above a shorter part's last bound may lie at `value`.
    """

    value: float
    width: float


EMPTY = MergedHistogram((), np.zeros(1))
ROUNDING = 1e-9
"""Counts that were spread add up to a little more or less than whole numbers: what lies this share of all values above
a bucket's end is at its end. Else the next value may be a dozen empty buckets further on."""


def merge(parts: Sequence[MergedHistogram]) -> MergedHistogram:
    """One histogram over the union of all bounds; parts are added in the order given.

    A part's bucket that the union divides is spread over its pieces by their widths, which is what the quantile's
    linear interpolation assumes of it anyway. A part's values above its last bound are counted above the union's.
    """
    parts = [part for part in parts if part.counts.any()]
    if not parts:
        return EMPTY
    bounds = parts[0].bounds
    widths = None
    if all(part.bounds == bounds for part in parts):
        counts = parts[0].counts.copy()
        for part in parts[1:]:
            counts += part.counts
    else:
        bounds = tuple(sorted({bound for part in parts for bound in part.bounds}))
        counts = np.zeros(len(bounds) + 1)
        widths = np.zeros(len(bounds) + 1)
        for part in parts:
            counts += _spread(part, bounds)
            np.maximum(widths, _widths(part, bounds), out=widths)
    return MergedHistogram(
        bounds, counts, sum(part.sum for part in parts), sum(part.summed_count for part in parts), widths
    )


def quantile(histogram: MergedHistogram, fraction: float) -> Quantile | None:
    """The value below which `fraction` (0..1) of the counted values lie, by linear interpolation inside its bucket
    (as Prometheus' histogram_quantile); None where nothing was counted, or only by histograms without bounds.

    The first bucket reaches down to 0, or is its bound alone where that is not above 0.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be in 0..1, got {fraction}")
    if histogram is EMPTY:
        return None
    counts: list[float] = histogram.counts.tolist()
    cumulative = list(accumulate(counts))
    total = cumulative[-1]
    if not total:
        return None
    rank, slack = fraction * total, ROUNDING * total
    filled = next(bucket for bucket, count in enumerate(counts) if count)
    bucket = max(bisect.bisect_left(cumulative, rank - slack), filled)
    bounds = histogram.bounds
    if bucket >= len(bounds):
        return Quantile(bounds[-1], float("inf")) if bounds else None
    lower, upper = bounds[bucket - 1] if bucket else _beginning(bounds), bounds[bucket]
    before = cumulative[bucket - 1] if bucket else 0.0
    share = min(1.0, (rank - before) / counts[bucket])
    width = upper - lower if histogram.widths is None else float(histogram.widths[bucket])
    return Quantile(lower + (upper - lower) * share, width)


def _beginning(bounds: tuple[float, ...]) -> float:
    """Of the first bucket: what is measured is not below 0."""
    return min(0.0, bounds[0])


def _edges(bounds: tuple[float, ...]) -> NDArray[np.float64]:
    """The buckets' edges but the last one's upper."""
    return np.array((_beginning(bounds), *bounds))


def _spread(part: MergedHistogram, bounds: tuple[float, ...]) -> NDArray[np.float64]:
    """The part's counts over `bounds`, which hold all of its own."""
    counts = np.zeros(len(bounds) + 1)
    counts[-1] = part.counts[-1]
    if part.bounds:
        inside = np.minimum(bounds, part.bounds[-1])
        below = np.interp(inside, _edges(part.bounds), np.concatenate(([0.0], np.cumsum(part.counts[:-1]))))
        counts[:-1] = np.diff(below, prepend=0.0)
    return counts


def _widths(part: MergedHistogram, bounds: tuple[float, ...]) -> NDArray[np.float64]:
    """For each bucket over `bounds` the width of the part's bucket that holds it, 0 where that is empty."""
    if not part.bounds:
        return np.full(len(bounds) + 1, np.inf)
    own = part.widths
    if own is None:
        own = np.append(np.diff(_edges(part.bounds)), np.inf)
    own = np.where(part.counts > 0, own, 0.0)
    holder = np.searchsorted(part.bounds, bounds, side="left")
    return np.append(own[holder], own[-1])
