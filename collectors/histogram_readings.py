"""One histogram as an engine exposes it: cumulative counts by `le` in seconds, into plain whole numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import pairwise

from records.histogram import BOUNDS_MAX

_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class HistogramReading:
    """`counts[i]` counts values up to `bounds_ms[i]` and above the bound before; the last one those above all bounds.

    `sum_ns` is the sum of the values in whole nanoseconds, so that differences of it are exact; None where unknown.
    """

    bounds_ms: tuple[float, ...]
    counts: tuple[int, ...]
    sum_ns: int | None


def read_histogram(buckets: Mapping[str, float], sum_s: float | None) -> HistogramReading | None:
    """From cumulative counts by the text of `le`, in any order. None where they make no histogram."""
    try:
        bounds_ms, cumulative = _in_order(tuple(buckets), tuple(buckets.values()))
    except ValueError:
        return None
    counts = [int(cumulative[0])]
    counts += [int(upper) - int(lower) for lower, upper in pairwise(cumulative)]
    if min(counts) < 0:
        return None
    return HistogramReading(
        bounds_ms=bounds_ms,
        counts=tuple(counts),
        sum_ns=None if sum_s is None else round(sum_s * _NS_PER_S),
    )


def _in_order(les: tuple[str, ...], cumulative: tuple[float, ...]) -> tuple[tuple[float, ...], list[float]]:
    order, bounds_ms = _order(les)
    return bounds_ms, [cumulative[place] for place in order]


@lru_cache(maxsize=1024)
def _order(les: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The places of `les` by their bound, and the bounds in ms without the infinite one, which is the last."""
    try:
        seconds = [Decimal(le) for le in les]
    except InvalidOperation:
        raise ValueError("le is no number") from None
    if any(bound.is_nan() for bound in seconds):
        raise ValueError("le is no number")
    order = tuple(sorted(range(len(les)), key=lambda place: seconds[place]))
    *finite, last = (seconds[place] for place in order)
    # decimal, so that 0.0035 s is 3.5 ms to the last bit
    bounds_ms = tuple(float(bound * 1000) for bound in finite)
    if not last.is_infinite() or last < 0 or len(bounds_ms) > BOUNDS_MAX:
        raise ValueError("the last bucket must be +Inf, after no more than the most bounds allowed")
    if any(not lower < upper for lower, upper in pairwise(bounds_ms)):
        raise ValueError("bounds must rise strictly")
    if any(abs(bound) > 1e15 for bound in bounds_ms):
        raise ValueError("bounds must be finite")
    return order, bounds_ms
