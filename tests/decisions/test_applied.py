"""What came of a decision, its repeats, and a target that someone else changed."""

from typing import Any

import msgspec
import pytest

from decisions.applied import names_decision
from records.decisions import ScalingDecision
from records.enums import OutcomeResult, SupplySource
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import ObservedOutcome, SupplySignal
from tests.decisions.ticks import T0, decide, policy_of, settled, signal_of

POLICY = policy_of(maxReplicas=100)


def tick(
    memory: ScalingMemory,
    index: int,
    load: float | str,
    spec: int | None,
    policy: EndpointPolicy = POLICY,
    **fields: Any,
) -> tuple[ScalingDecision, ScalingMemory]:
    return decide(
        policy, signal_of(policy, {"inflight_requests": load}, spec=spec, at_s=T0 + 5 * index, **fields), memory
    )


def outcome_of(decision: ScalingDecision, result: OutcomeResult, observed: int | None = None) -> ObservedOutcome:
    return ObservedOutcome(decision_id=decision.decision_id, result=result, at_s=decision.at_s + 1, observed=observed)


def what(decision: ScalingDecision) -> tuple[str, int, int, str]:
    return decision.action, decision.current, decision.desired, decision.reason


def test_a_decision_is_repeated_from_the_observed_target_and_never_compounds() -> None:
    memory = settled()
    for index in range(20):
        decision, memory = tick(memory, index, 800.0, spec=10)
        assert what(decision) == ("scale_up", 10, 20, "metric")
    assert memory.pending is not None
    assert (memory.pending.applied, memory.pending.at_s) == (False, T0 + 65)
    decision, memory = tick(memory, 20, 800.0, spec=20)
    assert what(decision) == ("scale_up", 20, 40, "metric")


def test_a_recommendation_that_differs_ends_the_repeats() -> None:
    _, memory = tick(settled(), 0, 112.0, spec=10)
    decision, memory = tick(memory, 1, 96.0, spec=10)
    assert what(decision) == ("scale_up", 10, 12, "metric")
    decision, memory = tick(memory, 2, 80.0, spec=10)
    assert what(decision) == ("hold", 10, 10, "within_target")
    decision, _ = tick(memory, 3, "unknown", spec=10)
    assert what(decision) == ("hold", 10, 10, "unknown")


def test_between_cycles_an_unapplied_decision_is_repeated_for_60_seconds() -> None:
    policy = policy_of(scaleUp={"everySeconds": 150}, maxReplicas=100)
    _, memory = tick(settled(), 0, 112.0, spec=10, policy=policy)
    made = []
    for index in range(1, 16):
        decision, memory = tick(memory, index, 160.0, spec=10, policy=policy)
        made.append((decision.action.value, decision.desired))
    assert made == [("scale_up", 14)] * 12 + [("hold", 10)] * 3


def test_between_cycles_an_applied_decision_is_not_repeated() -> None:
    policy = policy_of(scaleUp={"everySeconds": 150}, maxReplicas=100)
    _, memory = tick(settled(), 0, 112.0, spec=10, policy=policy)
    decision, _ = tick(memory, 1, 160.0, spec=14, policy=policy)
    assert what(decision) == ("hold", 14, 14, "stabilising")


def test_between_cycles_less_load_ends_the_repeats() -> None:
    policy = policy_of(scaleUp={"everySeconds": 150}, maxReplicas=100)
    _, memory = tick(settled(), 0, 112.0, spec=10, policy=policy)
    decision, _ = tick(memory, 1, 88.0, spec=10, policy=policy)
    assert what(decision) == ("hold", 10, 10, "stabilising")


def test_between_cycles_a_smaller_step_down_ends_the_repeats() -> None:
    policy = policy_of(scaleDown={"everySeconds": 150}, maxReplicas=100)
    decision, memory = tick(settled(), 0, 48.0, spec=10, policy=policy)
    assert what(decision) == ("scale_down", 10, 6, "metric")
    decision, memory = tick(memory, 1, 40.0, spec=10, policy=policy)
    assert what(decision) == ("scale_down", 10, 6, "metric")
    decision, _ = tick(memory, 2, 64.0, spec=10, policy=policy)
    assert what(decision) == ("hold", 10, 10, "stabilising")


def test_a_scale_down_goes_no_farther_before_it_was_seen_applied() -> None:
    memory = settled(recommendations=())
    decision, memory = tick(memory, 0, 72.0, spec=10)
    assert what(decision) == ("scale_down", 10, 9, "metric")
    memory = msgspec.structs.replace(memory, recommendations=())
    decision, memory = tick(memory, 1, 8.0, spec=10)
    assert what(decision) == ("scale_down", 10, 9, "metric")
    decision, memory = tick(memory, 2, 8.0, spec=9)
    assert what(decision) == ("scale_down", 9, 5, "metric")


def test_without_an_observed_target_draining_replicas_do_not_halve_the_fleet_again() -> None:
    memory = settled()
    desired = []
    for index, ready in enumerate([10, 8, 6, 5, 5]):
        supply = SupplySignal(source=SupplySource.OBSERVED, ready=ready)
        decision, memory = tick(memory, index, 0.0, spec=None, supply=supply)
        desired.append(decision.desired)
    assert desired[:3] == [5, 5, 5]
    assert desired[3:] == [3, 3]


def test_without_an_observed_target_a_fleet_that_shrank_farther_is_taken_as_it_is() -> None:
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=10)
    _, memory = tick(settled(), 0, 0.0, spec=None, supply=supply)
    fewer = SupplySignal(source=SupplySource.OBSERVED, ready=4)
    decision, _ = tick(memory, 1, 0.0, spec=None, supply=fewer)
    assert what(decision) == ("scale_down", 4, 2, "metric")
    _, following = tick(memory, 1, "unknown", spec=None, supply=fewer)
    assert following.pending is not None
    assert following.pending.applied


@pytest.mark.parametrize("result", [it for it in OutcomeResult if it is not OutcomeResult.APPLIED])
def test_only_applied_is_applied(result: OutcomeResult) -> None:
    first, memory = tick(settled(), 0, 112.0, spec=10)
    decision, memory = tick(memory, 1, 112.0, spec=10, outcome=outcome_of(first, result, observed=10))
    assert memory.pending is not None
    assert not memory.pending.applied
    assert what(decision) == ("scale_up", 10, 14, "metric")
    assert f"came back as {result.value}" in decision.detail


@pytest.mark.parametrize("repeat", [0, 1])
def test_an_outcome_of_any_repeat_shows_it_applied(repeat: int) -> None:
    memory, made = settled(), []
    for index in range(3):
        decision, memory = tick(memory, index, 112.0, spec=10)
        made.append(decision)
    assert len({decision.decision_id for decision in made}) == 3
    _, memory = tick(memory, 3, 80.0, spec=10, outcome=outcome_of(made[repeat], OutcomeResult.APPLIED, 14))
    assert memory.pending is not None
    assert memory.pending.decision_id == made[0].decision_id
    assert memory.pending.applied


def test_an_outcome_of_an_unknown_id_changes_nothing() -> None:
    first, memory = tick(settled(), 0, 112.0, spec=10)
    stranger = msgspec.structs.replace(first, decision_id="0" * 64)
    plain = tick(memory, 1, 112.0, spec=10)
    told = tick(memory, 1, 112.0, spec=10, outcome=outcome_of(stranger, OutcomeResult.APPLIED, 14))
    assert plain == told
    assert names_decision(memory, first.decision_id)
    assert not names_decision(memory, stranger.decision_id)


def test_an_old_outcome_does_not_apply_the_same_number_decided_again() -> None:
    first, memory = tick(settled(), 0, 112.0, spec=10)
    outcome = outcome_of(first, OutcomeResult.APPLIED, 14)
    _, memory = tick(memory, 1, 112.0, spec=14, outcome=outcome)
    _, memory = tick(memory, 2, 112.0, spec=10, outcome=outcome)
    _, memory = tick(memory, 3, 112.0, spec=10, outcome=outcome)
    assert memory.pending is not None
    assert (memory.pending.at_s, memory.pending.applied) == (T0 + 10, False)


def test_what_was_only_advised_has_no_outcomes_to_wait_for() -> None:
    _, memory = tick(settled(), 0, 112.0, spec=10, policy=policy_of(mode="advise"))
    assert memory.made == ()
    assert memory.pending is not None


def test_an_endpoint_remembers_no_more_than_a_minute_of_repeats() -> None:
    memory = settled()
    for index in range(100):
        _, memory = tick(memory, index, 800.0, spec=10)
    assert len(memory.made) == 12
    assert len(msgspec.json.encode(memory)) < 1200
    for index in range(100, 120):
        _, memory = tick(memory, index, 160.0, spec=20)
    assert memory.made == ()


# a target changed by someone else


def test_our_own_change_is_no_news() -> None:
    _, memory = tick(settled(), 0, 112.0, spec=10)
    decision, _ = tick(memory, 1, 112.0, spec=14)
    assert what(decision) == ("hold", 14, 14, "within_target")


def test_a_superseded_decision_that_was_carried_out_is_still_ours() -> None:
    _, memory = tick(settled(), 0, 112.0, spec=10)
    _, memory = tick(memory, 1, 120.0, spec=10)
    decision, _ = tick(memory, 2, 112.0, spec=14)
    assert decision.reason == "within_target"


def test_what_the_actuator_could_make_of_it_is_ours() -> None:
    first, memory = tick(settled(), 0, 112.0, spec=10)
    decision, _ = tick(memory, 1, 104.0, spec=13, outcome=outcome_of(first, OutcomeResult.APPLIED, observed=13))
    assert what(decision) == ("hold", 13, 13, "within_target")


def test_what_a_stranger_says_it_applied_is_not_ours() -> None:
    first, memory = tick(settled(), 0, 112.0, spec=10)
    stranger = msgspec.structs.replace(first, decision_id="0" * 64)
    decision, _ = tick(memory, 1, 104.0, spec=13, outcome=outcome_of(stranger, OutcomeResult.APPLIED, observed=13))
    assert what(decision) == ("hold", 13, 13, "target_changed")


def test_our_last_desired_is_ours_whoever_writes_it() -> None:
    _, memory = tick(settled(), 0, 112.0, spec=10)
    _, memory = tick(memory, 1, 112.0, spec=14)
    decision, memory = tick(memory, 30, 104.0, spec=13)
    assert decision.reason == "target_changed"
    decision, _ = tick(memory, 31, 112.0, spec=14)
    assert decision.reason == "within_target"


@pytest.mark.parametrize(
    ("load", "spec", "expected"),
    [
        (80.0, 10, ("hold", 10, 10, "target_changed")),
        (8.0, 20, ("hold", 20, 20, "target_changed")),
        ("unknown", 20, ("hold", 20, 20, "target_changed")),
        (80.0, 6, ("scale_up", 6, 10, "metric")),
        (8.0, 200, ("scale_down", 200, 100, "maximum")),
    ],
)
def test_someone_elses_change_is_the_new_current_and_said(
    load: float | str, spec: int, expected: tuple[str, int, int, str]
) -> None:
    _, memory = tick(settled(), 0, 64.0, spec=8)
    decision, _ = tick(memory, 1, load, spec=spec)
    assert what(decision) == expected
    assert decision.detail.startswith(f"someone else changed the target from 8 to {spec}; ")


def test_the_tick_after_a_change_may_come_down() -> None:
    _, memory = tick(settled(), 0, 64.0, spec=8)
    _, memory = tick(memory, 1, 64.0, spec=20)
    decision, _ = tick(memory, 2, 64.0, spec=20)
    assert what(decision) == ("scale_down", 20, 10, "metric")


def test_a_manual_count_stays_as_long_as_the_policy_says_unless_load_asks_for_more() -> None:
    policy = policy_of(respectManualSeconds=60, maxReplicas=100)
    _, memory = tick(settled(), 0, 64.0, spec=8, policy=policy)
    reasons = []
    for index in range(1, 14):
        decision, memory = tick(memory, index, 64.0, spec=20, policy=policy)
        reasons.append(decision.reason.value)
    assert reasons == ["target_changed"] + ["manual"] * 11 + ["metric"]
    _, memory = tick(settled(), 0, 64.0, spec=8, policy=policy)
    _, memory = tick(memory, 1, 64.0, spec=20, policy=policy)
    decision, memory = tick(memory, 2, 240.0, spec=20, policy=policy)
    assert what(decision) == ("scale_up", 20, 30, "metric")
    _, memory = tick(memory, 3, 240.0, spec=30, policy=policy)
    assert memory.manual_from_s is None


def test_a_target_read_before_a_restart_is_still_the_newest() -> None:
    _, memory = tick(settled(), 0, 80.0, spec=10)
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=7)
    decision, _ = tick(memory, 1, 80.0, spec=None, supply=supply)
    assert decision.current == 10
