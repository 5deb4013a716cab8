"""Step 0: what is, what came of the last decision, and whether someone else changed the target."""

import msgspec

from records.enums import Mode, OutcomeResult, ScalingAction
from records.policy import EndpointPolicy
from records.scaling_memory import MadeDecision, PendingDecision, ScalingMemory
from records.signals import EndpointSignal

REPEAT_S = 60
"""How long a decision that was not seen applied is repeated (decisions.md, step 0)."""

PREFIX_DIGITS = 16


class Stock(msgspec.Struct, frozen=True, kw_only=True):
    """What a tick starts from. `changed_from` is the spec before someone else changed it, null but at that tick."""

    current: int
    is_observed: bool
    pending: PendingDecision | None
    made: tuple[MadeDecision, ...]
    changed_from: int | None
    manual_from_s: int | None

    def names(self, decision_id: str) -> bool:
        """Tell whether this is the id of the last decision, or of one of its repeats."""
        pending = self.pending
        return pending is not None and _is_of(decision_id, pending, self.made)

    def unapplied(self, action: ScalingAction) -> PendingDecision | None:
        """Give the last decision if it went this way, was not seen applied and still starts from what is."""
        pending = self.pending
        if pending is None or pending.applied or pending.action is not action:
            return None
        return pending if pending.current == self.current or not self.is_observed else None


def take_stock(policy: EndpointPolicy, signal: EndpointSignal, memory: ScalingMemory) -> Stock:
    """Find `current` and what became of the last decision.

    `current` is the newest observed spec, also one that an earlier tick read; before the first, the ready replicas.
    """
    spec = signal.spec_replicas if signal.spec_replicas is not None else memory.spec_seen
    current = spec if spec is not None else signal.supply.ready
    made = tuple(item for item in memory.made if item.at_s > signal.at_s - REPEAT_S)
    changed_from: int | None = None
    if memory.spec_seen is not None and current != memory.spec_seen and not _is_ours(current, signal, memory):
        changed_from = memory.spec_seen
    return Stock(
        current=current,
        is_observed=spec is not None,
        pending=_see_applied(spec, signal, memory),
        made=made,
        changed_from=changed_from,
        manual_from_s=_manual_from(policy, signal, memory, current, changed_from),
    )


def keep_decision(stock: Stock, mode: Mode, made: PendingDecision) -> tuple[PendingDecision, tuple[MadeDecision, ...]]:
    """Remember a decision that is no hold: a repeat keeps the id and tick of its first, within 60 s.

    What was only advised is carried out by nobody whose outcome would name it.
    """
    pending = stock.pending
    is_repeat = (
        pending is not None
        and not pending.applied
        and (pending.current, pending.desired) == (made.current, made.desired)
        and made.at_s - pending.at_s <= REPEAT_S
    )
    kept = stock.made
    if mode is Mode.ACT:
        entry = MadeDecision(at_s=made.at_s, desired=made.desired, id_prefix=made.decision_id[:PREFIX_DIGITS])
        kept = (*kept, entry)
    return (pending if is_repeat and pending is not None else made), kept


def names_decision(memory: ScalingMemory, decision_id: str) -> bool:
    """Tell whether an outcome speaks of a decision that is remembered: the last, or one of the last 60 s."""
    if memory.pending is not None and memory.pending.decision_id == decision_id:
        return True
    return any(item.id_prefix == decision_id[:PREFIX_DIGITS] for item in memory.made)


def _see_applied(spec: int | None, signal: EndpointSignal, memory: ScalingMemory) -> PendingDecision | None:
    """Mark the last decision applied once the target or an outcome shows it; a refusal changes nothing."""
    pending = memory.pending
    if pending is None or pending.applied:
        return pending
    shown = spec == pending.desired if spec is not None else _is_reached(signal.supply.ready, pending)
    outcome = signal.outcome
    if not shown and outcome is not None and outcome.result is OutcomeResult.APPLIED:
        shown = _is_of(outcome.decision_id, pending, memory.made)
    return msgspec.structs.replace(pending, applied=True) if shown else pending


def _is_of(decision_id: str, pending: PendingDecision, made: tuple[MadeDecision, ...]) -> bool:
    if decision_id == pending.decision_id:
        return True
    return any(
        item.id_prefix == decision_id[:PREFIX_DIGITS] and item.desired == pending.desired and item.at_s >= pending.at_s
        for item in made
    )


def _is_reached(ready: int, pending: PendingDecision) -> bool:
    """Without an observed target the ready replicas stand for it: they have come as far, or farther."""
    if pending.action is ScalingAction.SCALE_DOWN:
        return ready <= pending.desired
    return ready >= pending.desired


def _is_ours(spec: int, signal: EndpointSignal, memory: ScalingMemory) -> bool:
    """Tell whether a changed spec is what we decided, whoever wrote it, or what our actuator says it made of that."""
    if memory.pending is not None and memory.pending.desired == spec:
        return True
    if any(item.desired == spec for item in memory.made):
        return True
    outcome = signal.outcome
    return (
        outcome is not None
        and outcome.result is OutcomeResult.APPLIED
        and outcome.observed == spec
        and names_decision(memory, outcome.decision_id)
    )


def _manual_from(
    policy: EndpointPolicy, signal: EndpointSignal, memory: ScalingMemory, current: int, changed_from: int | None
) -> int | None:
    """Give the tick since when a count set by someone else is respected, null when none is."""
    if changed_from is not None:
        return signal.at_s
    since = memory.manual_from_s
    if since is None or signal.at_s - since >= policy.respect_manual_seconds:
        return None
    return since if current == memory.spec_seen else None
