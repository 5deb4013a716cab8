"""What one metric over one window asks for, before any bound."""

from typing import Any

import pytest

from records.decisions import Candidate
from records.enums import SupplySource, ValueState
from records.fields import COUNT_MAX
from records.signals import SignalValue, SupplySignal
from tests.decisions.ticks import Reading, decide, keys_of, policy_of, settled, signal_of


def candidate_of(metric: dict[str, Any], reading: Reading, **fields: Any) -> Candidate:
    """The up window's candidate of a policy with this one metric; 10 replicas unless the fields say otherwise."""
    policy = policy_of(metrics=[metric], maxReplicas=1000)
    signal = signal_of(policy, {keys_of(policy)[0]: reading}, **({"spec": 10} | fields))
    decision, _ = decide(policy, signal, settled())
    assert [it.window_s for it in decision.candidates] == [20, 300]
    return decision.candidates[0]


INFLIGHT = {"name": "inflight_requests"}
UNITS = {"name": "model_unit_utilization"}
TTFT = {"name": "ttft", "target": 500}


@pytest.mark.parametrize(
    ("metric", "observed", "proposed"),
    [
        # totals: ceil(total / target), without tolerance
        (INFLIGHT, 0.0, 0),
        (INFLIGHT, 0.001, 1),
        (INFLIGHT, 80.0, 10),
        (INFLIGHT, 80.01, 11),
        (INFLIGHT, 79.9, 10),
        (INFLIGHT, 72.0, 9),
        (INFLIGHT, 1e15, COUNT_MAX),
        ({"name": "throughput_per_replica", "target": 1500}, 15_001.0, 11),
        ({"name": "queue_depth", "target": 4}, 9.0, 3),
        ({"name": "active_sessions", "target": 0.1}, 0.3, 3),
        ({"name": "active_sessions", "target": 0.6}, 4.2, 7),
        # utilisations: ceil(measured * observed / target), exactly current within 10 %
        (UNITS, 0.75, 10),
        (UNITS, 0.825, 10),
        (UNITS, 0.675, 10),
        (UNITS, 0.826, 12),
        (UNITS, 0.674, 9),
        (UNITS, 0.0, 0),
        (UNITS, 30.0, 400),
        ({"name": "gpu_utilization"}, 0.4, 5),
        ({"name": "token_utilization"}, 0.96, 12),
        ({"name": "cpu_utilization", "target": 0.5}, 1.0, 20),
        ({"name": "gpu_memory", "target": 0.9}, 0.92, 10),
        # values
        (TTFT, 500.0, 10),
        (TTFT, 550.0, 10),
        (TTFT, 551.0, 12),
        (TTFT, 1500.0, 30),
        (TTFT, 1e15, COUNT_MAX),
        ({"name": "decoding_speed"}, 100.0, 20),
        ({"name": "e2e_latency", "percentile": "p50", "target": 1000}, 100.0, 1),
    ],
)
def test_a_value_asks_for_the_fleet_it_needs(metric: dict[str, Any], observed: float, proposed: int) -> None:
    candidate = candidate_of(metric, observed)
    assert candidate.proposed == proposed
    assert candidate.observed == observed
    assert candidate.state is ValueState.FRESH


@pytest.mark.parametrize(
    ("reading", "because"),
    [
        ("unknown", "the value is unknown"),
        ("stale", "the value is stale"),
        ("undefined", "the value is undefined"),
        (SignalValue(value=None, state=ValueState.SUSPECT, coverage=1.0, check="balance"), "(balance)"),
        (SignalValue(value=7.0, state=ValueState.SUSPECT, coverage=1.0, measured=9), "the value is suspect"),
        (SignalValue(value=7.0, state=ValueState.FRESH, coverage=1.0), "measured on no ready replica"),
        (SignalValue(value=None, state=ValueState.FRESH, coverage=1.0, measured=9), "missing"),
        (SignalValue(value=float("nan"), state=ValueState.FRESH, coverage=1.0, measured=9), "no finite number"),
        (SignalValue(value=float("inf"), state=ValueState.FRESH, coverage=1.0, measured=9), "no finite number"),
        (SignalValue(value=-1.0, state=ValueState.PARTIAL, coverage=1.0, measured=9), "no finite number"),
    ],
)
def test_only_fresh_and_partial_values_are_computed_with(reading: Reading, because: str) -> None:
    candidate = candidate_of(UNITS, reading)
    assert candidate.proposed is None
    assert candidate.rejected_because is not None
    assert because in candidate.rejected_because
    if candidate.state not in (ValueState.FRESH, ValueState.PARTIAL):
        assert candidate.observed is None


def test_a_known_zero_is_no_unknown() -> None:
    assert candidate_of(INFLIGHT, 0.0).proposed == 0
    assert candidate_of(INFLIGHT, "unknown").proposed is None


def test_a_window_that_the_signal_lacks_is_unknown() -> None:
    policy = policy_of()
    signal = signal_of(policy, {})
    decision, _ = decide(policy, signal, settled())
    assert [(it.state, it.coverage) for it in decision.candidates] == [(ValueState.UNKNOWN, 0.0)] * 2


def test_the_cache_hit_rate_is_shown_and_never_scales() -> None:
    for observed in (0.0, 0.99):
        candidate = candidate_of({"name": "cache_hit_rate"}, observed)
        assert (candidate.observed, candidate.proposed) == (observed, None)
        assert candidate.rejected_because == "an efficiency signal, never scales by itself"


def test_a_metric_without_a_target_proposes_nothing() -> None:
    candidate = candidate_of({"name": "throughput_per_replica"}, 5000.0)
    assert (candidate.target, candidate.proposed) == (None, None)


def test_only_measured_replicas_are_projected() -> None:
    """4 of 10 are measured, 6 start: what they need is compared with what was asked for, not added to it."""
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=4, starting=6)
    assert candidate_of(UNITS, 0.9, supply=supply).proposed == 5


@pytest.mark.parametrize(
    ("metric", "observed", "proposed"), [(INFLIGHT, 64.0, 10), (UNITS, 0.375, 6), (UNITS, 0.75, 10)]
)
def test_replicas_given_up_hearing_count_with_their_target(
    metric: dict[str, Any], observed: float, proposed: int
) -> None:
    reading = SignalValue(value=observed, state=ValueState.FRESH, coverage=1.0, measured=8)
    candidate = candidate_of(metric, reading, unheard=("chat-8", "chat-9"))
    assert candidate.proposed == proposed


def test_percentiles_are_read_under_their_own_key() -> None:
    policy = policy_of(metrics=[{"name": "ttft"}, {"name": "ttft", "percentile": "p50", "target": 100}])
    decision, _ = decide(policy, signal_of(policy, {"ttft": 500.0, "ttft:p50": 200.0}, spec=10))
    assert [(it.percentile, it.observed, it.proposed) for it in decision.candidates[:2]] == [
        ("p95", 500.0, 10),
        ("p50", 200.0, 20),
    ]


def test_equal_windows_make_one_candidate() -> None:
    policy = policy_of(scaleDown={"windowSeconds": 20}, scaleUp={"windowSeconds": 20})
    decision, _ = decide(policy, signal_of(policy, {"inflight_requests": 8.0}))
    assert [it.window_s for it in decision.candidates] == [20]
