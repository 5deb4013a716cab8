"""How many replicas an endpoint shall have: the steps of decisions.md, "Up and down", one after the other.

Later steps (schedules, forecasts, the flap budget, fights over the target, zero, roles) take their place between
`choose_step` and `apply_floors`, or beside the floors.
"""

import re

import msgspec

from decisions.applied import keep_decision, take_stock
from decisions.chain import decision_id
from decisions.direction import Situation, choose_step
from decisions.evidence import evidence_start
from decisions.explanation import describe, describe_candidates
from decisions.floors import apply_floors, floors_of
from decisions.proposals import largest_ask, read_metrics
from decisions.stabilisation import remember
from decisions.steps import Step
from decisions.supply import count_supply
from decisions.victims import choose_victims, drain_deadline_s
from records.decisions import ScalingDecision, SkippedTicks
from records.enums import Mode, ScalingAction, ScalingReason
from records.fields import COUNT_MAX
from records.policy import EndpointPolicy
from records.scaling_memory import PendingDecision, ScalingMemory
from records.signals import EndpointSignal

_GPUS_OF_A_REPLICA = re.compile(r"x([1-9][0-9]{0,4})$")


def decide_scaling(
    policy: EndpointPolicy, policy_hash: str, signal: EndpointSignal, memory: ScalingMemory
) -> tuple[ScalingDecision, ScalingMemory]:
    """Decide one tick. Equal arguments give equal bytes; nothing else is read.

    The memory given back is the argument of the next tick's call.
    """
    stock = take_stock(policy, signal, memory)
    readings = read_metrics(policy, signal, stock.current)
    ask = largest_ask(readings, policy.scale_up.window_seconds, len(signal.unheard))
    history = remember(
        memory.recommendations,
        signal.at_s,
        None if ask is None else ask.replicas,
        policy.scale_down.window_seconds,
    )
    situation = Situation(
        policy=policy,
        signal=signal,
        stock=stock,
        supply=count_supply(signal.supply),
        readings=readings,
        ask=ask,
        history=history,
        evidence_from_s=evidence_start(policy, signal, readings, memory.evidence_from_s),
    )
    step = choose_step(situation)
    if policy.mode is not Mode.OFF:
        step = apply_floors(step, floors_of(policy, stock.current), policy.max_replicas, stock.current)
    decision = _state(policy, policy_hash, situation, step, memory.previous_id)
    return decision, _remember(situation, decision)


def skip_ticks(
    policy: EndpointPolicy, policy_hash: str, signal: EndpointSignal, memory: ScalingMemory, skipped: SkippedTicks
) -> tuple[ScalingDecision, ScalingMemory]:
    """Say by one hold at `signal.at_s` that the ticks of `skipped` were not decided, the pipeline being away.

    What they would have recommended is unknown, so the evidence for going down begins anew; the target, and what came
    of the last decision, are left for the next tick to see.
    """
    stock = take_stock(policy, signal, memory)
    readings = read_metrics(policy, signal, stock.current)
    because = f"the pipeline was away, ticks {skipped.first_tick} to {skipped.last_tick} were not decided"
    step = Step(desired=stock.current, reason=ScalingReason.SKIPPED, because=because)
    situation = Situation(
        policy=policy,
        signal=signal,
        stock=msgspec.structs.replace(stock, changed_from=None),
        supply=count_supply(signal.supply),
        readings=readings,
        ask=None,
        history=memory.recommendations,
        evidence_from_s=None,
        skipped=skipped,
    )
    decision = _state(policy, policy_hash, situation, step, memory.previous_id)
    return decision, msgspec.structs.replace(memory, previous_id=decision.decision_id, evidence_from_s=None)


def _state(
    policy: EndpointPolicy, policy_hash: str, situation: Situation, step: Step, previous_id: str | None
) -> ScalingDecision:
    """Write down what was decided, with all that it came from, and give it its id."""
    signal, current = situation.signal, situation.current
    action = _action(current, step.desired)
    is_down = action is ScalingAction.SCALE_DOWN
    decision = ScalingDecision(
        endpoint=signal.endpoint,
        at_s=signal.at_s,
        decision_id="",
        previous_id=previous_id,
        policy_hash=policy_hash,
        mode=policy.mode,
        action=action,
        reason=step.reason,
        bound=step.bound,
        detail=describe(signal, situation.stock, step, action),
        current=current,
        desired=step.desired,
        candidates=describe_candidates(situation.readings, step),
        floors=floors_of(policy, current),
        supply=situation.supply,
        gpus=_gpus(policy, step.desired),
        victims=choose_victims(signal, current, step.desired) if is_down else (),
        drain_deadline_s=drain_deadline_s(signal) if is_down else None,
        skipped=situation.skipped,
    )
    return msgspec.structs.replace(decision, decision_id=decision_id(decision))


def _remember(situation: Situation, decision: ScalingDecision) -> ScalingMemory:
    stock = situation.stock
    pending, made = stock.pending, stock.made
    if decision.action is not ScalingAction.HOLD:
        latest = PendingDecision(
            decision_id=decision.decision_id,
            at_s=decision.at_s,
            action=decision.action,
            current=decision.current,
            desired=decision.desired,
        )
        pending, made = keep_decision(stock, decision.mode, latest)
    return ScalingMemory(
        previous_id=decision.decision_id,
        recommendations=situation.history,
        pending=pending,
        made=made,
        evidence_from_s=situation.evidence_from_s,
        spec_seen=stock.current if stock.is_observed else None,
        manual_from_s=stock.manual_from_s,
    )


def _action(current: int, desired: int) -> ScalingAction:
    if desired == current:
        return ScalingAction.HOLD
    return ScalingAction.SCALE_UP if desired > current else ScalingAction.SCALE_DOWN


def _gpus(policy: EndpointPolicy, desired: int) -> int | None:
    """Give the GPUs of `desired` replicas by the hardware's name (`H100x4`: 4 each), null where it does not tell."""
    found = _GPUS_OF_A_REPLICA.search(policy.model.hardware or "")
    return None if found is None else min(COUNT_MAX, desired * int(found.group(1)))
