"""The loop against a port that answers as scripted, under a clock that only pauses move."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from actuators.carrier import Carrier, CarrierOptions
from actuators.chain import Chain
from actuators.fault_points import FaultPoint
from actuators.port import (
    Applied,
    CallContext,
    Change,
    Conflict,
    Drain,
    Marked,
    ObservedTarget,
    Refused,
    TargetRef,
    Unanswered,
)
from actuators.retries import Backoff
from actuators.verdicts import Limits, Verdict
from records.decisions import ScalingDecision
from records.enums import Mode, OutcomeResult
from tests.actuators.chains import DecisionChain

T = 1_790_000_000
Answer = ObservedTarget | Applied | Marked | Conflict | Refused | Unanswered

APPLIED, SUPERSEDED, DRY_RUN = OutcomeResult.APPLIED, OutcomeResult.SUPERSEDED, OutcomeResult.DRY_RUN
REFUSED, UNKNOWN = OutcomeResult.REFUSED, OutcomeResult.UNKNOWN

BUSY = Refused(retryable=True, detail="HTTP status 503: later")
NO_SUCH = Refused(retryable=False, detail="HTTP status 404: endpoint: 'chat'")
OUT_OF_RANGE = Refused(retryable=False, detail="HTTP status 422: spec_replicas: 4, allowed: 0 to 3")
SILENT = Unanswered(detail="no answer within 5 s")
STALE = Conflict(detail="HTTP status 409: the current one is 'v1'")


def target(spec: int, version: str = "v0", names: ScalingDecision | None = None) -> ObservedTarget:
    named = None if names is None else names.decision_id
    return ObservedTarget(endpoint="chat", spec_replicas=spec, resource_version=version, decision_id=named)


@dataclass
class Stage:
    """Port, log, clock and fault points of one carrier. `arriving`: decisions that each confirmation brings.

    `always` answers what is not in the script.
    """

    script: list[Answer]
    always: Answer | None = None
    limits: Limits = field(default_factory=Limits)
    attempts: int = 5
    arriving: list[list[ScalingDecision]] = field(default_factory=list)
    now_s: float = T + 3.0
    passed: list[str] = field(default_factory=list)
    told: list[Verdict] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    drains: list[Drain] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    at: dict[str, Callable[[], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chain = Chain("me", self.limits)
        self.read = 0
        options = CarrierOptions(
            actuator="me",
            port=self,
            backoff=Backoff(attempts=self.attempts, first_s=1.0, max_s=8.0),
            clock=lambda: self.now_s,
            monotonic_s=lambda: self.now_s,
            rng=np.random.default_rng(1),
            faults=self,
            pause=self.pause,
        )
        self.carrier = Carrier("chat", self.chain, self, options)

    def add(self, *decisions: ScalingDecision) -> None:
        for decision in decisions:
            self.chain.add(decision, self.read)
            self.read += 1
        self.carrier.stir()

    def next(self, call: str) -> Answer:
        self.passed.append(call)
        if call in self.at:
            self.at[call]()
        if self.always is not None and not self.script:
            return self.always
        return self.script.pop(0)

    async def get(self, target: TargetRef, context: CallContext) -> ObservedTarget | Refused | Unanswered:
        answer = self.next("get")
        assert isinstance(answer, ObservedTarget | Refused | Unanswered)
        return answer

    async def compare_and_set(
        self, target: TargetRef, change: Change, context: CallContext
    ) -> Applied | Conflict | Refused | Unanswered:
        self.changes.append(change)
        answer = self.next("put")
        assert isinstance(answer, Applied | Conflict | Refused | Unanswered)
        return answer

    async def drain(self, target: TargetRef, drain: Drain, context: CallContext) -> Marked | Refused | Unanswered:
        self.drains.append(drain)
        answer = self.next("drain")
        assert isinstance(answer, Marked | Refused | Unanswered)
        return answer

    async def confirm(self) -> bool:
        self.passed.append("confirm")
        if self.arriving:
            self.add(*self.arriving.pop(0))
        return True

    async def tell(self, chain: Chain, verdicts: tuple[Verdict, ...]) -> None:
        for verdict in verdicts:
            self.told.append(verdict)
            chain.settle(verdict)

    async def pause(self, span_s: float, stirred: asyncio.Event) -> None:
        self.passed.append("pause")
        self.pauses.append(span_s)
        self.now_s += span_s

    async def reached(self, point: FaultPoint, endpoint: str) -> None:
        if point.value in self.at:
            self.at[point.value]()

    async def run(self) -> list[tuple[int, OutcomeResult, bool]]:
        """Tick, result and retryable of every verdict."""
        async with asyncio.timeout(60):
            await self.carrier.run()
        assert self.script == [], "calls that were expected were not made"
        return [(verdict.at_s - T, verdict.result, verdict.retryable) for verdict in self.told]


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    script: tuple[Answer, ...]
    told: tuple[tuple[int, OutcomeResult, bool], ...]
    passed: str
    detail: str = ""


MADE = DecisionChain("chat")
D1 = MADE.next(T, 2, 4)
CHANGED = Applied(target=target(4, "v1", D1))
PUT = "get confirm put"

CASES = (
    Case(name="applied", script=(target(2), CHANGED), told=((0, APPLIED, False),), passed=PUT, detail="2 to 4"),
    Case(name="found", script=(target(4, "v1", D1),), told=((0, APPLIED, False),), passed="get confirm"),
    Case(
        name="stale, then again from the beginning",
        script=(target(2), STALE, target(3, "v1"), Applied(target=target(4, "v2", D1))),
        told=((0, APPLIED, False),),
        passed=f"{PUT} pause {PUT}",
        detail="3 to 4",
    ),
    Case(
        name="no answer, found by reading",
        script=(target(2), SILENT, target(4, "v1", D1)),
        told=((0, APPLIED, False),),
        passed=f"{PUT} pause get confirm",
    ),
    Case(
        name="no answer, and not carried out",
        script=(target(2), SILENT, target(2), CHANGED),
        told=((0, APPLIED, False),),
        passed=f"{PUT} pause {PUT}",
    ),
    Case(
        name="no answer, and the target cannot be read",
        script=(target(2), SILENT, BUSY, BUSY, BUSY, BUSY),
        told=((0, UNKNOWN, True),),
        passed=f"{PUT}{' pause get confirm' * 4}",
        detail="given up after 5 attempts: HTTP status 503: later",
    ),
    Case(
        name="never reached",
        script=(BUSY,) * 5,
        told=((0, REFUSED, True),),
        passed=f"get confirm{' pause get confirm' * 4}",
        detail="given up after 5 attempts: HTTP status 503: later",
    ),
    Case(
        name="always stale",
        script=(target(2), STALE) * 5,
        told=((0, REFUSED, True),),
        passed=f"{PUT}{f' pause {PUT}' * 4}",
    ),
    Case(
        name="refused for now",
        script=(target(2), BUSY, target(2), CHANGED),
        told=((0, APPLIED, False),),
        passed=f"{PUT} pause {PUT}",
    ),
    Case(
        name="refused for good",
        script=(target(2), OUT_OF_RANGE),
        told=((0, REFUSED, False),),
        passed=PUT,
        detail="HTTP status 422: spec_replicas: 4, allowed: 0 to 3",
    ),
    Case(name="no such target", script=(NO_SUCH,), told=((0, REFUSED, False),), passed="get confirm"),
    Case(
        name="accepted again after someone else changed it",
        script=(target(2), Applied(target=target(9, "v2", D1))),
        told=((0, APPLIED, False),),
        passed=PUT,
        detail="2 to 4, and to 9 by someone else",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_one_decision(case: Case) -> None:
    stage = Stage(script=list(case.script))
    stage.add(D1)
    assert await stage.run() == list(case.told)
    assert " ".join(stage.passed) == case.passed
    assert case.detail in stage.told[-1].detail


async def test_a_change_names_the_version_that_was_got_before() -> None:
    stage = Stage(script=[target(2), STALE, target(3, "v1"), Applied(target=target(4, "v2", D1))])
    stage.add(D1)
    await stage.run()
    assert stage.changes == [
        Change(spec_replicas=4, resource_version="v0"),
        Change(spec_replicas=4, resource_version="v1"),
    ]


async def test_pauses_double_up_to_a_limit_and_are_drawn_from_the_seed() -> None:
    pauses = []
    for _ in range(2):
        stage = Stage(script=[BUSY] * 7, attempts=7)
        stage.add(D1)
        await stage.run()
        pauses.append(stage.pauses)
    assert pauses[0] == pauses[1]
    bounds = [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(pauses[0], bounds, strict=True))


async def test_a_decision_is_given_up_when_it_is_too_old() -> None:
    stage = Stage(script=[], always=BUSY, attempts=1000)
    stage.add(D1)
    assert await stage.run() == [(0, REFUSED, True)]
    assert 60 < stage.now_s - T < 70
    assert stage.told[0].detail.startswith("given up after 6")


async def test_a_decision_too_old_at_reading_is_not_tried() -> None:
    stage = Stage(script=[target(2)], now_s=T + 75.0)
    stage.add(D1)
    assert await stage.run() == [(0, SUPERSEDED, False)]
    assert "75 s old" in stage.told[0].detail


async def test_a_newer_decision_read_at_the_confirmation_is_the_one() -> None:
    chain = DecisionChain("chat")
    first, second = chain.next(T, 2, 4), chain.next(T + 1, 2, 6)
    stage = Stage(script=[target(2), Applied(target=target(6, "v1", second))], arriving=[[second]])
    stage.add(first)
    assert await stage.run() == [(0, SUPERSEDED, False), (1, APPLIED, False)]
    assert [change.spec_replicas for change in stage.changes] == [6]
    assert second.decision_id[:12] in stage.told[0].detail


async def test_a_newer_decision_ends_the_retries_of_an_older_one_and_has_its_own() -> None:
    chain = DecisionChain("chat")
    first, second = chain.next(T, 2, 4), chain.next(T + 1, 2, 6)
    stage = Stage(script=[], always=BUSY, attempts=4, arriving=[[], [second]])
    stage.add(first)
    assert await stage.run() == [(0, SUPERSEDED, False), (1, REFUSED, True)]
    assert stage.passed.count("get") == 2 + 4


async def test_what_is_found_is_told_before_the_next_change() -> None:
    chain = DecisionChain("chat")
    first, second = chain.next(T, 2, 4), chain.next(T + 1, 4, 6)
    stage = Stage(script=[target(4, "v1", first), Applied(target=target(6, "v2", second))])
    stage.at["put"] = lambda: stage.passed.append(f"told {len(stage.told)}")
    stage.add(first, second)
    assert await stage.run() == [(0, APPLIED, False), (1, APPLIED, False)]
    assert "told 1" in stage.passed


async def test_what_was_told_of_an_attempt_in_doubt_is_corrected_when_it_is_found() -> None:
    chain = DecisionChain("chat")
    first, second, third = chain.next(T, 2, 4), chain.next(T + 1, 2, 6), chain.next(T + 2, 4, 6)
    stage = Stage(script=[target(2), SILENT, target(2), OUT_OF_RANGE], arriving=[[], [second]])
    stage.add(first)
    assert await stage.run() == [(0, SUPERSEDED, False), (1, REFUSED, False)]
    stage.script += [target(4, "v1", first), Applied(target=target(6, "v2", third))]
    stage.add(third)
    assert (await stage.run())[2:] == [(0, APPLIED, False), (2, APPLIED, False)]


async def test_the_same_count_again_needs_no_call() -> None:
    chain = DecisionChain("chat")
    first, second = chain.next(T, 2, 4), chain.next(T + 1, 2, 4)
    stage = Stage(script=[target(2), Applied(target=target(4, "v1", first))])
    stage.add(first)
    await stage.run()
    stage.script += [target(4, "v1", first)]
    stage.add(second)
    assert await stage.run() == [(0, APPLIED, False), (1, APPLIED, False)]
    assert stage.passed.count("put") == 1


async def test_a_target_that_remembers_no_decision_is_known_by_its_version() -> None:
    chain = DecisionChain("chat")
    first, second = chain.next(T, 2, 4), chain.next(T + 1, 2, 4)
    stage = Stage(script=[target(2), Applied(target=target(4, "v1"))])
    stage.add(first)
    await stage.run()
    stage.script += [target(4, "v1")]
    stage.add(second)
    assert (await stage.run())[1:] == [(1, APPLIED, False)]
    assert stage.passed.count("put") == 1


@pytest.mark.parametrize(
    ("answers", "passed", "told"),
    [
        ([Marked(), Applied(target=target(2, "v1"))], "get confirm drain put", "4 to 2"),
        ([NO_SUCH, Applied(target=target(2, "v1"))], "get confirm drain put", "victims not marked: HTTP status 404"),
        (
            [SILENT, target(4), Marked(), Applied(target=target(2, "v1"))],
            "get confirm drain pause get confirm drain put",
            "4 to 2",
        ),
    ],
    ids=["marked", "refused", "no answer"],
)
async def test_victims_are_marked_before_the_count_is_lowered(answers: list[Answer], passed: str, told: str) -> None:
    down = DecisionChain("chat").next(T, 4, 2, victims=("chat-3", "chat-1"))
    stage = Stage(script=[target(4), *answers])
    stage.add(down)
    assert await stage.run() == [(0, APPLIED, False)]
    assert " ".join(stage.passed) == passed
    assert stage.drains[-1] == Drain(replicas=("chat-3", "chat-1"), deadline_s=45.0)
    assert told in stage.told[0].detail


async def test_a_drain_without_an_answer_leaves_no_doubt_about_the_count() -> None:
    stage = Stage(script=[target(4), SILENT] * 3, attempts=3)
    stage.add(DecisionChain("chat").next(T, 4, 2, victims=("chat-3",)))
    assert await stage.run() == [(0, REFUSED, True)]


async def test_victims_are_left_alone_where_nobody_leaves() -> None:
    down = DecisionChain("chat").next(T, 4, 2, victims=("chat-3",))
    stage = Stage(script=[target(1), Applied(target=target(2, "v1"))])
    stage.add(down)
    assert await stage.run() == [(0, APPLIED, False)]
    assert stage.drains == []


async def test_advice_needs_no_target() -> None:
    stage = Stage(script=[])
    stage.add(DecisionChain("chat").next(T, 2, 4, mode=Mode.ADVISE))
    assert await stage.run() == [(0, DRY_RUN, False)]
    assert stage.passed == ["confirm"]


@pytest.mark.parametrize("answers", [[target(2)], [BUSY] * 5, [NO_SUCH]], ids=["read", "not reached", "unknown"])
async def test_a_dry_run_reads_and_changes_nothing(answers: list[Answer]) -> None:
    stage = Stage(script=list(answers), limits=Limits(dry_run=True))
    stage.add(D1)
    assert [result for _, result, _ in await stage.run()] == [DRY_RUN]
    assert not stage.changes
    assert not stage.drains


@pytest.mark.parametrize(
    ("stops_at", "script", "told"),
    [
        ("get", [target(2)], []),
        ("confirmed", [target(2)], []),
        ("put", [target(2), CHANGED], [(0, APPLIED, False)]),
        ("called", [target(2), SILENT], []),
    ],
)
async def test_a_stop_finishes_the_call_under_way_and_starts_no_other(
    stops_at: str, script: list[Answer], told: list[tuple[int, OutcomeResult, bool]]
) -> None:
    stage = Stage(script=script)
    stage.at[stops_at] = stage.carrier.stop
    stage.add(D1)
    assert await stage.run() == told
    assert stage.chain.has_open == (not told)
