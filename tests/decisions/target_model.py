"""A scale target, an actuator and the ways between them and the ticks, in event time: small, slow and unreliable."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from decisions.applied import names_decision
from records.decisions import ScalingDecision
from records.enums import OutcomeResult, ScalingAction
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal, ObservedOutcome
from tests.decisions.ticks import T0, decide, settled, signal_of

TICK_S = 5
LATENESS_S = 2.0
"""A tick is made this long after its second, at the earliest."""
NOT_APPLIED = tuple(it for it in OutcomeResult if it is not OutcomeResult.APPLIED)


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Seconds, each drawn anew for every use: how long the actuator takes for an attempt, until the target is observed
    and until an outcome is read, and by how much ticks are late."""

    act: Callable[[], float]
    observe: Callable[[], float]
    tell: Callable[[], float]
    tick: Callable[[], float] = lambda: 0.0


@dataclass(frozen=True, kw_only=True)
class Tick:
    signal: EndpointSignal
    decision: ScalingDecision
    memory: ScalingMemory


@dataclass(kw_only=True)
class Loop:
    """One endpoint's ticks and its target. `load(at_s)` is what is in flight at a tick, over both windows.

    `answer()` gives what becomes of an attempt: applied, or anything else, which changes nothing; `unknown` may have
    been applied all the same.
    """

    policy: EndpointPolicy
    spec: int
    delays: Delays
    load: Callable[[int], float]
    answer: Callable[[], OutcomeResult] = lambda: OutcomeResult.APPLIED
    memory: ScalingMemory = field(default_factory=settled)
    ticks: list[Tick] = field(default_factory=list)
    applied: list[ScalingDecision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._coming: list[tuple[float, Callable[[float], None]]] = []
        self._read_spec = (0.0, self.spec)
        self._outcome: ObservedOutcome | None = None
        self._is_busy = False
        self._open: list[ScalingDecision] = []

    def run(self, ticks: int) -> list[ScalingDecision]:
        """So many more ticks; what happens between two of them happens in the order of time. Their decisions."""
        for _ in range(ticks):
            at_s = T0 + TICK_S * len(self.ticks)
            made_s = at_s + LATENESS_S + self.delays.tick()
            self._pass_until(made_s)
            self._tick(at_s, made_s)
        return [tick.decision for tick in self.ticks[-ticks:]]

    def _tick(self, at_s: int, made_s: float) -> None:
        readings = {"inflight_requests": self.load(at_s)}
        signal = signal_of(self.policy, readings, spec=self._read_spec[1], at_s=at_s, outcome=self._outcome)
        decision, self.memory = decide(self.policy, signal, self.memory)
        self.ticks.append(Tick(signal=signal, decision=decision, memory=self.memory))
        if decision.action is not ScalingAction.HOLD:
            self._open.append(decision)
            self._attempt(made_s)

    def _attempt(self, now_s: float) -> None:
        """One at a time, and the newest decision alone; what is so already takes no time."""
        if self._open and not self._is_busy:
            *older, newest = self._open
            self._open = []
            for decision in older:
                self._say(decision, OutcomeResult.SUPERSEDED, now_s)
            if newest.desired == self.spec:
                self._say(newest, OutcomeResult.APPLIED, now_s)
                return
            self._is_busy = True
            self._later(now_s + self.delays.act(), lambda end_s: self._end(newest, end_s))

    def _end(self, decision: ScalingDecision, now_s: float) -> None:
        self._is_busy = False
        result = self.answer()
        if result is OutcomeResult.APPLIED or (result is OutcomeResult.UNKNOWN and decision.at_s % 2):
            self.spec = spec = decision.desired
            self.applied.append(decision)
            self._later(now_s + self.delays.observe(), lambda _: self._observe(now_s, spec))
        self._say(decision, result, now_s)
        self._attempt(now_s)

    def _say(self, decision: ScalingDecision, result: OutcomeResult, now_s: float) -> None:
        outcome = ObservedOutcome(decision_id=decision.decision_id, result=result, at_s=int(now_s), observed=self.spec)
        self._later(now_s + self.delays.tell(), lambda _: self._read_outcome(outcome))

    def _observe(self, at_s: float, spec: int) -> None:
        if at_s >= self._read_spec[0]:
            self._read_spec = (at_s, spec)

    def _read_outcome(self, outcome: ObservedOutcome) -> None:
        if names_decision(self.memory, outcome.decision_id):
            self._outcome = outcome

    def _later(self, at_s: float, happen: Callable[[float], None]) -> None:
        self._coming.append((at_s, happen))

    def _pass_until(self, time_s: float) -> None:
        while due := [coming for coming in self._coming if coming[0] <= time_s]:
            first = min(due, key=lambda coming: coming[0])
            self._coming.remove(first)
            first[1](first[0])


def untold(signal: EndpointSignal, ids: Mapping[str, str]) -> EndpointSignal:
    """The same tick, to which nobody said that a decision was not carried out; `ids` are those by other ids."""
    outcome = signal.outcome
    if outcome is not None and outcome.result is OutcomeResult.APPLIED:
        outcome = msgspec.structs.replace(outcome, decision_id=ids[outcome.decision_id])
        return msgspec.structs.replace(signal, outcome=outcome)
    return msgspec.structs.replace(signal, outcome=None)


def within(rng: random.Random, most_s: float) -> Callable[[], float]:
    """Any delay up to this one."""
    return lambda: rng.uniform(0.0, most_s)
