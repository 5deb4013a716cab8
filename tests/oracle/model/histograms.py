"""Many histograms as one: the buckets' edges are the union of all bounds, a divided bucket is spread evenly."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.model.log import Histogram

Bounds = tuple[Fraction, ...]
INFINITE = None
"""The width of a bucket without an upper bound."""


class Found(NamedTuple):
    """`value` null: above the last bound of histograms that have none. `width` is by how much it may be off."""

    value: Fraction | None
    width: Fraction | None


def quantile(histograms: Iterable[Histogram], fraction: Fraction) -> Found | None:
    """Where `fraction` of the counted values lie below, linear inside a bucket; null where nothing was counted."""
    counted = _summed(histograms)
    total = sum(sum(counts) for counts in counted.values())
    if not total:
        return None
    rank = fraction * total
    bounds = sorted({bound for own in counted for bound in own})
    before = Fraction(0)
    for place, upper in enumerate(bounds):
        upto = sum((_below(own, counts, upper) for own, counts in counted.items()), Fraction(0))
        if upto >= rank and upto > before:
            lower = bounds[place - 1] if place else min(Fraction(0), upper)
            return Found(lower + (upper - lower) * (rank - before) / (upto - before), _width(counted, lower, upper))
        before = upto
    return Found(bounds[-1] if bounds else None, INFINITE)


def mean(histograms: Iterable[Histogram]) -> Fraction | None:
    """Of those that keep a sum and hold a value."""
    known = [(one.sum, sum(one.counts)) for one in histograms if one.sum is not None and any(one.counts)]
    count = sum(counted for _, counted in known)
    return sum((total for total, _ in known), Fraction(0)) / count if count else None


def _summed(histograms: Iterable[Histogram]) -> dict[Bounds, Sequence[int]]:
    """Counts by bounds, of those that hold a value."""
    found: dict[Bounds, Sequence[int]] = {}
    for one in histograms:
        if any(one.counts):
            known = found.get(one.bounds)
            found[one.bounds] = one.counts if known is None else [a + b for a, b in zip(known, one.counts, strict=True)]
    return found


def _below(bounds: Bounds, counts: Sequence[int], edge: Fraction) -> Fraction:
    """How many of the values lie at or below an edge, as far as can be told."""
    count = Fraction(0)
    lower = min(Fraction(0), bounds[0]) if bounds else Fraction(0)
    for upper, inside in zip(bounds, counts, strict=False):
        if edge >= upper:
            count += inside
        elif edge > lower:
            count += inside * (edge - lower) / (upper - lower)
        lower = upper
    return count


def _width(counted: dict[Bounds, Sequence[int]], lower: Fraction, upper: Fraction) -> Fraction | None:
    """That of the widest bucket that has values and reaches into `(lower, upper]`."""
    widest = Fraction(0)
    for bounds, counts in counted.items():
        begin = min(Fraction(0), bounds[0]) if bounds else Fraction(0)
        for bound, count in zip(bounds, counts, strict=False):
            if count and begin < upper and bound > lower:
                widest = max(widest, bound - begin)
            begin = bound
        if counts[-1] and (not bounds or bounds[-1] < upper):
            return INFINITE
    return widest
