"""What an explanation is made of: one decision and the records that belong to it."""

import msgspec

from records.decisions import ScalingDecision
from records.enums import OutcomeResult
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal


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


def telling_outcome(outcomes: tuple[Outcome, ...]) -> Outcome | None:
    """The outcome that counts: the first that says applied, else the newest."""
    applied = [outcome for outcome in outcomes if outcome.result is OutcomeResult.APPLIED]
    return applied[0] if applied else outcomes[-1] if outcomes else None


def is_repeat(case: Case) -> bool:
    """Tell whether the tick before already decided the same: no hold, the same replicas from and to."""
    if case.last is None:
        return False
    before, decision = case.last.newest, case.decision
    is_next = before.decision_id == decision.previous_id
    return is_next and (before.current, before.desired) == (decision.current, decision.desired)
