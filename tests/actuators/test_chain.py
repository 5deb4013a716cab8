"""What becomes of decisions: a table of what was read, what the target shows, and the verdicts."""

from dataclasses import dataclass, field

import msgspec
import pytest

from actuators.chain import REMEMBERED, Chain
from actuators.port import ObservedTarget
from actuators.verdicts import Judgement, Limits, Trouble, Verdict
from records.decisions import ScalingDecision
from records.enums import Mode, OutcomeResult
from records.outcomes import Outcome
from tests.actuators.chains import DecisionChain

T = 1_790_000_000
NOW_S = T + 20.0
APPLIED, SUPERSEDED, DRY_RUN = OutcomeResult.APPLIED, OutcomeResult.SUPERSEDED, OutcomeResult.DRY_RUN
REFUSED, UNKNOWN = OutcomeResult.REFUSED, OutcomeResult.UNKNOWN


def target(spec: int, names: ScalingDecision | None = None) -> ObservedTarget:
    named = None if names is None else names.decision_id
    return ObservedTarget(endpoint="chat", spec_replicas=spec, resource_version="v", decision_id=named)


def outcome_of(decision: ScalingDecision, result: OutcomeResult, actuator: str = "me") -> Outcome:
    return Outcome(
        decision_id=decision.decision_id,
        decision_topic="decisions.scaling",
        endpoint="chat",
        actuator=actuator,
        at_s=decision.at_s + 1,
        result=result,
        decision_at_s=decision.at_s,
    )


MADE = DecisionChain("chat")
D1 = MADE.next(T, 2, 4)
D2 = MADE.next(T + 5, 2, 4)
HOLD = MADE.next(T + 10, 4, 4)
D3 = MADE.next(T + 15, 4, 6)
ADVISED = MADE.next(T + 16, 4, 7, mode=Mode.ADVISE)


@dataclass(frozen=True, kw_only=True)
class Case:
    """`told`: decision and result of each verdict, in order; `put` is what is to be carried out."""

    name: str
    read: tuple[ScalingDecision, ...]
    observed: ObservedTarget | None
    told: tuple[tuple[ScalingDecision, OutcomeResult], ...] = ()
    put: ScalingDecision | None = None
    noted: tuple[Outcome, ...] = ()
    now_s: float = NOW_S
    trouble: Trouble | None = None
    limits: Limits = field(default_factory=Limits)


TRIED = Trouble(result=UNKNOWN, detail="no answer")
LATE_S = T + 15 + 61.0
AHEAD = msgspec.structs.replace(D1, decision_id="a" * 64, at_s=T + 9000)
BACK = msgspec.structs.replace(D1, decision_id="b" * 64, at_s=T + 15, previous_id=D3.decision_id)

CASES = (
    Case(name="nothing read", read=(), observed=None),
    Case(name="a hold asks for nothing", read=(HOLD,), observed=None),
    Case(name="one decision", read=(D1,), observed=target(2), put=D1),
    Case(name="only the newest is put, older ones wait for it", read=(D1, D2, HOLD, D3), observed=target(4), put=D3),
    Case(name="a hold supersedes nothing", read=(D1, D2, HOLD), observed=target(2), put=D2),
    Case(name="found on the target", read=(D1,), observed=target(4, D1), told=((D1, APPLIED),)),
    Case(
        name="an older one is found, the newest is put",
        read=(D1, HOLD, D3),
        observed=target(4, D1),
        told=((D1, APPLIED),),
        put=D3,
    ),
    Case(
        name="the newest is found, older ones end with it",
        read=(D1, D2, HOLD, D3),
        observed=target(6, D3),
        told=((D1, SUPERSEDED), (D2, SUPERSEDED), (D3, APPLIED)),
    ),
    Case(
        name="as it is wanted, by the decision before",
        read=(D1, D2),
        observed=target(4, D1),
        noted=(outcome_of(D1, APPLIED),),
        told=((D2, APPLIED),),
    ),
    Case(name="as it is wanted, by someone else: the version must change", read=(D1,), observed=target(4), put=D1),
    Case(
        name="as it is wanted, but another one may be under way",
        read=(D1, D3, MADE.next(T + 17, 6, 4)),
        observed=target(4, D1),
        noted=(outcome_of(D1, APPLIED), outcome_of(D3, REFUSED)),
        put=MADE.made[-1],
    ),
    Case(name="advised", read=(D3, ADVISED), observed=target(4), told=((D3, SUPERSEDED), (ADVISED, DRY_RUN))),
    Case(name="advised, without the target", read=(ADVISED,), observed=None, told=((ADVISED, DRY_RUN),)),
    Case(
        name="too old",
        read=(D1, D3),
        observed=target(4),
        now_s=LATE_S,
        told=((D1, SUPERSEDED), (D3, SUPERSEDED)),
    ),
    Case(name="exactly 60 s", read=(D3,), observed=target(4), now_s=D3.at_s + 60.0, put=D3),
    Case(name="too old, and applied", read=(D3,), observed=target(6, D3), now_s=LATE_S, told=((D3, APPLIED),)),
    Case(name="tried until too old", read=(D3,), observed=None, now_s=LATE_S, trouble=TRIED, told=((D3, UNKNOWN),)),
    Case(
        name="an older one is too old, the newest is not",
        read=(D1, D3),
        observed=None,
        now_s=T + 70.0,
        told=((D1, SUPERSEDED),),
        put=D3,
    ),
    Case(name="from the future", read=(D3,), observed=target(4), now_s=T + 15 - 61.0, told=((D3, REFUSED),)),
    Case(
        name="one from the future supersedes nothing",
        read=(D1, AHEAD),
        observed=target(2),
        told=((AHEAD, REFUSED),),
        put=D1,
    ),
    Case(
        name="one from the future was refused by a run before",
        read=(AHEAD, D1),
        observed=target(2),
        noted=(outcome_of(AHEAD, REFUSED),),
        put=D1,
    ),
    Case(
        name="not above the last applied",
        read=(BACK,),
        observed=target(6),
        noted=(outcome_of(D3, APPLIED),),
        told=((BACK, SUPERSEDED),),
    ),
    Case(
        name="not above the last applied, by another actuator",
        read=(BACK,),
        observed=target(6),
        noted=(outcome_of(D3, APPLIED, "other"),),
        told=((BACK, SUPERSEDED),),
    ),
    Case(
        name="not above one that is found",
        read=(D3, BACK),
        observed=target(6, D3),
        told=((BACK, SUPERSEDED), (D3, APPLIED)),
    ),
    Case(name="settled before", read=(D1,), observed=target(2), noted=(outcome_of(D1, REFUSED),)),
    Case(name="applied by another", read=(D1,), observed=target(4), noted=(outcome_of(D1, APPLIED, "other"),)),
    Case(
        name="looked at by another's dry run",
        read=(D1,),
        observed=target(2),
        noted=(outcome_of(D1, DRY_RUN, "other"),),
        put=D1,
    ),
    Case(
        name="the newest is settled, an older one is not",
        read=(D1, D3),
        observed=target(4),
        noted=(outcome_of(D3, REFUSED),),
        told=((D1, SUPERSEDED),),
    ),
    Case(
        name="told unknown, found later",
        read=(D1, D3),
        observed=target(4, D1),
        noted=(outcome_of(D1, UNKNOWN),),
        told=((D1, APPLIED),),
        put=D3,
    ),
    Case(name="dry run", read=(D1,), observed=target(2), limits=Limits(dry_run=True), told=((D1, DRY_RUN),)),
    Case(
        name="dry run beside one that acts",
        read=(D1,),
        observed=target(4, D1),
        noted=(outcome_of(D1, APPLIED, "other"),),
        limits=Limits(dry_run=True),
        told=((D1, DRY_RUN),),
    ),
)


def chain_of(case: Case) -> Chain:
    chain = Chain("me", case.limits)
    for order, decision in enumerate(case.read):
        chain.add(decision, order)
    for outcome in case.noted:
        chain.note(outcome)
    return chain


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_becomes_of_decisions(case: Case) -> None:
    judgement = chain_of(case).judge(case.observed, case.now_s, case.trouble)
    expected = [(decision.decision_id, result) for decision, result in case.told]
    assert [(it.decision_id, it.result) for it in judgement.told] == expected
    assert (judgement.put.decision_id if judgement.put else None) == (case.put.decision_id if case.put else None)
    assert all(verdict.at_s == tick_of(verdict, case) for verdict in judgement.told)


def tick_of(verdict: Verdict, case: Case) -> int:
    return next(it.at_s for it in (*case.read, *MADE.made) if it.decision_id == verdict.decision_id)


def test_verdicts_say_why() -> None:
    def detail(case: Case) -> str:
        return chain_of(case).judge(case.observed, case.now_s, case.trouble).told[-1].detail

    by_name = {case.name: case for case in CASES}
    assert detail(by_name["too old"]) == "61 s old, carried out up to 60 s: the worker decides anew"
    assert detail(by_name["tried until too old"]) == "given up after 61 s: no answer"
    assert detail(by_name["from the future"]) == "its tick is 61 s ahead of this actuator's clock, allowed up to 60 s"
    assert detail(by_name["advised"]) == "the policy's mode is advise"
    assert detail(by_name["dry run"]) == "would have set 4 replicas, the target has 2"
    assert detail(by_name["as it is wanted, by the decision before"]) == "the target had 4 already"
    assert "not after" in detail(by_name["not above the last applied"])


def test_what_someone_else_made_of_it_later_is_not_observed_of_ours() -> None:
    chain = chain_of(Case(name="", read=(D1,), observed=None))
    (verdict,) = chain.judge(target(9, D1), NOW_S).told
    assert (verdict.result, verdict.observed) == (APPLIED, None)
    assert verdict.detail == "found applied on the target, whose spec is 9 since"


def test_an_earlier_run_that_did_not_know_is_corrected() -> None:
    chain = Chain("me", Limits())
    chain.note(outcome_of(D1, UNKNOWN))
    chain.add(D3, 3)
    assert chain.judge(target(4, D1), NOW_S).told == (
        Verdict(
            decision_id=D1.decision_id, endpoint="chat", at_s=T, result=APPLIED, detail="found applied on the target"
        ),
    )


def test_a_chain_that_does_not_follow_is_told_and_goes_on() -> None:
    chain = Chain("me", Limits())
    assert chain.add(D2, 0)
    assert not chain.add(D3, 1)
    assert chain.add(ADVISED, 2)
    assert chain.newest is not None
    assert chain.newest.decision_id == ADVISED.decision_id


def test_what_is_open_holds_the_offset_back() -> None:
    chain = Chain("me", Limits())
    for order, decision in enumerate((D1, HOLD, D3)):
        chain.add(decision, 10 + order)
    assert chain.first_open == 10
    chain.note(outcome_of(D1, SUPERSEDED))
    assert chain.first_open == 12
    chain.note(outcome_of(D3, APPLIED))
    assert chain.first_open is None


def test_an_outcome_may_be_read_before_its_decision() -> None:
    chain = Chain("me", Limits())
    chain.note(outcome_of(D1, APPLIED, "other"))
    chain.add(D1, 0)
    assert not chain.has_open


FAR = msgspec.structs.replace(outcome_of(D1, APPLIED, "other"), decision_id="e" * 64, decision_at_s=T + 1_000_000)
"""An outcome of a decision that nobody made."""


def test_an_applied_tick_in_the_future_keeps_no_decision_from_its_target() -> None:
    chain = chain_of(Case(name="", read=(D1,), observed=None, noted=(FAR,)))
    assert chain.judge(target(2), NOW_S).put is not None
    assert chain.judge(target(2), FAR.decision_at_s or 0.0).put is None


def test_what_was_applied_counts_on_a_slow_clock_too() -> None:
    """By another actuator, whose clock is right: an older decision must not come after it."""
    slow = Limits(age_max_s=1)
    chain = chain_of(
        Case(name="", read=(D1, D3), observed=None, noted=(outcome_of(D3, APPLIED, "other"),), limits=slow)
    )
    judged = chain.judge(target(6), float(T))
    assert (judged.put, [it.result for it in judged.told]) == (None, [SUPERSEDED])


def test_memory_is_bounded() -> None:
    chain, made = Chain("me", Limits()), DecisionChain("chat")
    for number in range(10 * REMEMBERED):
        decision = made.next(T + number, 2, 3, victims=())
        chain.add(decision, number)
        chain.note(outcome_of(decision, SUPERSEDED))
    for number in range(2 * REMEMBERED):
        chain.note(msgspec.structs.replace(FAR, decision_id=f"{number:064}"))
    assert len(chain._settled) == len(chain._read) == len(chain._applied) == REMEMBERED
    assert chain.judge(target(2), NOW_S) == Judgement()


def test_only_the_newest_keeps_its_victims() -> None:
    chain, made = Chain("me", Limits()), DecisionChain("chat")
    first = made.next(T, 4, 2, victims=("chat-0", "chat-1"))
    second = made.next(T + 5, 4, 2, victims=("chat-2", "chat-3"))
    chain.add(first, 0)
    chain.add(second, 1)
    put = chain.judge(target(4), NOW_S).put
    assert put is not None
    assert put.victims == ("chat-2", "chat-3")
    assert {it.victims for it in (*chain._open.values(), *chain._read)} == {()}
