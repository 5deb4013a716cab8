"""What would have been otherwise, in sentences."""

from headrace.explain.case import Case
from headrace.explain.counterfactuals import METRIC_PREFIX, Circumstance, Counterfactual, Otherwise, circumstance_of
from headrace.explain.sentences.formatting import Times, measured, span
from headrace.explain.sentences.sentence import Kind, Sentence, say
from records.decisions import ScalingDecision
from records.enums import ValueState


def otherwise_sentences(case: Case, otherwise: Otherwise, times: Times) -> list[Sentence]:
    """Each counterfactual, or why nothing can be said, then when a held decision may go down."""
    decision = case.decision
    sentences = [_would(it, decision) for it in otherwise.counterfactuals]
    is_for_want = circumstance_of(decision.reason) is Circumstance.GAPS
    if is_for_want and all(it.without != Circumstance.GAPS for it in otherwise.counterfactuals):
        silent = [
            measured(it) for it in decision.candidates if it.observed is None and it.state is not ValueState.UNDEFINED
        ]
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


def _would(it: Counterfactual, decision: ScalingDecision) -> Sentence:
    current, desired = decision.current, it.desired
    if desired == current:
        return say(Kind.OTHERWISE, f"{_without(it.without)}, it would have stayed at {current}.", current=current)
    then = f"it would have gone {'up' if desired > current else 'down'} from {current} to {desired}"
    return say(Kind.OTHERWISE, f"{_without(it.without)}, {then}.", current=current, desired=desired)


def _without(word: str) -> str:
    if word not in set(Circumstance):
        return f"Without {word.removeprefix(METRIC_PREFIX).replace(':', ' ')}"
    match Circumstance(word):
        case Circumstance.GAPS:
            return "Had every value been heard whole and nothing been missing before"
        case Circumstance.ROLLOUT:
            return "Without the rollout"
        case Circumstance.FAILED_STARTS:
            return "Had no start failed"
        case Circumstance.OTHERS:
            return "Had the count been set by nobody else"
        case Circumstance.MODE_OFF:
            return "Were the policy's mode not off"
        case Circumstance.SKIPPED:
            return "Had this tick been decided"
