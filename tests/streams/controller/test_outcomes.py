"""What actuators say between two ticks, in every order: that something was applied is never lost."""

import itertools

import pytest

from records.enums import OutcomeResult
from records.outcomes import Outcome
from records.scaling_memory import PendingDecision
from records.telemetry import TargetObserved
from streams.controller.controller import PartitionController
from streams.endpoints.effects import Count, TickEffects
from tests.streams.controller.line import Line, feed_all, policy, sample, started

SPEC = 2


class Watched:
    """An endpoint under a load that asks for more than it has, fed tick by tick."""

    def __init__(self) -> None:
        self.controller: PartitionController = started(policy(mode="act", maxReplicas=50))
        self._line = Line()
        self._second = 1000
        self._line.add("telemetry.targets", TargetObserved(endpoint="chat", at_s=1000, spec_replicas=SPEC))

    def tick(self) -> TickEffects:
        """Samples until the next tick is due; that tick."""
        while True:
            self._line.samples([sample(self._second, "r1", running=40.0)])
            self._second += 1
            made = self._feed()
            if made:
                return made[-1]

    def tell(self, decision_id: str, result: OutcomeResult, at_s: int) -> None:
        outcome = Outcome(
            decision_id=decision_id,
            decision_topic="decisions.scaling",
            endpoint="chat",
            actuator="fleet",
            at_s=at_s,
            result=result,
        )
        self._line.add("outcomes", outcome, self._second + 1.0)
        assert self._feed() == []

    def _feed(self) -> list[TickEffects]:
        arrivals, self._line.arrivals = self._line.arrivals, []
        return feed_all(self.controller, arrivals)


def pending(effects: TickEffects) -> PendingDecision:
    found = effects.memory.scaling.pending
    assert found is not None
    return found


def decided(watched: Watched) -> tuple[str, str]:
    """The ids of a decision and its repeat."""
    made = [watched.tick().decisions[0] for _ in range(6)][-2:]
    assert {decision.desired for decision in made} == {5}
    first, repeat = (decision.decision_id for decision in made)
    return first, repeat


ORDERS = list(itertools.permutations(range(3)))


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("other", [it for it in OutcomeResult if it is not OutcomeResult.APPLIED])
def test_applied_is_seen_whatever_else_is_said_before_or_after_it(other: OutcomeResult, order: tuple[int, ...]) -> None:
    watched = Watched()
    first, repeat = decided(watched)
    said = [(first, OutcomeResult.APPLIED, 1030), (repeat, other, 1031), (repeat, other, 1029)]
    for number in order:
        watched.tell(*said[number])
    seen = watched.tick()
    assert seen.signal.outcome is not None
    assert seen.signal.outcome.result is OutcomeResult.APPLIED
    assert pending(seen).at_s == seen.at_s, "what was applied is over: the decision is a new one"


@pytest.mark.parametrize("result", [it for it in OutcomeResult if it is not OutcomeResult.APPLIED])
def test_what_was_not_applied_is_repeated(result: OutcomeResult) -> None:
    watched = Watched()
    first, _ = decided(watched)
    watched.tell(first, result, 1030)
    before = pending(watched.tick())
    after = pending(watched.tick())
    assert (before, before.applied) == (after, False)


def test_after_a_tick_the_newest_counts_again() -> None:
    watched = Watched()
    first, repeat = decided(watched)
    watched.tell(first, OutcomeResult.APPLIED, 1030)
    watched.tick()
    watched.tell(repeat, OutcomeResult.REFUSED, 1031)
    seen = watched.tick()
    assert seen.signal.outcome is not None
    assert seen.signal.outcome.result is OutcomeResult.REFUSED


def test_an_outcome_of_nobody_s_decision_is_counted_and_changes_nothing() -> None:
    watched = Watched()
    decided(watched)
    watched.tell("0" * 64, OutcomeResult.APPLIED, 1030)
    seen = watched.tick()
    assert seen.signal.outcome is None
    assert watched.controller.counts[Count.UNKNOWN_DECISION] == 1
