"""Every reason, bound, outcome and state has its words, and the checker agrees with all of them."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from headrace.explain.case import Case, Move
from headrace.explain.sentences.sentence import Kind
from records.decisions import Candidate, Floors, ScalingDecision, SkippedTicks
from records.enums import (
    MetricName,
    Mode,
    OutcomeResult,
    Percentile,
    ScalingAction,
    ScalingBound,
    ScalingReason,
    Source,
    SupplySource,
    ValueState,
)
from records.policy import EndpointPolicy
from records.signals import DownBlocker, SourceSignal, StartingReplica, SupplySignal
from tests.decisions.stories import Told, stories
from tests.decisions.test_directions import CASES
from tests.decisions.test_directions import Case as Tick
from tests.decisions.ticks import T0, policy_of, settled, signal_of
from tests.explain.cases import case_of, disagreements, named, outcome_of, texts, tick_case, told

ALL_FLOORS = Floors(minimum=1, schedule=6, forecast=7, provisioned=8)


@pytest.mark.parametrize("tick", CASES.values(), ids=CASES.keys())
def test_a_tick_is_explained_as_it_was_decided(tick: Tick) -> None:
    case = tick_case(tick)
    assert disagreements(case) == []
    lines = texts(case)
    assert lines[1].startswith(f"Reason {case.decision.reason.value}: ")
    bounds = [line for line in lines if line.startswith("Bound ")]
    assert bool(bounds) == (case.decision.bound is not None)
    assert {it["computed"] for it in told(case)["counterfactuals"]} <= {"again"}


@pytest.mark.parametrize("tick", CASES.values(), ids=CASES.keys())
def test_a_tick_of_which_only_the_decision_is_left_is_explained(tick: Tick) -> None:
    case = msgspec.structs.replace(tick_case(tick), signal=None, policy=None, memory=None)
    assert disagreements(case) == []
    assert {it["computed"] for it in told(case)["counterfactuals"]} <= {"record"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("up by the factor", [("up_limit", 40)]),
        ("up on the largest of two", [("metric:inflight_requests", 12)]),
        ("down by the fraction", [("max_fraction", 1)]),
        ("down no farther than the slow window", []),
    ],
)
def test_without_the_memory_the_record_answers_what_it_can(name: str, expected: list[tuple[str, int]]) -> None:
    case = msgspec.structs.replace(named(name), memory=None)
    found = told(case)["counterfactuals"]
    assert [(it["without"], it["desired"]) for it in found] == expected
    assert disagreements(case) == []
    again = {it["without"]: it["desired"] for it in told(named(name))["counterfactuals"]}
    assert all(again[without] == desired for without, desired in expected)


def altered(decision: ScalingDecision, **fields: Any) -> Case:
    return Case(decision=msgspec.structs.replace(decision, **fields))


REASONED = [
    (reason, action)
    for reason in ScalingReason
    for action in ScalingAction
    if (reason, action) != (ScalingReason.METRIC, ScalingAction.HOLD)  # a metric that decides, decides a step
]


@pytest.mark.parametrize(("reason", "action"), REASONED)
def test_every_reason_has_its_words(reason: ScalingReason, action: ScalingAction) -> None:
    decision = named("up to what is needed").decision
    desired = {ScalingAction.SCALE_UP: 15, ScalingAction.SCALE_DOWN: 3, ScalingAction.HOLD: decision.current}[action]
    case = altered(decision, reason=reason, action=action, desired=desired, floors=ALL_FLOORS)
    lines = texts(case)
    assert disagreements(case) == []
    word = f"Reason {reason.value}: "
    (line,) = [line for line in lines if line.startswith("Reason ")]
    assert line.startswith(word)
    assert len(line) > len(word) + 10


def test_no_two_reasons_have_the_same_words() -> None:
    decision = named("up to what is needed").decision
    bodies = [
        texts(altered(decision, reason=reason, floors=ALL_FLOORS))[1].partition(": ")[2] for reason in ScalingReason
    ]
    assert len(set(bodies)) == len(bodies)


@pytest.mark.parametrize("floors", [ALL_FLOORS, Floors(minimum=None)], ids=["known", "unknown"])
@pytest.mark.parametrize("bound", ScalingBound)
def test_every_bound_has_its_words(bound: ScalingBound, floors: Floors) -> None:
    case = altered(named("up to what is needed").decision, bound=bound, floors=floors)
    assert disagreements(case) == []
    (line,) = [line for line in texts(case) if line.startswith("Bound ")]
    assert line.startswith(f"Bound {bound.value}: ")


@pytest.mark.parametrize("is_retryable", [True, False])
@pytest.mark.parametrize("result", OutcomeResult)
def test_every_outcome_has_its_words(result: OutcomeResult, is_retryable: bool) -> None:
    case = named("up by the factor")
    answer = outcome_of(case, result, retryable=is_retryable, observed=20, detail="the version is 7; not 6.")
    case = msgspec.structs.replace(case, outcomes=(answer,), shown_s=T0 + 90)
    assert disagreements(case) == []
    assert "not carried out yet" not in " ".join(texts(case)).lower()


def test_several_outcomes_are_told_in_order() -> None:
    case = named("up by the factor")
    refused = outcome_of(case, OutcomeResult.REFUSED, retryable=True, detail="conflict")
    applied = outcome_of(case, at_s=T0 + 4000, observed=20)
    case = msgspec.structs.replace(case, outcomes=(refused, applied))
    assert disagreements(case) == []
    assert [sentence["text"] for sentence in told(case)["sentences"] if sentence["kind"] == Kind.OUTCOME] == [
        "Refused (it may be tried again), as fleet-1 reports at 22:15:03, 3 s after the tick; it says: conflict.",
        "Applied by fleet-1 at 23:21:40, 1 h 6 min after the tick; the target then had 20.",
    ]
    assert told(case)["outcome"]["result"] == "applied"


@pytest.mark.parametrize("state", ValueState)
@pytest.mark.parametrize("metric", MetricName)
def test_every_metric_and_state_has_its_unit(metric: MetricName, state: ValueState) -> None:
    decision = named("within target").decision
    is_known = state in (ValueState.FRESH, ValueState.PARTIAL)
    candidate = Candidate(
        metric=metric,
        percentile=Percentile.P99 if metric in (MetricName.TTFT, MetricName.E2E_LATENCY) else None,
        window_s=20,
        observed=0.123456789 if is_known else None,
        state=state,
        coverage=0.123456789,
        target=19416.71 if is_known else None,
        proposed=4_294_967_294 if is_known else None,
        rejected_because=None if is_known else f"the value is {state.value} (two_processes)",
    )
    assert disagreements(altered(decision, candidates=(candidate,))) == []


@pytest.mark.parametrize("mode", Mode)
def test_every_mode_is_told(mode: Mode) -> None:
    assert disagreements(altered(named("up by the factor").decision, mode=mode)) == []


def test_what_is_not_well_is_told() -> None:
    supply = SupplySignal(
        source=SupplySource.INFERRED,
        ready=3,
        starting=2,
        starting_replicas=(StartingReplica(replica="a", age_s=12), StartingReplica(replica="b", age_s=312)),
        startup_p95_s=187.6543,
        failed=1,
        failed_starts=4,
    )
    sources = (
        SourceSignal(replica="chat-0", source=Source.ENGINE, reporter=None, offset_s=-7.25, state=ValueState.SUSPECT),
        SourceSignal(
            replica="", source=Source.ROUTER, reporter="gw; 1: x", offset_s=None, state=ValueState.STALE, late=1
        ),
    )
    blockers = (DownBlocker(kind="restart", replica="chat-0", until_s=T0 + 86_400), DownBlocker(kind="rebuild"))
    signal = signal_of(
        policy_of(),
        {"inflight_requests": 8.0},
        spec=5,
        supply=supply,
        sources=sources,
        rollout=True,
        target_at_s=T0 - 7,
        down_blockers=blockers,
        unheard=tuple(f"chat-{index}" for index in range(7)),
    )
    case = case_of(policy_of(), signal, settled())
    assert disagreements(case) == []
    assert [line for line in texts(case) if line.startswith(("Start", "The rep", "Not well", "Unheard", "Going"))] == [
        "Starting for 12 s to 5 min 12 s; a start is expected within 187.7 s.",
        "Starts that failed since the last that became ready: 4.",
        "The replicas are inferred from their samples: nobody reports their states.",
        "Not well: engine for chat-0: suspect, its clock -7.25 s off.",
        "Not well: router, reported by gw; 1: x: stale, 1 sample too late.",
        "Unheard for too long, counted as if at their target: chat-0, chat-1, chat-2, chat-3, chat-4 and 2 more.",
        "Going down was forbidden by restart of chat-0 until 2023-11-15 22:15:00.",
        "Going down was forbidden by rebuild.",
    ]


def test_text_of_others_cannot_command_a_terminal() -> None:
    case = named("up by the factor")
    answer = outcome_of(case, actuator="\x1b[2Jevil\n", detail="a\nb\x07")
    case = msgspec.structs.replace(case, outcomes=(answer,))
    assert disagreements(case) == []
    assert all(line.isprintable() for line in texts(case))


def test_skipped_ticks_are_told() -> None:
    decision = msgspec.structs.replace(
        named("within target").decision,
        reason=ScalingReason.SKIPPED,
        skipped=SkippedTicks(first_tick=T0 - 600, last_tick=T0 - 5),
    )
    case = Case(decision=decision)
    assert disagreements(case) == []
    assert texts(case)[1] == "Reason skipped: the pipeline was away, ticks 22:05:00 to 22:14:55 were not decided."


def test_a_repeat_says_so_and_what_became_of_the_first() -> None:
    first = named("up by the factor")
    again = msgspec.structs.replace(
        first.decision, at_s=T0 + 5, decision_id="b" * 64, previous_id=first.decision.decision_id
    )
    last = Move(decisions=(first.decision,), outcomes=(outcome_of(first),), shown_s=T0 + 4)
    case = Case(decision=again, last=last)
    assert disagreements(case) == []
    (line,) = [line for line in texts(case) if line.startswith("It repeats")]
    assert line == (
        f"It repeats the one before: scale up from 10 to 20 replicas, at 22:15:00, 5 s earlier "
        f"({first.decision.decision_id[:12]}); fleet-1 reports applied at 22:15:03; "
        "the target was seen with 20 at 22:15:04."
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stories())
def test_whatever_is_decided_can_be_explained_and_checks(story: tuple[EndpointPolicy, list[Told]]) -> None:
    policy, ticks = story
    for index, tick in enumerate(ticks):
        moves = [it.decision for it in ticks[:index] if it.decision.action is not ScalingAction.HOLD]
        last = Move(decisions=(moves[-1],)) if moves else None
        case = Case(decision=tick.decision, signal=tick.signal, policy=policy, memory=tick.before, last=last)
        assert disagreements(case) == []
        assert disagreements(msgspec.structs.replace(case, memory=None)) == []


@pytest.mark.parametrize(("name", "way"), [("down by the fraction", -1), ("up by the factor", 1)])
def test_a_step_that_is_still_under_way_is_not_taken_for_the_policys_limit(name: str, way: int) -> None:
    """A step of the policy's length is its limit's; a shorter one is held by the one before."""
    case = named(name)
    assert "axF" in next(line for line in texts(case) if line.startswith("Bound "))
    shorter = msgspec.structs.replace(case.decision, desired=case.decision.current + way)
    case = msgspec.structs.replace(case, decision=shorter)
    assert disagreements(case) == []
    (line,) = [line for line in texts(case) if line.startswith("Bound ")]
    assert line.endswith(f"to {shorter.desired} was not seen carried out yet, and none goes past it.")
