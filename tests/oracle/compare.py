"""Where what the engine said is not what the oracle says."""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import isclose
from typing import Any

from records.signals import EndpointSignal, SignalValue
from streams.endpoints.effects import Count
from tests.oracle.engine import REQUESTS, Run
from tests.oracle.model.book import Verdict
from tests.oracle.model.endpoint import Tick
from tests.oracle.model.log import Sample
from tests.oracle.model.measures import Value
from tests.oracle.model.partition import Told

DIGITS = 1e-12
"""A quotient of floats is rounded once or twice; what is wrong is wrong by more."""

COUNTED = {
    Verdict.REPLACED: Count.REPLACED,
    Verdict.DUPLICATE: Count.DUPLICATE,
    Verdict.LATE: Count.LATE,
    Verdict.UNATTRIBUTED: Count.UNATTRIBUTED,
    Verdict.TOO_FAR_AHEAD: Count.TOO_FAR_AHEAD,
    Verdict.NO_POLICY: Count.NO_POLICY,
    Verdict.WRONG_PARTITION: Count.WRONG_PARTITION,
}


def differences(told: Told, run: Run) -> Iterator[str]:
    """One line for each; none where both agree."""
    for endpoint, ticks in told.ticks.items():
        signals = run.signals[endpoint]
        if [tick.at_s for tick in ticks] != [signal.at_s for signal in signals]:
            yield f"{endpoint}: ticks {[one.at_s for one in signals]}, expected {[one.at_s for one in ticks]}"
            continue
        for tick, signal in zip(ticks, signals, strict=True):
            for what, found, expected in _pairs(tick, signal):
                yield f"{endpoint} at {tick.at_s}: {what}: {found}, expected {expected}"
    yield from _counts(told, run)


def _counts(told: Told, run: Run) -> Iterator[str]:
    expected: Counter[Count] = Counter()
    for offset, sample, verdict in told.verdicts:
        if verdict in COUNTED and offset >= _counted_from(run, sample):
            expected[COUNTED[verdict]] += 1
    for kind in COUNTED.values():
        if run.counts[kind] != expected[kind]:
            yield f"{kind.value}: {run.counts[kind]} rows, expected {expected[kind]}"


def _counted_from(run: Run, sample: Sample) -> int:
    return run.counted_from.get(sample.endpoint, run.others_from)


def _pairs(tick: Tick, signal: EndpointSignal) -> Iterator[tuple[str, Any, Any]]:
    """What differs: (what, found, expected)."""
    if signal.processed_s != float(tick.processed_s):
        yield "processed_s", signal.processed_s, float(tick.processed_s)
    if signal.offsets.get(REQUESTS, 0) != tick.offset:
        yield "offset", signal.offsets.get(REQUESTS, 0), tick.offset
    for length_s, values in tick.windows.items():
        found = signal.windows[str(length_s)]
        for key, value in values.items():
            if not _is_same(found[key], value):
                yield f"{key} over {length_s} s", _shown(found[key]), _shown_value(value)
    if signal.supply.ready != len(tick.ready):
        yield "ready", signal.supply.ready, tick.ready
    if signal.unheard != tick.unheard:
        yield "unheard", signal.unheard, tick.unheard
    sources = {
        (one.replica, one.source.value, one.reporter): (one.offset_s, one.state.value, one.late)
        for one in signal.sources
    }
    expected = {
        name: (None if one.offset_s is None else round(float(one.offset_s), 3), one.state, one.late)
        for name, one in tick.sources.items()
    }
    if sources != expected:
        yield "sources", sources, expected
    blockers = {(one.kind, one.replica, one.until_s) for one in signal.down_blockers}
    if blockers != tick.blockers:
        yield "down_blockers", blockers, tick.blockers
    for one in signal.drain_order:
        drain = tick.drains.get(one.replica)
        if drain is None or not (
            _is_close(one.inflight, drain.inflight) and _is_close(one.cache_hit_rate, drain.cache_hit_rate)
        ):
            yield f"drain of {one.replica}", (one.inflight, one.cache_hit_rate), drain
    if not _is_close(signal.drain_p99_ms, tick.drain_p99_ms):
        yield "drain_p99_ms", signal.drain_p99_ms, tick.drain_p99_ms


def _is_same(found: SignalValue, expected: Value) -> bool:
    return (
        found.state.value == expected.state
        and found.check == expected.check
        and _is_close(found.coverage, expected.coverage)
        and _is_close(found.value, expected.value)
    )


def _is_close(found: float | None, expected: Fraction | None) -> bool:
    if found is None or expected is None:
        return found is None and expected is None
    return isclose(found, float(expected), rel_tol=DIGITS, abs_tol=DIGITS)


def _shown(found: SignalValue) -> tuple[Any, ...]:
    return (found.value, found.state.value, found.coverage, found.check)


def _shown_value(expected: Value) -> tuple[Any, ...]:
    value = None if expected.value is None else float(expected.value)
    return (value, expected.state, float(expected.coverage), expected.check)
