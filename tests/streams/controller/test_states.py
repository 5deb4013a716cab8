"""Fresh, partial, stale, unknown, undefined: what each means where, and that none of them is a zero."""

from typing import Any

import pytest

from tests.streams.controller.line import Line, sample
from tests.streams.controller.test_values import ALL, S, busy, histogram, last_signal, ready, value


@pytest.mark.parametrize(
    ("missing", "state", "coverage"), [(2, S.FRESH, 0.9), (3, S.PARTIAL, 0.85), (20, S.STALE, 0.0)]
)
def test_fresh_partial_and_stale_by_the_seconds_that_are_there(missing: int, state: S, coverage: float) -> None:
    line = Line()
    line.add("telemetry.replicas", ready(1000))
    line.samples(sample(at_s) for at_s in range(1000, 1100 - missing))
    line.add("telemetry.replicas", ready(1099), 1100.0)
    found = value(line, "inflight_requests")
    assert found.state is state
    assert found.coverage == pytest.approx(coverage)
    assert (found.value is None) is (state is S.STALE)


def test_a_field_that_nobody_reports_is_unknown_never_zero() -> None:
    found = last_signal(busy(range(1000, 1100), completions=None, waiting=None)).windows["20"]
    for name in set(ALL) - {"decoding_speed"}:
        assert (name, found[name].value, found[name].state) == (name, None, S.UNKNOWN)


def test_nothing_readable_in_300_s_is_unknown() -> None:
    line = Line()
    line.add("telemetry.replicas", ready(1000))
    line.samples(sample(at_s) for at_s in range(1000, 1050))
    line.add("telemetry.replicas", ready(1345), 1346.0)
    assert value(line, "inflight_requests").state is S.STALE
    line.add("telemetry.replicas", ready(1359), 1360.0)
    assert value(line, "inflight_requests").state is S.UNKNOWN


IDLE: dict[str, Any] = {
    "arrivals": 0,
    "completions": 0,
    "running": 0.0,
    "waiting": 0.0,
    "input_tokens": 0,
    "cached_tokens": 0,
}


def test_an_idle_engine_is_a_known_zero_and_has_no_latency() -> None:
    found = last_signal(busy(range(1000, 1100), **IDLE)).windows["20"]
    assert (found["inflight_requests"].value, found["inflight_requests"].state) == (0.0, S.FRESH)
    assert (found["model_unit_utilization"].value, found["model_unit_utilization"].state) == (0.0, S.FRESH)
    for name in ("ttft", "e2e_latency", "cache_hit_rate"):
        assert (found[name].state, found[name].value) == (S.UNDEFINED, None)
        assert found[name].coverage == 1.0


def test_a_hung_engine_is_no_idle_one() -> None:
    """Its counts are known zeros, but requests are in it: no latency to measure, and no known emptiness."""
    line = busy(range(1000, 1060), ttft_ms=histogram(0, 1, 0, 0))
    hung: dict[str, Any] = {**IDLE, "running": 8.0, "waiting": 3.0, "ttft_ms": histogram(0, 0, 0, 0)}
    line.samples(sample(at_s, replica, **hung) for at_s in range(1060, 1120) for replica in ("r1", "r2"))
    found = last_signal(line).windows["20"]
    assert found["inflight_requests"].value == 22.0
    assert (found["ttft"].state, found["ttft"].coverage) == (S.STALE, 1.0)


def test_half_a_window_of_silence_is_no_known_zero() -> None:
    line = busy(range(1000, 1090), **IDLE)
    line.add("telemetry.replicas", ready(1099), 1100.0)
    assert value(line, "ttft").state is S.UNKNOWN


def test_unstreamed_answers_have_no_time_to_a_first_token() -> None:
    fields: dict[str, Any] = {"ttft_ms": histogram(0, 1, 0, 0), "tpot_ms": histogram(1, 0, 0, 0), "output_tokens": 9}
    unstreamed = last_signal(busy(range(1000, 1100), streamed_fraction=0.0, **fields)).windows["20"]
    mixed = last_signal(busy(range(1000, 1100), streamed_fraction=0.4, **fields)).windows["20"]
    for name in ("ttft", "decoding_speed", "throughput_per_replica"):
        assert unstreamed[name].state is S.UNKNOWN
        assert mixed[name].state is S.FRESH
