"""What happened between two readings of one process, and what its gauges show, in the fields of RequestSample."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from collectors.dialects import Alternatives, Term
from collectors.exposition import Labels, Reading
from collectors.histogram_readings import HistogramReading


@dataclass(frozen=True, kw_only=True)
class Increase:
    """By field; a field that one of the two readings does not tell is missing."""

    counts: Mapping[str, int]
    histograms: Mapping[str, HistogramReading]


def has_restarted(before: Reading, after: Reading) -> bool:
    """Whether a counter went down, or the process says that it started at another time."""
    if before.dialect is not after.dialect:
        return True
    if None not in (before.process_start, after.process_start) and before.process_start != after.process_start:
        return True
    counters = {term.name for term in _terms(before.dialect.counters.values())}
    if any(_went_down(before.values.get(name, {}), after.values.get(name, {})) for name in counters):
        return True
    return any(_has_fallen(before.histograms.get(name, {}), found) for name, found in after.histograms.items())


def increase_between(before: Reading, after: Reading) -> Increase:
    """Precondition: `has_restarted(before, after)` is false.

    A series that `before` did not have counts from 0 when its name was readable then: it was born since.
    """
    counts = {}
    for field, alternatives in after.dialect.counters.items():
        terms = _exposed(alternatives, after)
        if terms and all(term.name in before.readable for term in terms):
            counts[field] = sum(_gained(term, before, after) for term in terms)
    histograms = {}
    for field, names in after.dialect.histograms.items():
        name = next((name for name in names if name in after.readable), None)
        if name is not None and name in before.readable:
            increase = _histogram_increase(before.histograms.get(name, {}), after.histograms[name])
            if increase is not None:
                histograms[field] = increase
    return Increase(counts=counts, histograms=histograms)


def carried_over(before: Reading, after: Reading) -> Reading:
    """`after`, with what it does not tell as `before` had it: when it is told again, nothing was lost between."""
    values = {name: {**found, **after.values.get(name, {})} for name, found in before.values.items()}
    histograms = {name: {**found, **after.histograms.get(name, {})} for name, found in before.histograms.items()}
    return replace(
        after,
        values={**after.values, **values},
        histograms={**after.histograms, **histograms},
        readable=after.readable | before.readable,
        process_start=after.process_start or before.process_start,
    )


def read_gauges(reading: Reading) -> dict[str, float]:
    """By field; what the engine does not expose, or exposes out of its range, is missing."""
    gauges = {}
    for field, alternatives in reading.dialect.gauges.items():
        found = [value for term in _exposed(alternatives, reading) for value in _matching(term, reading).values()]
        if not found:
            continue
        is_mean = field in reading.dialect.means
        value = sum(found) / len(found) if is_mean else sum(found)
        if value <= (1 if is_mean else _GAUGE_MAX):
            gauges[field] = value
    return gauges


_GAUGE_MAX = 1e15
"""records.fields.Amount"""


def _terms(all_alternatives: Iterable[Alternatives]) -> Iterable[Term]:
    return (term for alternatives in all_alternatives for terms in alternatives for term in terms)


def _exposed(alternatives: Alternatives, reading: Reading) -> tuple[Term, ...]:
    """The first alternative that is exposed whole; none: empty."""
    return next((terms for terms in alternatives if all(term.name in reading.readable for term in terms)), ())


def _matching(term: Term, reading: Reading) -> dict[Labels, float]:
    found = reading.values.get(term.name, {})
    if term.label is None:
        return dict(found)
    return {labels: value for labels, value in found.items() if (dict(labels).get(term.label) or "") in term.values}


def _gained(term: Term, before: Reading, after: Reading) -> int:
    old = before.values.get(term.name, {})
    return sum(int(value) - int(old.get(labels, 0)) for labels, value in _matching(term, after).items())


def _went_down(before: Mapping[Labels, float], after: Mapping[Labels, float]) -> bool:
    return any(after[labels] < value for labels, value in before.items() if labels in after)


def _has_fallen(before: Mapping[Labels, HistogramReading], after: Mapping[Labels, HistogramReading]) -> bool:
    return any(
        any(new < old for old, new in zip(found.counts, after[labels].counts, strict=True))
        for labels, found in before.items()
        if labels in after and after[labels].bounds_ms == found.bounds_ms
    )


def _histogram_increase(
    before: Mapping[Labels, HistogramReading], after: Mapping[Labels, HistogramReading]
) -> HistogramReading | None:
    """Added over the series; None where their bounds differ, among each other or from before."""
    bounds = {found.bounds_ms for found in after.values()}
    bounds |= {before[labels].bounds_ms for labels in after if labels in before}
    if len(bounds) != 1:
        return None
    (bounds_ms,) = bounds
    born = HistogramReading(bounds_ms=bounds_ms, counts=(0,) * (len(bounds_ms) + 1), sum_ns=0)
    pairs = [(before.get(labels, born), found) for labels, found in after.items()]
    gained_ns = [new.sum_ns - old.sum_ns for old, new in pairs if new.sum_ns is not None and old.sum_ns is not None]
    return HistogramReading(
        bounds_ms=bounds_ms,
        counts=tuple(sum(new.counts[i] - old.counts[i] for old, new in pairs) for i in range(len(born.counts))),
        # a sum that fell is no reset, the counts say: its values are of both signs, or it was rounded
        sum_ns=sum(gained_ns) if len(gained_ns) == len(pairs) and min(gained_ns) >= 0 else None,
    )
