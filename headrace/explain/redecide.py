"""Decides a tick again from what it was decided on, as it was and with one thing changed."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from decisions.scaling import decide_scaling, skip_ticks
from headrace.explain.case import Case
from records.decisions import ScalingDecision, SkippedTicks
from records.enums import Mode, ScalingAction, ScalingBound, ValueState
from records.fields import COUNT_MAX, TICK_S
from records.policy import EndpointPolicy, Metric
from records.scaling_memory import PendingDecision, ScalingMemory
from records.signals import DownBlocker, EndpointSignal, SignalValue

LONG_AGO_S = 7 * 86_400
"""Longer than any window: evidence that reaches back so far has no gap."""

SIMULATED_S = 7200
"""Longest time that is decided tick by tick to find the first that goes down: twice the longest window."""

NO_LIMIT = COUNT_MAX
"""The largest count there is: a step or a maximum of this size binds nothing."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a tick is decided on. `skipped` is null but for a hold that says which ticks were not decided."""

    policy: EndpointPolicy
    policy_hash: str
    signal: EndpointSignal
    memory: ScalingMemory
    skipped: SkippedTicks | None = None

    def decide(self) -> tuple[ScalingDecision, ScalingMemory]:
        if self.skipped is not None:
            return skip_ticks(self.policy, self.policy_hash, self.signal, self.memory, self.skipped)
        return decide_scaling(self.policy, self.policy_hash, self.signal, self.memory)

    @property
    def desired(self) -> int:
        return self.decide()[0].desired


def inputs_of(case: Case) -> Inputs | None:
    """What the case's decision was made on; null where a part is missing or does not give the same decision again."""
    decision = case.decision
    if case.policy is None or case.signal is None or case.memory is None:
        return None
    inputs = Inputs(
        policy=case.policy,
        policy_hash=decision.policy_hash,
        signal=case.signal,
        memory=case.memory,
        skipped=decision.skipped,
    )
    return inputs if inputs.decide()[0].decision_id == decision.decision_id else None


def without_bound(inputs: Inputs, bound: ScalingBound) -> Inputs | None:
    """The inputs with a policy, or a memory, in which this limit binds nothing; null where no input holds it."""
    policy = inputs.policy
    match bound:
        case ScalingBound.UP_LIMIT:
            up = replace(policy.scale_up, max_step=NO_LIMIT)
            return replace(inputs, policy=replace(policy, scale_up=up))
        case ScalingBound.MAX_FRACTION:
            down = replace(policy.scale_down, max_fraction=1.0)
            memory = replace(inputs.memory, pending=_as_applied(inputs.memory.pending))
            return replace(inputs, policy=replace(policy, scale_down=down), memory=memory)
        case ScalingBound.STABILISATION:
            return _unstabilised(inputs)
        case ScalingBound.MINIMUM:
            return replace(inputs, policy=replace(policy, min_replicas=0))
        case ScalingBound.MAXIMUM:
            return replace(inputs, policy=replace(policy, max_replicas=NO_LIMIT))
        case ScalingBound.PROVISIONED:
            return replace(inputs, policy=replace(policy, provisioned_concurrency=0))
        case ScalingBound.SCHEDULE | ScalingBound.FORECAST | ScalingBound.GPU_BUDGET | ScalingBound.FLAP_BUDGET:
            return None


def _as_applied(pending: PendingDecision | None) -> PendingDecision | None:
    return None if pending is None else replace(pending, applied=True)


def _unstabilised(inputs: Inputs) -> Inputs:
    """Steps at every tick, down to what the short window asks for now."""
    policy = inputs.policy
    up = replace(policy.scale_up, every_seconds=TICK_S)
    down = replace(policy.scale_down, every_seconds=TICK_S, window_seconds=up.window_seconds)
    memory = replace(inputs.memory, recommendations=())
    return replace(inputs, policy=replace(policy, scale_up=up, scale_down=down), memory=memory)


def without_metrics(inputs: Inputs) -> Iterator[tuple[Metric, Inputs]]:
    """The inputs with a policy of one metric less, for each that has another beside it."""
    metrics = inputs.policy.metrics
    if len(metrics) > 1:
        for metric in metrics:
            rest = tuple(other for other in metrics if other is not metric)
            yield metric, replace(inputs, policy=replace(inputs.policy, metrics=rest))


def with_whole_evidence(inputs: Inputs) -> Inputs | None:
    """Every value heard from every replica, no gap before; null where a value is missing, since none is made up."""
    values = [value for window in inputs.signal.windows.values() for value in window.values()]
    if any(value.value is None and value.state is not ValueState.UNDEFINED for value in values):
        return None
    windows = {
        window: {key: _fresh(value) for key, value in values.items()}
        for window, values in inputs.signal.windows.items()
    }
    signal = replace(inputs.signal, windows=windows, down_blockers=_rollouts(inputs.signal.down_blockers))
    memory = replace(inputs.memory, evidence_from_s=max(0, inputs.signal.at_s - LONG_AGO_S))
    return replace(inputs, signal=signal, memory=memory)


def _fresh(value: SignalValue) -> SignalValue:
    return value if value.value is None else replace(value, state=ValueState.FRESH, coverage=1.0)


def _rollouts(blockers: tuple[DownBlocker, ...]) -> tuple[DownBlocker, ...]:
    return tuple(blocker for blocker in blockers if blocker.kind == "rollout")


def without_rollout(inputs: Inputs) -> Inputs:
    blockers = tuple(blocker for blocker in inputs.signal.down_blockers if blocker.kind != "rollout")
    return replace(inputs, signal=replace(inputs.signal, rollout=False, down_blockers=blockers))


def without_failed_starts(inputs: Inputs) -> Inputs:
    supply = replace(inputs.signal.supply, failed=0, failed_starts=0)
    return replace(inputs, signal=replace(inputs.signal, supply=supply))


def without_others(inputs: Inputs) -> Inputs:
    """Nobody else changed the target, or is respected for having done so."""
    memory = replace(inputs.memory, spec_seen=inputs.signal.spec_replicas, manual_from_s=None)
    return replace(inputs, memory=memory)


def with_mode_act(inputs: Inputs) -> Inputs:
    return replace(inputs, policy=replace(inputs.policy, mode=Mode.ACT))


def with_tick_decided(inputs: Inputs) -> Inputs:
    return replace(inputs, skipped=None)


def earliest_down_s(inputs: Inputs) -> int | None:
    """The first later tick at which it would go down if all went on as in the last short window; null where none does
    by the time that everything of before is forgotten.

    Blockers end when they say. What was needed, a gap in the evidence and a count set by someone else take their time.
    """
    _, memory = inputs.decide()
    first_s = inputs.signal.at_s + TICK_S
    for at_s in range(first_s, first_s + _forgets_after_s(inputs), TICK_S):
        later = replace(inputs, signal=_went_on(inputs, at_s), memory=memory, skipped=None)
        decision, memory = later.decide()
        if decision.action is ScalingAction.SCALE_DOWN:
            return at_s
    return None


def _forgets_after_s(inputs: Inputs) -> int:
    """Seconds after which nothing that was before the tick can make a difference, two hours at most."""
    policy, at_s = inputs.policy, inputs.signal.at_s
    down = policy.scale_down
    blocked_s = max((blocker.until_s or at_s for blocker in inputs.signal.down_blockers), default=at_s) - at_s
    respected_s = 0 if inputs.memory.manual_from_s is None else policy.respect_manual_seconds
    return min(SIMULATED_S, down.window_seconds + down.every_seconds + max(blocked_s, respected_s, 0) + 2 * TICK_S)


def _went_on(inputs: Inputs, at_s: int) -> EndpointSignal:
    """The signal of a later tick: both windows have seen what the short one sees now."""
    signal, policy = inputs.signal, inputs.policy
    short = signal.windows.get(str(policy.scale_up.window_seconds), {})
    return replace(
        signal,
        at_s=at_s,
        processed_s=signal.processed_s + at_s - signal.at_s,
        windows={str(policy.scale_up.window_seconds): short, str(policy.scale_down.window_seconds): short},
        down_blockers=tuple(it for it in signal.down_blockers if it.until_s is None or it.until_s > at_s),
    )
