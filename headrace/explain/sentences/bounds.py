"""What bound a decision, and why a hold went neither up nor down."""

from typing import assert_never

from decisions.limits import least_after_down, most_after_up
from headrace.explain.candidates import decided_by, has_no_load, largest, up_candidates
from headrace.explain.case import Case
from headrace.explain.detail import facts_in_detail
from headrace.explain.sentences.formatting import Times, measured, number
from headrace.explain.sentences.sentence import Kind, Numbers, Said, Sentence
from records.decisions import Candidate, ScalingDecision
from records.enums import ScalingAction, ScalingBound


def bound_sentences(case: Case, times: Times) -> list[Sentence]:
    """The bound, or that there was none, then floors and maximum, then for a hold why not up and why not down."""
    decision = case.decision
    found = [_bound(case, times), _floors(case)]
    if decision.action is ScalingAction.HOLD:
        found += [_not_up(decision), _not_down(decision)]
    return [sentence for sentence in found if sentence is not None]


def _bound(case: Case, times: Times) -> Sentence | None:
    decision = case.decision
    if decision.bound is None:
        is_hold = decision.action is ScalingAction.HOLD
        return None if is_hold else Sentence(kind=Kind.BOUND, text="No limit changed the number.")
    text, numbers = _words(case, decision.bound, times)
    return Sentence(kind=Kind.BOUND, text=f"Bound {decision.bound.value}: {text}.", numbers=numbers)


def _words(case: Case, bound: ScalingBound, times: Times) -> Said:
    decision, floors = case.decision, case.decision.floors
    match bound:
        case ScalingBound.UP_LIMIT:
            return _up_limit(case)
        case ScalingBound.MAX_FRACTION:
            return _max_fraction(case)
        case ScalingBound.STABILISATION:
            return _stabilisation(decision, times)
        case ScalingBound.MINIMUM:
            return _floor("the policy's minimum", floors.minimum)
        case ScalingBound.MAXIMUM:
            return f"the policy's maximum, {decision.desired}, is the most there may be", {"desired": decision.desired}
        case ScalingBound.SCHEDULE:
            return _floor("the policy's schedule", floors.schedule)
        case ScalingBound.FORECAST:
            return _floor("what is expected soon", floors.forecast)
        case ScalingBound.PROVISIONED:
            return _floor("the provisioned concurrency", floors.provisioned)
        case ScalingBound.GPU_BUDGET:
            return f"the GPUs there are allow {decision.desired}", {"desired": decision.desired}
        case ScalingBound.FLAP_BUDGET:
            return "the direction changed too often within an hour to go down now", {}
        case _:
            assert_never(bound)


def _floor(words: str, replicas: int | None) -> Said:
    if replicas is None:
        return f"{words} is the least there may be", {}
    return f"{words}, {replicas}, is the least there may be", {"floor": replicas}


def _up_limit(case: Case) -> Said:
    decision = case.decision
    text = f"one step up from {decision.current} ends at {decision.desired}"
    numbers: Numbers = {"current": decision.current, "desired": decision.desired}
    if case.policy is None:
        return text, numbers
    limits = case.policy.scale_up
    if decision.desired != most_after_up(limits, decision.current):
        return _still_under_way(decision)
    numbers |= {"max_factor": limits.max_factor, "max_step": limits.max_step}
    return f"{text} (maxFactor {number(limits.max_factor)}, maxStep {limits.max_step})", numbers


def _max_fraction(case: Case) -> Said:
    decision = case.decision
    text = f"one step down from {decision.current} ends at {decision.desired}"
    numbers: Numbers = {"current": decision.current, "desired": decision.desired}
    if case.policy is None:
        return text, numbers
    limits = case.policy.scale_down
    if decision.desired != least_after_down(limits, decision.current):
        return _still_under_way(decision)
    return f"{text} (maxFraction {number(limits.max_fraction)})", numbers | {"max_fraction": limits.max_fraction}


def _still_under_way(decision: ScalingDecision) -> Said:
    """The policy's own limit lies farther: what holds is a step that nobody was seen to have made yet."""
    text = f"the step from {decision.current} to {decision.desired} was not seen carried out yet, and none goes past it"
    return text, {"current": decision.current, "desired": decision.desired}


def _stabilisation(decision: ScalingDecision, times: Times) -> Said:
    told, decider = facts_in_detail(decision), decided_by(decision)
    if told.needed is not None:
        needed = told.needed
        text = f"{needed.replicas} were needed at {times.short(needed.at_s)}, within the last {needed.window_s} s"
        return text, {"needed": needed.replicas, "needed_at_s": needed.at_s, "window_s": needed.window_s}
    if told.next_cycle_s is not None:
        text = f"the next cycle is at {times.short(told.next_cycle_s)}"
        return text, {"next_cycle_s": told.next_cycle_s}
    if decider is None or decider.proposed is None:
        return "the long window asks for more than the short one", {}
    numbers: Numbers = {"proposed": decider.proposed, "window_s": decider.window_s}
    return f"{measured(decider)} still asks for {decider.proposed}", numbers


def _floors(case: Case) -> Sentence | None:
    floors = case.decision.floors
    known = {
        name: replicas
        for name, replicas in (
            ("minimum", floors.minimum),
            ("schedule", floors.schedule),
            ("forecast", floors.forecast),
            ("provisioned", floors.provisioned),
        )
        if replicas is not None
    }
    parts = [f"{name} {replicas}" for name, replicas in known.items()]
    numbers: Numbers = dict(known)
    if case.policy is not None:
        parts.append(f"maximum {case.policy.max_replicas}")
        numbers["maximum"] = case.policy.max_replicas
    return Sentence(kind=Kind.FLOOR, text=f"Bounds in force: {', '.join(parts)}.", numbers=numbers) if parts else None


def _not_up(decision: ScalingDecision) -> Sentence:
    most = largest(up_candidates(decision))
    if most is None or most.proposed is None:
        why = "no load is left to measure" if has_no_load(decision) else "no metric proposes a number of replicas"
        return Sentence(kind=Kind.NOT_UP, text=f"Not up: {why}.")
    if most.proposed <= decision.current:
        return _asked(Kind.NOT_UP, "Not up:", decision, _no_more_than(most))
    return _asked(Kind.NOT_UP, f"Not up ({decision.reason.value}), although", decision, _as_many_as(most))


def _not_down(decision: ScalingDecision) -> Sentence:
    most = largest(up_candidates(decision))
    although = f"Not down ({decision.reason.value}), although"
    if most is None or most.proposed is None:
        text = "Not down: nothing shows that fewer would do."
        if has_no_load(decision):
            text = f"{although} no load is left to measure."
        return Sentence(kind=Kind.NOT_DOWN, text=text)
    if most.proposed >= decision.current:
        return _asked(Kind.NOT_DOWN, "Not down:", decision, _as_many_as(most))
    return _asked(Kind.NOT_DOWN, although, decision, _no_more_than(most))


def _no_more_than(most: Candidate) -> Said:
    text = f"no metric asks for more than {most.proposed} ({measured(most)})"
    return text, {"proposed": most.proposed or 0, "window_s": most.window_s}


def _as_many_as(most: Candidate) -> Said:
    return f"{measured(most)} asks for {most.proposed}", {"proposed": most.proposed or 0, "window_s": most.window_s}


def _asked(kind: Kind, head: str, decision: ScalingDecision, asked: Said) -> Sentence:
    """What the short window asks for, against what there is."""
    text, numbers = asked
    there = f"there {'is' if decision.current == 1 else 'are'} {decision.current}"
    return Sentence(kind=kind, text=f"{head} {text}, and {there}.", numbers=numbers | {"current": decision.current})
