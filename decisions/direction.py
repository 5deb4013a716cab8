"""Steps 4 and 5: from what the metrics ask for to a step up, a step down, or a hold with its reason."""

import msgspec

from decisions.applied import REPEAT_S, Stock
from decisions.evidence import Obstacle, down_obstacle, no_evidence
from decisions.limits import is_cycle, least_after_down, most_after_up
from decisions.proposals import Ask, Reading, largest_ask
from decisions.steps import Step
from decisions.supply import GIVEN_UP_STARTS, has_given_up, shortage_reason
from records.decisions import SkippedTicks, Supply
from records.enums import Mode, ScalingAction, ScalingBound, ScalingReason
from records.policy import EndpointPolicy
from records.scaling_memory import Recommendation
from records.signals import EndpointSignal


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """All that one tick's direction depends on. `history` is the recommendations of the down window, this tick's
    included; `ask` is null where no metric proposes anything."""

    policy: EndpointPolicy
    signal: EndpointSignal
    stock: Stock
    supply: Supply
    readings: tuple[Reading, ...]
    ask: Ask | None
    history: tuple[Recommendation, ...]
    evidence_from_s: int | None
    skipped: SkippedTicks | None = None

    @property
    def current(self) -> int:
        return self.stock.current


def choose_step(now: Situation) -> Step:
    """Choose the direction, before any floor."""
    policy, ask = now.policy, now.ask
    if policy.mode is Mode.OFF:
        return _hold(now, ScalingReason.AUTOSCALING_OFF, "the policy's mode is off")
    if policy.min_replicas == policy.max_replicas:
        return _hold(now, ScalingReason.AUTOSCALING_OFF, "minReplicas equals maxReplicas")
    if ask is None:
        return _blocked(now, no_evidence(now.readings))
    if ask.replicas > now.current:
        return _go_up(now, ask)
    if ask.replicas < now.current:
        return _go_down(now, ask)
    reason = shortage_reason(now.signal.supply, now.supply, ask.replicas)
    return _hold(now, reason, _asks(ask), ask.reading)


def _go_up(now: Situation, ask: Ask) -> Step:
    if has_given_up(now.signal.supply):
        why = f"{_asks(ask)}, but {now.supply.failed} failed to start {GIVEN_UP_STARTS} times or more without a ready"
        return _hold(now, ScalingReason.FAILED_STARTS, why, ask.reading)
    most = most_after_up(now.policy.scale_up, now.current)
    step = Step(
        desired=min(ask.replicas, most),
        reason=ScalingReason.METRIC,
        bound=ScalingBound.UP_LIMIT if ask.replicas > most else None,
        because=_asks(ask),
        decided=ask.reading,
    )
    if is_cycle(now.signal.at_s, now.policy.scale_up.every_seconds):
        return step
    pending = now.stock.unapplied(ScalingAction.SCALE_UP)
    if pending is not None and step.desired >= pending.desired and now.signal.at_s - pending.at_s <= REPEAT_S:
        return msgspec.structs.replace(step, desired=pending.desired)
    return _wait_for_cycle(now, ask, now.policy.scale_up.every_seconds)


def _go_down(now: Situation, ask: Ask) -> Step:
    blocked = _forbids_down(now)
    if blocked is not None:
        return _blocked(now, blocked)
    step = _stabilise(now, ask)
    if step.desired >= now.current:
        return _hold(now, ScalingReason.STABILISING, step.because, step.decided, ScalingBound.STABILISATION)
    step = _limit_down(now, step)
    if is_cycle(now.signal.at_s, now.policy.scale_down.every_seconds):
        return step
    pending = now.stock.unapplied(ScalingAction.SCALE_DOWN)
    if pending is not None and step.desired <= pending.desired and now.signal.at_s - pending.at_s <= REPEAT_S:
        return msgspec.structs.replace(step, desired=pending.desired)
    return _wait_for_cycle(now, ask, now.policy.scale_down.every_seconds)


def _stabilise(now: Situation, ask: Ask) -> Step:
    """Ask for what the whole down window does, or for the largest of its ticks' recommendations where that is more."""
    window_s = now.policy.scale_down.window_seconds
    over_window = largest_ask(now.readings, window_s, len(now.signal.unheard)) or ask
    largest = now.history[0]
    if largest.replicas > max(over_window.replicas, ask.replicas):
        because = f"{_asks(ask)}, but {largest.replicas} were needed at {largest.at_s}, within {window_s} s"
        desired, decided = largest.replicas, ask
    else:
        decided = over_window if over_window.replicas >= ask.replicas else ask
        desired, because = decided.replicas, _asks(decided)
    return Step(
        desired=desired,
        reason=ScalingReason.METRIC,
        because=because,
        bound=ScalingBound.STABILISATION if desired > ask.replicas else None,
        decided=decided.reading,
    )


def _forbids_down(now: Situation) -> Obstacle | None:
    """A count set by someone else stays first; then come the evidence and its gaps."""
    manual_from_s = now.stock.manual_from_s
    if manual_from_s is not None:
        until_s = manual_from_s + now.policy.respect_manual_seconds
        return Obstacle(reason=ScalingReason.MANUAL, text=f"someone else set it, respected until {until_s}")
    return down_obstacle(now.policy, now.signal, now.readings, now.evidence_from_s)


def _limit_down(now: Situation, step: Step) -> Step:
    """Go not farther than the fraction lets, nor past a scale-down that was not yet seen applied."""
    least = least_after_down(now.policy.scale_down, now.current)
    pending = now.stock.unapplied(ScalingAction.SCALE_DOWN)
    if pending is not None and pending.desired < now.current:
        least = max(least, pending.desired)
    if least <= step.desired:
        return step
    return msgspec.structs.replace(step, desired=least, bound=ScalingBound.MAX_FRACTION)


def _wait_for_cycle(now: Situation, ask: Ask, every_s: int) -> Step:
    next_s = (now.signal.at_s // every_s + 1) * every_s
    why = f"{_asks(ask)}, the next cycle is at {next_s}"
    return _hold(now, ScalingReason.STABILISING, why, ask.reading, ScalingBound.STABILISATION)


def _blocked(now: Situation, obstacle: Obstacle) -> Step:
    return _hold(now, obstacle.reason, obstacle.text, None if now.ask is None else now.ask.reading)


def _hold(
    now: Situation,
    reason: ScalingReason,
    because: str,
    decided: Reading | None = None,
    bound: ScalingBound | None = None,
) -> Step:
    """Stay at `current`; the tick that sees someone else's change says so before all else."""
    if now.stock.changed_from is not None and reason is not ScalingReason.AUTOSCALING_OFF:
        reason, bound = ScalingReason.TARGET_CHANGED, None
    return Step(desired=now.current, reason=reason, because=because, bound=bound, decided=decided)


def _asks(ask: Ask) -> str:
    reading = ask.reading
    if reading is None:
        return f"no load is left to measure, which asks for {ask.replicas}"
    return (
        f"{reading.key} {reading.observed:g} over {reading.window_s} s at target {reading.target:g} "
        f"asks for {ask.replicas}"
    )
