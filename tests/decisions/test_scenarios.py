"""Real failures of other autoscalers, as the signals they would give; the ids are those of public reports.

Each names the kind of fault. What a signal makes of raw telemetry is tested with the signals; here is what the
decision makes of the signal.
"""

import pytest

from records.enums import SupplySource, ValueState
from records.signals import DownBlocker, DrainCandidate, SignalValue, StartingReplica, SupplySignal
from tests.decisions.ticks import Endpoint, Reading, decide, in_flight, policy_of, settled, signal_of, what

PAIR = policy_of(metrics=[{"name": "inflight_requests"}, {"name": "ttft", "target": 500}])
WINDOW = 60


def of_ten(reading: float | None, state: ValueState, coverage: float, check: str | None = None) -> SignalValue:
    return SignalValue(value=reading, state=state, coverage=coverage, measured=round(10 * coverage), check=check)


# missing, stale or NaN data taken as zero


def test_a3_one_sample_never_justifies_the_minimum() -> None:
    """kedacore/keda#6762: a single drop between normal polls."""
    endpoint = Endpoint(policy_of(), replicas=10)
    endpoint.run(2 * WINDOW, lambda tick, replicas: in_flight(80.0))
    assert what(endpoint.tick(in_flight(0.0))) == ("hold", 10, "stabilising")
    assert set(endpoint.run(WINDOW, lambda tick, replicas: in_flight(80.0))) == {10}


def test_a4_all_series_at_zero_at_once_are_an_outage_of_the_source() -> None:
    """kubernetes/kubernetes#104387: the signal's cross-check makes the zeros suspect."""
    zero = of_ten(None, ValueState.SUSPECT, 1.0, "all series zero while the router counts arrivals")
    decision, _ = decide(PAIR, signal_of(PAIR, {"inflight_requests": zero, "ttft": zero}, spec=10), settled())
    assert what(decision) == ("hold", 10, "suspect")
    assert "all series zero while the router counts arrivals" in decision.detail


@pytest.mark.parametrize(("known", "expected"), [(24.0, ("hold", 10, "unknown")), (120.0, ("scale_up", 15, "metric"))])
def test_a5_an_unknown_metric_forbids_down_and_not_up(known: float, expected: tuple[str, int, str]) -> None:
    """kubernetes/kubernetes#99394: one metric says 3, the other is missing."""
    decision, _ = decide(PAIR, signal_of(PAIR, {"inflight_requests": known, "ttft": "unknown"}, spec=10), settled())
    assert what(decision) == expected


def test_a8_one_replica_without_metrics_does_not_stop_growth() -> None:
    """vllm-project/aibrix#1032: 9 of 10 report a KV use of 0.95."""
    policy = policy_of(metrics=[{"name": "token_utilization", "target": 0.8}])
    signal = signal_of(policy, {"token_utilization": of_ten(0.95, ValueState.PARTIAL, 0.9)}, spec=10)
    decision, _ = decide(policy, signal, settled())
    assert what(decision) == ("scale_up", 11, "metric")


def test_a8_one_replica_without_metrics_stops_shrinking() -> None:
    policy = policy_of(metrics=[{"name": "token_utilization", "target": 0.8}])
    blocker = DownBlocker(kind="coverage", replica="chat-7")
    value = of_ten(0.2, ValueState.FRESH, 0.9)
    decision, _ = decide(
        policy, signal_of(policy, {"token_utilization": value}, spec=10, down_blockers=(blocker,)), settled()
    )
    assert what(decision) == ("hold", 10, "insufficient_evidence")
    assert "chat-7" in decision.detail


def test_a9_a_replica_that_is_not_ready_does_not_count() -> None:
    """volcano-sh/kthena#1403: 9 ready ones are covered, the tenth still starts."""
    policy = policy_of(metrics=[{"name": "token_utilization", "target": 0.8}])
    value = SignalValue(value=0.2, state=ValueState.FRESH, coverage=1.0, measured=9)
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=9, starting=1)
    decision, _ = decide(policy, signal_of(policy, {"token_utilization": value}, spec=10, supply=supply), settled())
    assert what(decision) == ("scale_down", 5, "metric")


def test_a12_at_zero_the_gateway_wakes_it() -> None:
    """llm-d/llm-d PR#2492: no engine has a series, the gateway holds 3 requests."""
    policy = policy_of(minReplicas=0, metrics=[{"name": "inflight_requests"}, {"name": "gpu_utilization"}])
    readings: dict[str, Reading] = {"inflight_requests": 3.0, "gpu_utilization": "unknown"}
    decision, _ = decide(policy, signal_of(policy, readings, spec=0), settled())
    assert what(decision) == ("scale_up", 1, "metric")


def test_a16_a_present_zero_is_a_value() -> None:
    """ray-project/ray#61794: a report of 0 was treated as absent."""
    decision, _ = decide(policy_of(), signal_of(policy_of(), in_flight(0.0), spec=2), settled())
    assert (decision.candidates[0].observed, decision.candidates[0].proposed) == (0.0, 0)
    assert what(decision) == ("scale_down", 1, "metric")


def test_a17_an_idle_latency_does_not_reset_the_way_down() -> None:
    """ray-project/ray PR#64725: p99 of nothing is undefined, not missing."""
    endpoint = Endpoint(PAIR, replicas=8)
    endpoint.run(2 * WINDOW, lambda tick, replicas: {"inflight_requests": 64.0, "ttft": 500.0})
    idle = endpoint.run(WINDOW + 5, lambda tick, replicas: {"inflight_requests": 0.0, "ttft": "undefined"})
    assert idle[WINDOW - 2 : WINDOW + 2] == [8, 4, 2, 1]


def test_a23_an_unreadable_count_is_not_idle() -> None:
    """ai-dynamo/dynamo#14765: the count cannot be read, the latencies are NaN."""
    nan = SignalValue(value=float("nan"), state=ValueState.PARTIAL, coverage=1.0, measured=10)
    decision, _ = decide(PAIR, signal_of(PAIR, {"inflight_requests": "unknown", "ttft": nan}, spec=10), settled())
    assert decision.action == "hold"


def test_a24_a_count_read_as_zero_and_one_not_read_decide_differently() -> None:
    """ai-dynamo/dynamo PR#7067: three NaN intervals with a readable 0, and without."""
    desired = {}
    for name, count in {"readable": 0.0, "unreadable": "unknown"}.items():
        endpoint = Endpoint(PAIR, replicas=10, memory=settled())
        ttft = "undefined" if name == "readable" else "unknown"
        desired[name] = endpoint.run(3, lambda tick, replicas, c=count, t=ttft: {"inflight_requests": c, "ttft": t})  # type: ignore[misc]  # bound at once
    assert desired == {"readable": [5, 3, 2], "unreadable": [10, 10, 10]}


def test_a25_a_ratio_without_a_denominator_does_not_freeze_the_fleet() -> None:
    """vanvalenlab/kiosk-console#141: after scaling down, the metric is undefined for ever."""
    policy = policy_of(metrics=[{"name": "ttft"}])
    endpoint = Endpoint(policy, replicas=6)
    assert endpoint.run(WINDOW + 5, lambda tick, replicas: {"ttft": "undefined"})[-1] == 1


def test_a21_a_rollout_neither_grows_nor_shrinks_by_its_surge() -> None:
    """hiero-ledger/hiero-mirror-node#11692: the surge is no supply, the mean over measured replicas no more load."""
    policy = policy_of(metrics=[{"name": "gpu_utilization", "target": 0.5}])
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=2, starting=1)
    spike = SignalValue(value=0.7, state=ValueState.PARTIAL, coverage=0.6, measured=2)
    decision, _ = decide(
        policy, signal_of(policy, {"gpu_utilization": spike}, spec=3, supply=supply, rollout=True), settled()
    )
    assert what(decision) == ("hold", 3, "starting")
    gone, _ = decide(policy, signal_of(policy, {"gpu_utilization": "unknown"}, spec=3, rollout=True), settled())
    assert what(gone) == ("hold", 3, "unknown")


# late starts, pending, rolling, failing replicas


def test_b12_a_restarted_pipeline_does_not_come_down_before_a_whole_window() -> None:
    """knative/serving#2705: the first window is half empty."""
    endpoint = Endpoint(policy_of(), replicas=10)
    first = endpoint.run(WINDOW - 1, lambda tick, replicas: in_flight(8.0))
    assert set(first) == {10}
    assert {it.reason.value for it in endpoint.decisions} == {"insufficient_evidence"}


def test_b24_steady_load_under_the_target_is_evidence_of_life() -> None:
    """pravega/pravega#6067: traffic between half the target and the target."""
    endpoint = Endpoint(policy_of(), replicas=3, memory=settled())
    assert set(endpoint.run(2 * WINDOW, lambda tick, replicas: in_flight(18.0))) == {3}


def test_c2_starting_replicas_are_waited_for() -> None:
    """inference-sim#1109: loading instances were invisible, so more were asked for at each tick."""
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=2, starting=8)
    decision, _ = decide(policy_of(), signal_of(policy_of(), in_flight(80.0), spec=10, supply=supply), settled())
    assert what(decision) == ("hold", 10, "starting")


def test_c5_within_the_tolerance_the_spec_stays_not_the_status() -> None:
    """kubernetes/kubernetes#138505: spec 10, 12 alive in a rollout, ratio 1.03."""
    policy = policy_of(metrics=[{"name": "cpu_utilization", "target": 0.5}])
    value = SignalValue(value=0.515, state=ValueState.FRESH, coverage=1.0, measured=12)
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=12)
    decision, _ = decide(
        policy, signal_of(policy, {"cpu_utilization": value}, spec=10, supply=supply, rollout=True), settled()
    )
    assert what(decision) == ("hold", 10, "within_target")


def test_c10_a_pending_replica_is_taken_first_and_blocks_nothing() -> None:
    """ai-dynamo/dynamo#14251: desired 5, ready 4, one pending for hours, little load. Also vllm-project/aibrix#617."""
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=4, unschedulable=1, unschedulable_replicas=("chat-4",))
    order = (DrainCandidate(replica="chat-0", inflight=0.0),)
    signal = signal_of(policy_of(), in_flight(32.0), spec=5, supply=supply, drain_order=order)
    decision, _ = decide(policy_of(), signal, settled())
    assert what(decision) == ("scale_down", 4, "metric")
    assert [it.replica for it in decision.victims] == ["chat-4"]


def test_c10_a_pending_replica_is_no_reason_to_ask_for_more() -> None:
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=4, unschedulable=1)
    endpoint = Endpoint(policy_of(), replicas=5, memory=settled())
    for _ in range(50):
        assert what(endpoint.tick(in_flight(40.0), supply=supply)) == ("hold", 5, "unschedulable")


def test_c11_a_slow_start_is_compared_with_what_was_asked_for() -> None:
    """ray-project/ray#18925: the same need, decided again while nothing is ready yet."""
    endpoint = Endpoint(policy_of(), replicas=4, memory=settled())
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=4)
    assert what(endpoint.tick(in_flight(56.0), supply=supply)) == ("scale_up", 7, "metric")
    supply = SupplySignal(
        source=SupplySource.OBSERVED,
        ready=4,
        starting=3,
        starting_replicas=tuple(StartingReplica(replica=f"chat-{i}", age_s=30) for i in (4, 5, 6)),
    )
    for _ in range(20):
        assert what(endpoint.tick(in_flight(56.0), supply=supply)) == ("hold", 7, "starting")


def test_c12_the_maximum_holds_whoever_set_the_target() -> None:
    """skypilot-org/skypilot#3255: more than the maximum after an update."""
    decision, _ = decide(
        policy_of(maxReplicas=5), signal_of(policy_of(maxReplicas=5), in_flight(800.0), spec=8), settled()
    )
    assert what(decision) == ("scale_down", 5, "maximum")


def test_c14_a_revision_that_never_starts_is_given_up() -> None:
    """knative/serving#13677: nothing ready, the gateway's demand is constant and then grows."""
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=0, failed=3, failed_starts=9)
    endpoint = Endpoint(policy_of(), replicas=3, memory=settled())
    for load in (24.0, 24.0, 80.0, 400.0):
        assert what(endpoint.tick(in_flight(load), supply=supply)) == ("hold", 3, "failed_starts")
