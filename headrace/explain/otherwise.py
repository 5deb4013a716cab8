"""What would have happened otherwise: decided again with one thing changed, else from what the record holds."""

from collections.abc import Iterator
from enum import StrEnum
from typing import assert_never

import msgspec

from decisions.metrics import percentile_of
from headrace.explain import again
from headrace.explain.again import Inputs
from headrace.explain.asks import decided_by, has_no_load, largest, up_candidates
from headrace.explain.case import Case
from headrace.explain.sentence import Kind, Sentence, say
from headrace.explain.told import told_by
from headrace.explain.words import Times, measured, metric_name, span
from records.decisions import Candidate, ScalingDecision
from records.enums import MetricName, Mode, Percentile, ScalingAction, ScalingBound, ScalingReason, ValueState

_METRIC = "metric:"


class Had(StrEnum):
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
    """`without`: a bound's word, `metric:NAME`, or a Had; `desired` replicas it would have been then."""

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
    inputs = again.inputs_of(case)
    earliest_s = _earliest_told(decision) if _is_held_down(decision) else None
    if inputs is None:
        return Otherwise(counterfactuals=tuple(_from_record(case)), earliest_down_s=earliest_s)
    if _is_held_down(decision):
        earliest_s = again.earliest_down_s(inputs) or earliest_s
    found = tuple(
        Counterfactual(without=without, desired=changed.desired, computed=Computed.AGAIN)
        for without, changed in _changes(inputs, decision)
    )
    return Otherwise(counterfactuals=found, earliest_down_s=earliest_s, computed=Computed.AGAIN)


def otherwise_sentences(case: Case, otherwise: Otherwise, times: Times) -> list[Sentence]:
    decision = case.decision
    sentences = [_would(it, decision) for it in otherwise.counterfactuals]
    if _had(decision.reason) is Had.GAPS and all(it.without != Had.GAPS for it in otherwise.counterfactuals):
        silent = [measured(it) for it in decision.candidates if it.observed is None and not _is_zero(it)]
        if silent:
            text = f"What it would have done had all been heard cannot be said: no value of {', '.join(silent)}."
            sentences.append(say(Kind.OTHERWISE, text))
    earliest_s = otherwise.earliest_down_s
    if earliest_s is not None:
        after_s = earliest_s - decision.at_s
        when = f"at {times.short(earliest_s)} at the earliest, {span(after_s)} after this tick"
        text = f"It may go down {when}, if the load stays as it is."
        sentences.append(say(Kind.EARLIEST, text, earliest_s=earliest_s, after_s=after_s))
    return sentences


def _changes(inputs: Inputs, decision: ScalingDecision) -> Iterator[tuple[str, Inputs]]:
    if decision.bound is not None:
        unbound = again.without_bound(inputs, decision.bound)
        if unbound is not None:
            yield decision.bound.value, unbound
    had = _had(decision.reason)
    changed = None if had is None else _had_not(inputs, had)
    if had is not None and changed is not None:
        yield had.value, changed
    if decision.reason not in (ScalingReason.AUTOSCALING_OFF, ScalingReason.SKIPPED):
        for metric, fewer in again.without_metrics(inputs):
            yield _metric_word(metric.name, percentile_of(metric)), fewer


def _had(reason: ScalingReason) -> Had | None:
    """The circumstance that a reason speaks of; null for those that speak of load, bounds or supply."""
    match reason:
        case ScalingReason.UNKNOWN | ScalingReason.INSUFFICIENT_EVIDENCE | ScalingReason.SUSPECT:
            return Had.GAPS
        case ScalingReason.ROLLOUT:
            return Had.ROLLOUT
        case ScalingReason.FAILED_STARTS:
            return Had.FAILED_STARTS
        case ScalingReason.CONTESTED | ScalingReason.TARGET_CHANGED | ScalingReason.MANUAL:
            return Had.OTHERS
        case ScalingReason.AUTOSCALING_OFF:
            return Had.MODE_OFF
        case ScalingReason.SKIPPED:
            return Had.SKIPPED
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


def _had_not(inputs: Inputs, had: Had) -> Inputs | None:
    """The inputs without the circumstance; null where it cannot be thought away."""
    match had:
        case Had.GAPS:
            return again.with_whole_evidence(inputs)
        case Had.ROLLOUT:
            return again.without_rollout(inputs)
        case Had.FAILED_STARTS:
            return again.without_failed_starts(inputs)
        case Had.OTHERS:
            return again.without_others(inputs)
        case Had.MODE_OFF:
            return again.with_mode_act(inputs) if inputs.policy.mode is Mode.OFF else None
        case Had.SKIPPED:
            return again.with_tick_decided(inputs)
        case _:
            assert_never(had)


def _would(it: Counterfactual, decision: ScalingDecision) -> Sentence:
    current, desired = decision.current, it.desired
    if desired == current:
        return say(Kind.OTHERWISE, f"{_without(it.without)}, it would have stayed at {current}.", current=current)
    then = f"it would have gone {'up' if desired > current else 'down'} from {current} to {desired}"
    return say(Kind.OTHERWISE, f"{_without(it.without)}, {then}.", current=current, desired=desired)


def _without(word: str) -> str:
    if word not in set(Had):
        return f"Without {word.removeprefix(_METRIC).replace(':', ' ')}"
    match Had(word):
        case Had.GAPS:
            return "Had every value been heard whole and nothing been missing before"
        case Had.ROLLOUT:
            return "Without the rollout"
        case Had.FAILED_STARTS:
            return "Had no start failed"
        case Had.OTHERS:
            return "Had the count been set by nobody else"
        case Had.MODE_OFF:
            return "Were the policy's mode not off"
        case Had.SKIPPED:
            return "Had this tick been decided"


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
        needed = told_by(decision).needed
        return asked if needed is None else needed.replicas
    if decision.bound is ScalingBound.UP_LIMIT and asked is not None and case.policy is not None:
        return min(asked, case.policy.max_replicas)
    return None


def _earliest_told(decision: ScalingDecision) -> int | None:
    """When what the record names is over: what was needed before, the wait for a cycle, the respect for others.

    Null where nothing of that lasts beyond this tick.
    """
    told = told_by(decision)
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


def _is_zero(candidate: Candidate) -> bool:
    return candidate.state is ValueState.UNDEFINED


def _metric_word(metric: MetricName, percentile: Percentile | None) -> str:
    return _METRIC + metric_name(metric, percentile).replace(" ", ":")
