"""Failures of other autoscalers: flapping, stabilisation, latency floors, ownership, units. See test_scenarios."""

from records.scaling_memory import Recommendation, ScalingMemory
from records.signals import DrainCandidate
from tests.decisions.ticks import T0, Endpoint, Reading, decide, in_flight, policy_of, settled, signal_of, what

PAIR = policy_of(metrics=[{"name": "inflight_requests"}, {"name": "ttft", "target": 500}])
WINDOW = 60


# flapping, stabilisation, over-scaling


def run_recommendations(replicas: int, asked: list[int], memory: ScalingMemory | None = None) -> list[int]:
    endpoint = Endpoint(policy_of(), replicas, memory or settled())
    return endpoint.run(len(asked), lambda tick, current: in_flight(8.0 * asked[tick]))


def test_d4_d12_the_largest_of_the_window_counts_for_down() -> None:
    """ray-project/ray#46497: [10, 10, 15, 10, 10, 5] gave 5, the last."""
    assert run_recommendations(10, [10, 10, 15, 10, 10, 5])[-1] == 15


def test_d12_one_tick_of_many_is_a_mean_of_its_window_for_up() -> None:
    """[2, 2, 2, 15, 2, 2]: 15 for 5 s is 15 * 5 s + 2 * 15 s in the window of 20 s."""
    endpoint = Endpoint(policy_of(), replicas=2, memory=settled())
    assert endpoint.tick(in_flight(8.0 * (15 * 5 + 2 * 15) / 20)).desired == 6


def test_d7_a_metric_that_comes_and_goes_does_not_flap() -> None:
    """kedacore/keda#5409: fallback and formula swung between 3 and 12."""
    endpoint = Endpoint(policy_of(), replicas=12, memory=settled())
    flapped = endpoint.run(100, lambda tick, replicas: in_flight(24.0 if tick % 2 else "unknown"))
    assert set(flapped) == {12}


def test_d8_a_falling_need_above_what_is_goes_up_to_the_need_not_the_largest() -> None:
    """kubernetes/kubernetes#98174: recommendations 10, 9, 8 with 7 replicas."""
    kept = tuple(Recommendation(at_s=T0 - ago, replicas=replicas) for ago, replicas in ((10, 10), (5, 9)))
    decision, _ = decide(policy_of(), signal_of(policy_of(), in_flight(64.0), spec=7), settled(recommendations=kept))
    assert what(decision) == ("scale_up", 8, "metric")
    decision, _ = decide(policy_of(), signal_of(policy_of(), in_flight(48.0), spec=7), settled(recommendations=kept))
    assert what(decision) == ("hold", 7, "stabilising")


def test_d9_a_decision_names_the_window_that_bound_it() -> None:
    """kubernetes/kubernetes#101371."""
    kept = (Recommendation(at_s=T0 - 200, replicas=8),)
    decision, _ = decide(policy_of(), signal_of(policy_of(), in_flight(8.0), spec=10), settled(recommendations=kept))
    assert (decision.desired, decision.bound) == (8, "stabilisation")
    assert f"8 were needed at {T0 - 200}, within 300 s" in decision.detail


def test_d10_without_evidence_nothing_grows() -> None:
    """llm-d/llm-d-autoscaling#380: every loop added one, with no load."""
    for readings in (
        {"inflight_requests": "unknown", "ttft": "unknown"},
        {"inflight_requests": 0.0, "ttft": "undefined"},
    ):
        endpoint = Endpoint(PAIR, replicas=1, memory=settled())
        assert set(endpoint.run(20, lambda tick, replicas, r=readings: r)) == {1}  # type: ignore[misc]  # bound at once


def test_d11_d16_one_stabilisation_then_at_most_some_ticks() -> None:
    """llm-d/llm-d-autoscaling#1352, vllm-project/aibrix#1159: 3 to 1 in one window and two ticks."""
    endpoint = Endpoint(policy_of(), replicas=3, memory=settled())
    endpoint.run(WINDOW, lambda tick, replicas: in_flight(24.0))
    assert endpoint.run(WINDOW + 1, lambda tick, replicas: in_flight(0.0))[-3:] == [3, 2, 1]


def test_d13_one_low_tick_among_high_ones_changes_nothing() -> None:
    """skypilot-org/skypilot#4444: 19 highs, 1 low, 19 highs."""
    asked = [10] * 19 + [3] + [10] * 19
    assert set(run_recommendations(10, asked)) == {10}
    assert run_recommendations(4, asked)[-1] == 10


def test_d15_a_load_far_under_a_large_fleet_brings_it_down() -> None:
    """vllm-project/aibrix#593: the sum over the fleet, not the mean of a replica."""
    endpoint = Endpoint(policy_of(maxReplicas=500), replicas=400)
    assert endpoint.run(WINDOW + 10, lambda tick, replicas: in_flight(9.0))[-1] == 2


def test_d18_a_latency_floor_ends_with_the_traffic() -> None:
    """ai-dynamo/dynamo PR#8861: 218 ms against 200 ms pinned two replicas after the traffic stopped."""
    policy = policy_of(metrics=[{"name": "inflight_requests"}, {"name": "ttft", "target": 200}])
    endpoint = Endpoint(policy, replicas=2)
    endpoint.run(WINDOW, lambda tick, replicas: {"inflight_requests": 8.0, "ttft": 218.0})
    assert endpoint.replicas == 2
    assert endpoint.run(WINDOW + 2, lambda tick, replicas: {"inflight_requests": 0.0, "ttft": "undefined"})[-1] == 1


def test_d19_a_latency_far_over_its_target_grows_the_fleet() -> None:
    """ai-dynamo/dynamo#10528: clients wait 160 s; the observed value decides, limited by the cycle."""
    decision, _ = decide(PAIR, signal_of(PAIR, {"inflight_requests": 8.0, "ttft": 160_000.0}, spec=1), settled())
    assert (what(decision), decision.bound) == (("scale_up", 5, "metric"), "up_limit")


# ownership, units


def test_e12_the_hottest_cache_is_not_the_first_to_go() -> None:
    """llm-d/llm-d-autoscaling#163: the signal's order is kept."""
    order = tuple(
        DrainCandidate(replica=name, inflight=1.0, cache_hit_rate=rate)
        for name, rate in (("b", 0.1), ("c", 0.1), ("a", 0.9))
    )
    decision, _ = decide(policy_of(), signal_of(policy_of(), in_flight(8.0), spec=3, drain_order=order), settled())
    assert [it.replica for it in decision.victims] == ["b"]


def test_f3_a_change_by_hand_is_taken_over_and_said() -> None:
    """ai-dynamo/dynamo#4420."""
    memory = settled(spec_seen=4)
    decision, _ = decide(policy_of(), signal_of(policy_of(), in_flight(32.0), spec=9), memory)
    assert what(decision) == ("hold", 9, "target_changed")


def test_f9_a_total_is_divided_once() -> None:
    """kedacore/keda#5781: a total of 100 at 10 a replica on 5 replicas needs 10; not 50, not 2."""
    policy = policy_of(metrics=[{"name": "queue_depth", "target": 10}])
    decision, _ = decide(policy, signal_of(policy, {"queue_depth": 100.0}, spec=5), settled())
    assert decision.candidates[0].proposed == 10


def test_h4_a_latency_decides_where_use_and_queue_see_nothing() -> None:
    """llm-d/llm-d-autoscaling#741: KV use 0.5, no queue, TTFT three times its target."""
    policy = policy_of(
        metrics=[{"name": "token_utilization"}, {"name": "queue_depth"}, {"name": "ttft", "target": 500}]
    )
    readings: dict[str, Reading] = {"token_utilization": 0.5, "queue_depth": 0.0, "ttft": 1500.0}
    decision, _ = decide(policy, signal_of(policy, readings, spec=4), settled())
    assert what(decision) == ("scale_up", 8, "metric")
    assert [it.metric for it in decision.candidates if it.rejected_because is None] == ["ttft"]
