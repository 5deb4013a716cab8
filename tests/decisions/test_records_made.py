"""What a decision leaves behind: its chain, candidates, victims, GPUs, and the ticks that were skipped."""

from typing import Any

import msgspec
import pytest

from decisions.chain import decision_id, policy_hash
from decisions.scaling import skip_ticks
from records.decisions import ScalingDecision, SkippedTicks
from records.enums import SupplySource
from records.scaling_memory import Recommendation
from records.signals import DrainCandidate, StartingReplica, SupplySignal
from tests.decisions.ticks import T0, Endpoint, Reading, decide, policy_of, settled, signal_of


def test_decisions_make_a_chain() -> None:
    endpoint = Endpoint(policy_of(), replicas=4)
    endpoint.run(5, lambda tick, _: {"inflight_requests": 32.0 + 8 * tick})
    made = endpoint.decisions
    assert made[0].previous_id is None
    assert [it.previous_id for it in made[1:]] == [it.decision_id for it in made[:-1]]
    assert all(it.decision_id == decision_id(it) for it in made)
    assert {it.policy_hash for it in made} == {policy_hash(endpoint.policy)}
    for decision in made:
        assert msgspec.json.decode(msgspec.json.encode(decision), type=ScalingDecision) == decision


def test_exactly_one_candidate_decides_and_the_others_say_why_not() -> None:
    policy = policy_of(metrics=[{"name": "inflight_requests"}, {"name": "ttft"}, {"name": "cache_hit_rate"}])
    readings: dict[str, Reading] = {"inflight_requests": 96.0, "ttft": "undefined", "cache_hit_rate": 0.5}
    decision, _ = decide(policy, signal_of(policy, readings, spec=10))
    assert [it.rejected_because for it in decision.candidates] == [
        None,
        "the value is undefined",
        "an efficiency signal, never scales by itself",
        "the window of 20 s decided",
        "the value is undefined",
        "an efficiency signal, never scales by itself",
    ]


def test_where_a_floor_decides_no_candidate_does() -> None:
    policy = policy_of(minReplicas=6)
    decision, _ = decide(policy, signal_of(policy, {"inflight_requests": 16.0}, spec=1))
    assert [it.rejected_because for it in decision.candidates] == ["minimum decided"] * 2


@pytest.mark.parametrize(
    ("keys", "current", "floors"),
    [
        ({}, 4, (1, None)),
        ({"minReplicas": 0}, 4, (1, None)),
        ({"minReplicas": 0}, 0, (0, None)),
        ({"minReplicas": 3, "provisionedConcurrency": 17}, 4, (3, 3)),
        ({"provisionedConcurrency": 10, "concurrency": {"target": 2.5}}, 4, (1, 4)),
    ],
)
def test_floors_are_told(keys: dict[str, Any], current: int, floors: tuple[int, int | None]) -> None:
    policy = policy_of(**keys)
    decision, _ = decide(policy, signal_of(policy, {"inflight_requests": 1.0}, spec=current))
    told = decision.floors
    assert (told.minimum, told.provisioned) == floors
    assert (told.schedule, told.forecast) == (None, None)


@pytest.mark.parametrize(
    ("hardware", "gpus"), [("H100x4", 20), ("A100x1", 5), ("H100", None), ("x", None), (None, None)]
)
def test_gpus_are_those_of_the_desired_replicas(hardware: str | None, gpus: int | None) -> None:
    policy = policy_of(model={"name": "m", "hardware": hardware})
    decision, _ = decide(policy, signal_of(policy, {"inflight_requests": 40.0}))
    assert (decision.desired, decision.gpus) == (5, gpus)


def test_starting_replicas_count_while_they_can_still_be_expected() -> None:
    starting = tuple(StartingReplica(replica=f"new-{age}", age_s=age) for age in (10, 119, 120, 500))
    supply = SupplySignal(
        source=SupplySource.OBSERVED, ready=4, starting=4, starting_replicas=starting, startup_p95_s=120.0, draining=2
    )
    policy = policy_of()
    decision, _ = decide(policy, signal_of(policy, {"inflight_requests": 1.0}, supply=supply))
    assert (decision.supply.ready, decision.supply.starting, decision.supply.draining) == (4, 2, 2)


# victims


def down(supply: SupplySignal, order: list[str], spec: int = 10, load: float = 56.0, **fields: Any) -> ScalingDecision:
    policy = policy_of()
    drain = tuple(DrainCandidate(replica=name, inflight=index + 0.5) for index, name in enumerate(order))
    signal = signal_of(policy, {"inflight_requests": load}, spec=spec, supply=supply, drain_order=drain, **fields)
    decision, _ = decide(policy, signal, settled())
    return decision


def test_victims_are_the_first_of_the_drain_order() -> None:
    decision = down(SupplySignal(source=SupplySource.OBSERVED, ready=10), ["c", "a", "b", "d"])
    assert (decision.action, decision.desired) == ("scale_down", 7)
    assert [(it.replica, it.inflight) for it in decision.victims] == [("c", 0.5), ("a", 1.5), ("b", 2.5)]


def test_replicas_that_serve_nobody_leave_first() -> None:
    supply = SupplySignal(
        source=SupplySource.OBSERVED,
        ready=7,
        starting=2,
        unschedulable=1,
        starting_replicas=(StartingReplica(replica="old", age_s=200), StartingReplica(replica="young", age_s=20)),
        unschedulable_replicas=("pending",),
    )
    assert [it.replica for it in down(supply, ["c"], load=64.0).victims] == ["pending", "young"]
    assert [it.replica for it in down(supply, ["c", "d"], load=48.0).victims] == ["pending", "young", "old", "c"]


def test_ready_replicas_stay_while_missing_ones_without_a_name_can_go() -> None:
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=7, unschedulable=3)
    assert down(supply, ["c", "d"], load=56.0).victims == ()
    assert [it.replica for it in down(supply, ["c", "d"], load=48.0).victims] == ["c"]


@pytest.mark.parametrize(
    ("p99_ms", "deadline_s"),
    [
        (None, 30.0),
        (1000.0, 30.0),
        (45_500.0, 45.5),
        (float("nan"), 30.0),
        (float("inf"), 30.0),
        (1e12 / 3, 333333333.0),
    ],
)
def test_draining_waits_for_the_slowest_of_a_hundred(p99_ms: float | None, deadline_s: float) -> None:
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=10)
    assert down(supply, [], drain_p99_ms=p99_ms).drain_deadline_s == deadline_s


def test_only_a_scale_down_has_victims_and_a_deadline() -> None:
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=10)
    for load in (80.0, 96.0):
        decision = down(supply, ["a"], load=load, drain_p99_ms=1e5)
        assert (decision.victims, decision.drain_deadline_s) == ((), None)


# skipped ticks


def test_skipped_ticks_are_one_hold_and_begin_the_evidence_anew() -> None:
    policy = policy_of()
    memory = settled(previous_id="a" * 64, recommendations=(Recommendation(at_s=T0 - 100, replicas=9),), spec_seen=10)
    skipped = SkippedTicks(first_tick=T0 - 95, last_tick=T0 - 5)
    signal = signal_of(policy, {"inflight_requests": 8.0}, spec=3)
    decision, after = skip_ticks(policy, policy_hash(policy), signal, memory, skipped)
    assert (decision.action, decision.reason, decision.current, decision.desired) == ("hold", "skipped", 3, 3)
    assert (decision.skipped, decision.previous_id) == (skipped, "a" * 64)
    assert decision.decision_id == decision_id(decision) == after.previous_id
    assert len(decision.candidates) == 2
    following, _ = decide(policy, signal, after)
    assert following.previous_id == decision.decision_id
    assert following.reason == "target_changed"
    assert after.evidence_from_s is None
    assert after.recommendations == memory.recommendations


# words


def test_the_detail_names_what_people_must_know() -> None:
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=4, unschedulable=2, failed=1, failed_starts=3)
    policy = policy_of()
    unheard = tuple(f"chat-{index}" for index in range(7))
    signal = signal_of(policy, {"inflight_requests": 1e15}, spec=None, supply=supply, unheard=unheard)
    decision, _ = decide(policy, signal)
    assert decision.detail == (
        "up from 4 to 8: inflight_requests 1e+15 over 20 s at target 8 asks for 4294967294; limited by up_limit; "
        "the target was never observed, current is the ready replicas; 2 cannot be scheduled; "
        "3 failed starts without a ready; "
        "counted at their target, unheard: chat-0, chat-1, chat-2, chat-3, chat-4 and 2 more"
    )


def test_a_held_scale_down_names_the_tick_that_holds_it() -> None:
    policy = policy_of()
    memory = settled(recommendations=(Recommendation(at_s=T0 - 100, replicas=12),))
    decision, _ = decide(policy, signal_of(policy, {"inflight_requests": 8.0}, spec=10), memory)
    assert decision.detail == (
        "hold at 10: inflight_requests 8 over 20 s at target 8 asks for 1, "
        f"but 12 were needed at {T0 - 100}, within 300 s"
    )
