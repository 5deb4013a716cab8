"""What would have happened otherwise: decided again with one thing changed, else from what the record holds."""

from collections.abc import Iterator
from enum import StrEnum
from typing import assert_never

import msgspec

from decisions.metrics import percentile_of
from headrace.explain import redecide
from headrace.explain.candidates import decided_by, has_no_load, largest, up_candidates
from headrace.explain.case import Case
from headrace.explain.detail import facts_in_detail
from headrace.explain.redecide import Inputs
from headrace.explain.sentences.formatting import metric_name
from records.decisions import ScalingDecision
from records.enums import MetricName, Mode, Percentile, ScalingAction, ScalingBound, ScalingReason

METRIC_PREFIX = "metric:"
"""Before the name of a metric, in what a counterfactual is without."""


class Circumstance(StrEnum):
    """Circumstances, other than a bound or a metric, without which it would have gone otherwise."""

    GAPS = "gaps"
    ROLLOUT = "rollout"
    FAILED_STARTS = "failed_starts"
    OTHERS = "others"
    MODE_OFF = "mode_off"
    SKIPPED = "skipped"


class Computed(StrEnum):
    """How a counterfactual was found: decided again, or from the record's candidates."""

    AGAIN = "again"
    RECORD = "record"


class Counterfactual(msgspec.Struct, frozen=True, kw_only=True):
    """`without`: a bound's word, `metric:NAME`, or a Circumstance; `desired` replicas it would have been then."""

    without: str
    desired: int
    computed: Computed


class Otherwise(msgspec.Struct, frozen=True, kw_only=True):
    """`earliest_down_s`: the first tick that may go down, null where that is not known or not asked."""

    counterfactuals: tuple[Counterfactual, ...] = ()
    earliest_down_s: int | None = None
    computed: Computed = Computed.RECORD


def find_otherwise(case: Case) -> Otherwise:
    """Each bound, metric and circumstance that another outcome hangs on, as far as it can be computed."""
    decision = case.decision
    inputs = redecide.inputs_of(case)
    earliest_s = _earliest_told(decision) if _is_held_down(decision) else None
    if inputs is None:
        return Otherwise(counterfactuals=tuple(_from_record(case)), earliest_down_s=earliest_s)
    if _is_held_down(decision):
        earliest_s = redecide.earliest_down_s(inputs) or earliest_s
    found = tuple(
        Counterfactual(without=without, desired=changed.desired, computed=Computed.AGAIN)
        for without, changed in _changes(inputs, decision)
    )
    return Otherwise(counterfactuals=found, earliest_down_s=earliest_s, computed=Computed.AGAIN)


def _changes(inputs: Inputs, decision: ScalingDecision) -> Iterator[tuple[str, Inputs]]:
    if decision.bound is not None:
        unbound = redecide.without_bound(inputs, decision.bound)
        if unbound is not None:
            yield decision.bound.value, unbound
    circumstance = circumstance_of(decision.reason)
    changed = None if circumstance is None else _without_circumstance(inputs, circumstance)
    if circumstance is not None and changed is not None:
        yield circumstance.value, changed
    if decision.reason not in (ScalingReason.AUTOSCALING_OFF, ScalingReason.SKIPPED):
        for metric, fewer in redecide.without_metrics(inputs):
            yield _metric_word(metric.name, percentile_of(metric)), fewer


def circumstance_of(reason: ScalingReason) -> Circumstance | None:
    """The circumstance that a reason speaks of; null for those that speak of load, bounds or supply."""
    match reason:
        case ScalingReason.UNKNOWN | ScalingReason.INSUFFICIENT_EVIDENCE | ScalingReason.SUSPECT:
            return Circumstance.GAPS
        case ScalingReason.ROLLOUT:
            return Circumstance.ROLLOUT
        case ScalingReason.FAILED_STARTS:
            return Circumstance.FAILED_STARTS
        case ScalingReason.CONTESTED | ScalingReason.TARGET_CHANGED | ScalingReason.MANUAL:
            return Circumstance.OTHERS
        case ScalingReason.AUTOSCALING_OFF:
            return Circumstance.MODE_OFF
        case ScalingReason.SKIPPED:
            return Circumstance.SKIPPED
        case ScalingReason.WITHIN_TARGET | ScalingReason.METRIC | ScalingReason.STABILISING | ScalingReason.STARTING:
            return None
        case ScalingReason.UNSCHEDULABLE | ScalingReason.FLAP_BUDGET | ScalingReason.GPU_BUDGET:
            return None
        case ScalingReason.MINIMUM | ScalingReason.MAXIMUM | ScalingReason.SCHEDULE | ScalingReason.FORECAST:
            return None
        case ScalingReason.PROVISIONED | ScalingReason.WOKEN | ScalingReason.IN_FLIGHT | ScalingReason.GATING:
            return None
        case ScalingReason.DRAINING | ScalingReason.ZERO:
            return None
        case _:
            assert_never(reason)


def _without_circumstance(inputs: Inputs, circumstance: Circumstance) -> Inputs | None:
    """The inputs without the circumstance; null where it cannot be thought away."""
    match circumstance:
        case Circumstance.GAPS:
            return redecide.with_whole_evidence(inputs)
        case Circumstance.ROLLOUT:
            return redecide.without_rollout(inputs)
        case Circumstance.FAILED_STARTS:
            return redecide.without_failed_starts(inputs)
        case Circumstance.OTHERS:
            return redecide.without_others(inputs)
        case Circumstance.MODE_OFF:
            return redecide.with_mode_act(inputs) if inputs.policy.mode is Mode.OFF else None
        case Circumstance.SKIPPED:
            return redecide.with_tick_decided(inputs)
        case _:
            assert_never(circumstance)


def _from_record(case: Case) -> Iterator[Counterfactual]:
    """What candidates and policy tell: of steps that a limit cut, and of a scale-up with one metric less."""
    decision = case.decision
    unbound = _unbound(case)
    if decision.bound is not None and unbound is not None:
        desired = max(unbound, decision.floors.minimum or 0, decision.floors.provisioned or 0)
        yield Counterfactual(without=decision.bound.value, desired=desired, computed=Computed.RECORD)
    if decision.action is not ScalingAction.SCALE_UP or decision.reason is not ScalingReason.METRIC:
        return
    asked = up_candidates(decision)
    for left_out in asked:
        others = largest(tuple(it for it in asked if it is not left_out))
        if others is not None and others.proposed is not None and others.proposed > decision.current:
            yield Counterfactual(
                without=_metric_word(left_out.metric, left_out.percentile),
                desired=min(others.proposed, decision.desired),
                computed=Computed.RECORD,
            )


def _unbound(case: Case) -> int | None:
    """What was asked for before one limit cut it; null where another that is not recorded may have cut it too."""
    decision = case.decision
    decider = decided_by(decision)
    asked = None if decider is None else decider.proposed
    if decision.bound is ScalingBound.MAX_FRACTION:
        needed = facts_in_detail(decision).needed
        return asked if needed is None else needed.replicas
    if decision.bound is ScalingBound.UP_LIMIT and asked is not None and case.policy is not None:
        return min(asked, case.policy.max_replicas)
    return None


def _earliest_told(decision: ScalingDecision) -> int | None:
    """When what the record names is over: what was needed before, the wait for a cycle, the respect for others.

    Null where nothing of that lasts beyond this tick.
    """
    told = facts_in_detail(decision)
    needed_s = None if told.needed is None else told.needed.at_s + told.needed.window_s
    known = (needed_s, told.next_cycle_s, told.respected_until_s)
    ends = [end for end in known if end is not None and end > decision.at_s]
    return max(ends, default=None)


def _is_held_down(decision: ScalingDecision) -> bool:
    """A hold although fewer would do now."""
    if decision.action is not ScalingAction.HOLD:
        return False
    most = largest(up_candidates(decision))
    return has_no_load(decision) if most is None else (most.proposed or 0) < decision.current


def _metric_word(metric: MetricName, percentile: Percentile | None) -> str:
    return METRIC_PREFIX + metric_name(metric, percentile).replace(" ", ":")
