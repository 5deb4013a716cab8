"""Whole numbers over seconds, gauges of seconds: nothing is invented and nothing is lost."""

from collections.abc import Mapping
from math import floor
from typing import Any

from collectors.histogram_readings import HistogramReading
from collectors.increases import Increase
from records.fields import COUNT_MAX
from records.histogram import Histogram

Fields = Mapping[str, Any]
"""Fields of one RequestSample: counts (int) and histograms, by name."""

_NS_PER_MS = 1_000_000
_SUM_NS_MAX = 10**15 * _NS_PER_MS


class GaugeTrace:
    """Gauges by second: the mean of what was read in it, else what was read last in the second before.

    So one second without a scrape is bridged; further ones are unknown.
    """

    def __init__(self) -> None:
        self._by_second: dict[int, list[Mapping[str, float]]] = {}

    def add(self, at_s: float, gauges: Mapping[str, float]) -> None:
        second = floor(at_s)
        self._by_second.setdefault(second, []).append(gauges)
        for old in sorted(self._by_second)[:-2]:
            del self._by_second[old]

    def clear(self) -> None:
        self._by_second.clear()

    def of_second(self, second: int) -> dict[str, float]:
        """By field; a field that no reading tells is missing."""
        readings = self._by_second.get(second) or self._by_second.get(second - 1, [])[-1:]
        means = {}
        for field in {field for gauges in readings for field in gauges}:
            found = [gauges[field] for gauges in readings if field in gauges]
            means[field] = sum(found) / len(found)
        return means


def spread(total: int, seconds: int) -> list[int]:
    """`total` over `seconds` as evenly as whole numbers go; their sum is `total`, none is negative."""
    return [total * (k + 1) // seconds - total * k // seconds for k in range(seconds)]


def spread_increase(increase: Increase, seconds: int) -> tuple[list[Fields], list[str]]:
    """The fields of each second's sample, and the fields that were left out because no second can hold so much."""
    fields: list[dict[str, Any]] = [{} for _ in range(seconds)]
    absurd = []
    for name, total in increase.counts.items():
        shares = spread(total, seconds)
        if max(shares) > COUNT_MAX:
            absurd.append(name)
            continue
        for second, share in zip(fields, shares, strict=True):
            second[name] = share
    for name, found in increase.histograms.items():
        histograms = _spread_histogram(found, seconds)
        if histograms is None:
            absurd.append(name)
            continue
        for second, histogram in zip(fields, histograms, strict=True):
            second[name] = histogram
    return list(fields), absurd


def added(one: Fields, other: Fields) -> Fields:
    """Two gains of one second, field by field. A field that one does not tell is as the other has it; one that cannot
    be added (other bounds, above what a second can hold) is None: unknown."""
    both = {name: _added(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def is_something(fields: Fields) -> bool:
    """Whether anything was counted."""
    return any(any(found.bucket_counts) if isinstance(found, Histogram) else found for found in fields.values())


def _added(one: Any, other: Any) -> Any:
    match one, other:
        case int(), int():
            return one + other if one + other <= COUNT_MAX else None
        case Histogram(), Histogram() if one.explicit_bounds == other.explicit_bounds:
            counts = tuple(a + b for a, b in zip(one.bucket_counts, other.bucket_counts, strict=True))
            total = None if one.sum is None or other.sum is None else one.sum + other.sum
            return (
                Histogram(explicit_bounds=one.explicit_bounds, bucket_counts=counts, sum=total)
                if max(counts) <= COUNT_MAX
                else None
            )
        case _:
            return None


def _spread_histogram(found: HistogramReading, seconds: int) -> list[Histogram] | None:
    """Bucket by bucket; each second's sum in proportion to its counts."""
    columns = [spread(count, seconds) for count in found.counts]
    rows = list(zip(*columns, strict=True))
    total = sum(found.counts)
    if max(max(row) for row in rows) > COUNT_MAX or (found.sum_ns or 0) > _SUM_NS_MAX:
        return None
    histograms = []
    counted = 0
    for row in rows:
        before, counted = counted, counted + sum(row)
        histograms.append(
            Histogram(
                explicit_bounds=found.bounds_ms, bucket_counts=row, sum=_share_ms(found.sum_ns, before, counted, total)
            )
        )
    return histograms


def _share_ms(sum_ns: int | None, before: int, counted: int, total: int) -> float | None:
    if sum_ns is None:
        return None
    if total == 0:
        return 0.0
    return (sum_ns * counted // total - sum_ns * before // total) / _NS_PER_MS
