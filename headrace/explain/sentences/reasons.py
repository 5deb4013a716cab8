"""Each reason of a decision as a sentence: the contract's word, then what it means here."""

from typing import assert_never

from headrace.explain.candidates import decided_by
from headrace.explain.case import Case
from headrace.explain.detail import DetailFacts, facts_in_detail
from headrace.explain.sentences.formatting import Times, measured
from headrace.explain.sentences.sentence import Kind, Numbers, Said, Sentence
from records.decisions import ScalingDecision
from records.enums import ScalingAction, ScalingReason, ValueState


def reason_sentence(case: Case, times: Times) -> Sentence:
    decision = case.decision
    text, numbers = _words(decision, facts_in_detail(decision), times)
    return Sentence(kind=Kind.REASON, text=f"Reason {decision.reason.value}: {text}.", numbers=numbers)


def _words(decision: ScalingDecision, told: DetailFacts, times: Times) -> Said:
    """Each reason's words; those that need more than one line have a function of their own."""
    supply, floors = decision.supply, decision.floors
    match decision.reason:
        case ScalingReason.WITHIN_TARGET:
            return "as many replicas as the metrics ask for are there", {}
        case ScalingReason.METRIC:
            return _metric(decision)
        case ScalingReason.MINIMUM:
            return _floor("the policy's minimum keeps at least", floors.minimum)
        case ScalingReason.MAXIMUM:
            return f"the policy's maximum allows {decision.desired} at most", {"desired": decision.desired}
        case ScalingReason.SCHEDULE:
            return _floor("the policy's schedule keeps at least", floors.schedule)
        case ScalingReason.FORECAST:
            return _floor("what is expected soon needs at least", floors.forecast)
        case ScalingReason.PROVISIONED:
            return _floor("the provisioned concurrency needs at least", floors.provisioned)
        case ScalingReason.UNKNOWN:
            return _values(decision, (ValueState.UNKNOWN, ValueState.STALE), "silence is not taken for idleness"), {}
        case ScalingReason.INSUFFICIENT_EVIDENCE:
            return _values(decision, (ValueState.PARTIAL,), "not all of the time that counts was seen"), {}
        case ScalingReason.SUSPECT:
            return _values(decision, (ValueState.SUSPECT,), "what contradicts itself decides nothing"), {}
        case ScalingReason.STABILISING:
            return _stabilising(told, times)
        case ScalingReason.ROLLOUT:
            return "fewer would do, but a rollout is in progress", {}
        case ScalingReason.STARTING:
            text = f"{supply.ready} are ready and {supply.starting} start, so no more are asked for"
            return text, {"ready": supply.ready, "starting": supply.starting}
        case ScalingReason.FAILED_STARTS:
            return f"{supply.failed} failed to start, so asking for more is of no use", {"failed": supply.failed}
        case ScalingReason.UNSCHEDULABLE:
            text = f"{supply.unschedulable} of those asked for cannot be scheduled, so no more are asked for"
            return text, {"unschedulable": supply.unschedulable}
        case ScalingReason.FLAP_BUDGET:
            return "the direction changed too often within an hour, so it stays at the higher count", {}
        case ScalingReason.CONTESTED:
            return "someone else takes our changes back again and again, so nothing is done for a while", {}
        case ScalingReason.TARGET_CHANGED:
            return _target_changed(decision, told)
        case ScalingReason.MANUAL:
            return _manual(decision, told, times)
        case ScalingReason.WOKEN:
            return "a request came while there was no replica", {}
        case ScalingReason.IN_FLIGHT:
            return "nothing arrives any more, but requests are still in flight", {}
        case ScalingReason.GATING:
            return "on the way to zero, the gateway keeps what arrives", {}
        case ScalingReason.DRAINING:
            return "on the way to zero, what is in flight is finished first", {}
        case ScalingReason.ZERO:
            return "nothing has arrived for long enough, so no replica is needed", {}
        case ScalingReason.AUTOSCALING_OFF:
            return "the policy has autoscaling off, by its mode or by minReplicas equal to maxReplicas", {}
        case ScalingReason.GPU_BUDGET:
            return f"the GPUs there are allow {decision.desired} at most", {"desired": decision.desired}
        case ScalingReason.SKIPPED:
            return _skipped(decision, times)
        case _:
            assert_never(decision.reason)


def _metric(decision: ScalingDecision) -> Said:
    decider = decided_by(decision)
    if decider is None or decider.proposed is None:
        return "no load is left to measure, so nothing asks for a replica", {}
    numbers: Numbers = {
        "proposed": decider.proposed,
        "current": decision.current,
        "window_s": decider.window_s,
    }
    if decision.action is ScalingAction.SCALE_UP:
        return f"{measured(decider)} asks for {decider.proposed}, more than the {decision.current} there are", numbers
    most = f"the most that a metric asks for is {decider.proposed} ({measured(decider)})"
    return f"{most}, fewer than the {decision.current} there are", numbers


def _floor(words: str, replicas: int | None) -> Said:
    return (words + " so many", {}) if replicas is None else (f"{words} {replicas}", {"floor": replicas})


def _values(decision: ScalingDecision, states: tuple[ValueState, ...], words: str) -> str:
    """Name the values in these states; where there is none, the gap lies before this tick or beside the values."""
    found = [f"{measured(it)} is {it.state.value}" for it in decision.candidates if it.state in states]
    return f"{', '.join(found)}; {words}" if found else words


def _stabilising(told: DetailFacts, times: Times) -> Said:
    if told.needed is not None:
        needed = told.needed
        numbers: Numbers = {"needed": needed.replicas, "needed_at_s": needed.at_s, "window_s": needed.window_s}
        what = f"{needed.replicas} were needed at {times.short(needed.at_s)}"
        return f"{what}, and whatever was needed within {needed.window_s} s still counts", numbers
    if told.next_cycle_s is not None:
        text = f"the next cycle that may change something is at {times.short(told.next_cycle_s)}"
        return text, {"next_cycle_s": told.next_cycle_s}
    return "the long window still asks for as many as there are", {}


def _target_changed(decision: ScalingDecision, told: DetailFacts) -> Said:
    current, before = decision.current, told.changed_from
    if before is None:
        return f"someone else changed the target to {current}, and that is the new start", {"current": current}
    text = f"someone else changed the target from {before} to {current}, and that is the new start"
    return text, {"changed_from": before, "current": current}


def _manual(decision: ScalingDecision, told: DetailFacts, times: Times) -> Said:
    current, until_s = decision.current, told.respected_until_s
    if until_s is None:
        return f"someone else set {current}, which is respected", {"current": current}
    text = f"someone else set {current}, which is respected until {times.short(until_s)}"
    return text, {"current": current, "respected_until_s": until_s}


def _skipped(decision: ScalingDecision, times: Times) -> Said:
    skipped = decision.skipped
    if skipped is None:
        return "the pipeline was away, and ticks were not decided", {}
    text = f"the pipeline was away, ticks {times.short(skipped.first_tick)} to {times.short(skipped.last_tick)}"
    numbers: Numbers = {"first_tick": skipped.first_tick, "last_tick": skipped.last_tick}
    return f"{text} were not decided", numbers
