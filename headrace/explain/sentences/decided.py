"""What was decided, whether it was carried out, and what was decided before."""

from typing import assert_never

from headrace.explain.case import Case, Move, is_repeat, telling_outcome
from headrace.explain.sentences.formatting import ID_DIGITS, Times, count, number, printable, span
from headrace.explain.sentences.reasons import reason_sentence
from headrace.explain.sentences.sentence import Kind, Numbers, Said, Sentence, say
from records.decisions import ScalingDecision, Victim
from records.enums import Mode, OutcomeResult, ScalingAction
from records.outcomes import Outcome


def decided_sentences(case: Case, times: Times) -> list[Sentence]:
    """The action with its numbers, the reason, who leaves, and the record's own words."""
    decision = case.decision
    sentences = [_decided(decision, times), reason_sentence(case, times)]
    sentences += [_victim(victim, decision) for victim in decision.victims]
    sentences.append(say(Kind.DETAIL, f"The record says: {printable(decision.detail)}"))
    return sentences


def action_words(action: ScalingAction, current: int, desired: int) -> str:
    """`scale up from 1 to 3 replicas`, `hold at 4 replicas`."""
    match action:
        case ScalingAction.SCALE_UP:
            return f"scale up from {current} to {count(desired, 'replica')}"
        case ScalingAction.SCALE_DOWN:
            return f"scale down from {current} to {count(desired, 'replica')}"
        case ScalingAction.HOLD:
            return f"hold at {count(current, 'replica')}"
        case _:
            assert_never(action)


def _decided(decision: ScalingDecision, times: Times) -> Sentence:
    what = action_words(decision.action, decision.current, decision.desired).capitalize()
    gpus = "" if decision.gpus is None else f" ({count(decision.gpus, 'GPU')})"
    text = f"{what}{gpus}, at {times.full(decision.at_s)}; {_mode(decision.mode)}."
    desired = None if decision.action is ScalingAction.HOLD else decision.desired
    numbers = {"current": decision.current, "at_s": decision.at_s}
    return say(Kind.DECIDED, text, **numbers, desired=desired, gpus=decision.gpus)


def _mode(mode: Mode) -> str:
    match mode:
        case Mode.ACT:
            return "mode act"
        case Mode.ADVISE:
            return "mode advise, which nobody carries out"
        case Mode.OFF:
            return "mode off"
        case _:
            assert_never(mode)


def _victim(victim: Victim, decision: ScalingDecision) -> Sentence:
    load = "" if victim.inflight is None else f", {number(victim.inflight)} requests in flight"
    deadline_s = decision.drain_deadline_s
    time = "" if deadline_s is None else f", with {number(deadline_s)} s to finish"
    text = f"{printable(victim.replica)} is to leave: {victim.reason}{load}{time}."
    return say(Kind.VICTIM, text, inflight=victim.inflight, drain_deadline_s=deadline_s)


def carried_out_sentences(case: Case, times: Times) -> list[Sentence]:
    """Every outcome of this decision, or that there is none; then the last one that changed something."""
    decision = case.decision
    if decision.action is ScalingAction.HOLD:
        sentences = [say(Kind.OUTCOME, "Nothing is to be carried out.")]
    else:
        sentences = [_outcome(outcome, decision, times) for outcome in case.outcomes]
        if not case.outcomes:
            sentences.append(say(Kind.OUTCOME, _unanswered(decision.mode)))
        if case.shown_s is not None:
            sentences.append(_shown(case.shown_s, decision, times))
    if decision.action is ScalingAction.HOLD or is_repeat(case):
        sentences.append(_last(case, times))
    return sentences


def _unanswered(mode: Mode) -> str:
    if mode is Mode.ADVISE:
        return "No actuator carries it out: it is advice."
    return "Not carried out yet: no actuator has answered."


def _shown(shown_s: int, decision: ScalingDecision, times: Times) -> Sentence:
    after_s = shown_s - decision.at_s
    text = f"The target was seen with {decision.desired} at {times.short(shown_s)}, {span(after_s)} after the tick."
    return say(Kind.OUTCOME, text, desired=decision.desired, shown_s=shown_s, after_s=after_s)


def _outcome(outcome: Outcome, decision: ScalingDecision, times: Times) -> Sentence:
    after_s = outcome.at_s - decision.at_s
    when = f"at {times.short(outcome.at_s)}, {span(after_s)} after the tick"
    observed = "" if outcome.observed is None else f"; the target then had {outcome.observed}"
    detail = f"; it says: {printable(outcome.detail)}" if outcome.detail else ""
    text = f"{_result(outcome)} {when}{observed}{detail}."
    return say(Kind.OUTCOME, text, outcome_at_s=outcome.at_s, after_s=after_s, observed=outcome.observed)


def _result(outcome: Outcome) -> str:
    actuator = printable(outcome.actuator)
    match outcome.result:
        case OutcomeResult.APPLIED:
            return f"Applied by {actuator}"
        case OutcomeResult.REFUSED:
            again = "it may be tried again" if outcome.retryable else "for good"
            return f"Refused ({again}), as {actuator} reports"
        case OutcomeResult.UNKNOWN:
            return f"Unknown whether it was carried out, as {actuator} reports"
        case OutcomeResult.SUPERSEDED:
            return f"Superseded by a newer decision, as {actuator} reports"
        case OutcomeResult.DRY_RUN:
            return f"Tried without changing anything by {actuator}"
        case _:
            assert_never(outcome.result)


def _last(case: Case, times: Times) -> Sentence:
    move, decision = case.last, case.decision
    if move is None:
        return say(Kind.LAST, "No earlier decision is known that was no hold.")
    last = move.newest
    ago_s = decision.at_s - last.at_s
    what = action_words(last.action, last.current, last.desired)
    head = "It repeats the one before" if is_repeat(case) else "The last decision that was no hold"
    when = f"at {times.short(last.at_s)}, {span(ago_s)} earlier"
    fate, numbers = _fate(move, times)
    text = f"{head}: {what}, {when} ({last.decision_id[:ID_DIGITS]}); {fate}."
    told: Numbers = {"current": last.current, "desired": last.desired, "at_s": last.at_s, "ago_s": ago_s}
    return Sentence(kind=Kind.LAST, text=text, numbers=told | numbers)


def _fate(move: Move, times: Times) -> Said:
    """What came of it, by an actuator's word or by what the target showed."""
    outcome = telling_outcome(move.outcomes)
    shown: Numbers = {} if move.shown_s is None else {"shown_s": move.shown_s}
    seen = (
        "" if move.shown_s is None else f"the target was seen with {move.newest.desired} at {times.short(move.shown_s)}"
    )
    if outcome is None:
        return seen or "it was not seen carried out", shown
    what = f"{printable(outcome.actuator)} reports {outcome.result.value} at {times.short(outcome.at_s)}"
    return "; ".join(part for part in (what, seen) if part), shown | {"outcome_at_s": outcome.at_s}
