"""What an explanation is made of: one decision and the records that belong to it."""

from collections.abc import Sequence

import msgspec

from decisions.applied import REPEAT_S
from records.decisions import ScalingDecision
from records.enums import OutcomeResult
from records.fields import TICK_S
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal

OUTCOME_WITHIN_S = 7200
"""How long after a decision its outcomes are looked for."""
SHOWN_WITHIN_S = 300
"""How long after a decision the target counts as having followed it."""
REPEATS_S = 2 * REPEAT_S
"""Longer than a decision is repeated."""
REPEATS_MAX = REPEAT_S // TICK_S + 2
"""How many may say the same: the first, and one each tick for REPEAT_S, with both ends."""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The last decision before another one that is no hold, with those right before it that say the same.

    `decisions` are in order, each the next of the chain; `outcomes` those of any of them. `shown_s` is the first event
    time from the first one on at which the target was seen to have what they ask for, null where it was not.
    """

    decisions: tuple[ScalingDecision, ...]
    outcomes: tuple[Outcome, ...] = ()
    shown_s: int | None = None

    @property
    def newest(self) -> ScalingDecision:
        return self.decisions[-1]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, its signal, the outcomes of its id, and what it was made with.

    Null is what could not be found: `policy` is the one that `policy_hash` names, `memory` what was remembered before
    the tick; `last` is null where no decision before this one was found that is no hold. `shown_s` as of a Move.
    """

    decision: ScalingDecision
    signal: EndpointSignal | None = None
    policy: EndpointPolicy | None = None
    memory: ScalingMemory | None = None
    outcomes: tuple[Outcome, ...] = ()
    shown_s: int | None = None
    last: Move | None = None


def streak(newest_first: Sequence[ScalingDecision]) -> tuple[ScalingDecision, ...]:
    """The newest decision and those right before it in the chain that say the same, in order. There must be one."""
    made = [newest_first[0]]
    for earlier in newest_first[1:]:
        later = made[-1]
        if earlier.decision_id != later.previous_id or not _say_the_same(earlier, later):
            break
        made.append(earlier)
    return tuple(reversed(made))


def _say_the_same(first: ScalingDecision, second: ScalingDecision) -> bool:
    return (first.current, first.desired) == (second.current, second.desired)


def telling_outcome(outcomes: tuple[Outcome, ...]) -> Outcome | None:
    """The outcome that counts: the first that says applied, else the newest."""
    applied = [outcome for outcome in outcomes if outcome.result is OutcomeResult.APPLIED]
    return applied[0] if applied else outcomes[-1] if outcomes else None


def is_repeat(case: Case) -> bool:
    """Tell whether the tick before already decided the same: no hold, the same replicas from and to."""
    if case.last is None:
        return False
    before, decision = case.last.newest, case.decision
    return before.decision_id == decision.previous_id and _say_the_same(before, decision)
