"""What was seen at a tick, and what each metric made of it."""

from collections.abc import Sequence

from headrace.explain.case import Case
from headrace.explain.sentences.formatting import Times, amount, count, measured, number, printable, span, target_words
from headrace.explain.sentences.sentence import Kind, Sentence, say
from records.decisions import Candidate, ScalingDecision
from records.enums import SupplySource
from records.signals import DownBlocker, EndpointSignal, SourceSignal

NAMES_SHOWN = 5


def seen_sentences(case: Case, times: Times) -> list[Sentence]:
    """Values, replicas, the target, then what was not well."""
    decision, signal = case.decision, case.signal
    sentences = [_value(candidate) for candidate in decision.candidates]
    sentences.append(_supply(decision))
    if signal is None:
        return [*sentences, say(Kind.TARGET, "The signal of this tick was not found; the decision alone tells of it.")]
    sentences += _starting(signal)
    sentences.append(_target(signal, times))
    if signal.rollout:
        sentences.append(say(Kind.TARGET, "A rollout was in progress."))
    sentences += [_source(source) for source in signal.sources]
    if signal.unheard:
        text = f"Unheard for too long, counted as if at their target: {_names(signal.unheard)}."
        sentences.append(say(Kind.SOURCE, text))
    return sentences + [_blocker(blocker, times) for blocker in signal.down_blockers]


def proposed_sentences(decision: ScalingDecision) -> list[Sentence]:
    """Each candidate against its target, and why it did not decide."""
    return [_proposal(candidate) for candidate in decision.candidates]


def _value(candidate: Candidate) -> Sentence:
    heard = number(candidate.coverage * 100)
    value = "no value" if candidate.observed is None else amount(candidate.metric, candidate.observed)
    text = f"{measured(candidate)}: {value}, {candidate.state.value}, {heard} % heard."
    numbers = {"window_s": candidate.window_s, "coverage": candidate.coverage}
    return say(Kind.SEEN, text, **numbers, observed=candidate.observed)


def _proposal(candidate: Candidate) -> Sentence:
    target = candidate.target
    goal = "without a target" if target is None else f"at a target of {target_words(candidate.metric, target)}"
    proposed = candidate.proposed
    asks = "proposes nothing" if proposed is None else f"asks for {count(proposed, 'replica')}"
    why = "it decided" if candidate.rejected_because is None else f"it did not decide: {candidate.rejected_because}"
    text = f"{measured(candidate)} {asks} {goal}; {why}."
    return say(Kind.PROPOSED, text, window_s=candidate.window_s, target=target, proposed=proposed)


def _supply(decision: ScalingDecision) -> Sentence:
    supply = decision.supply
    text = (
        f"Replicas: {supply.ready} ready, {supply.starting} starting, {supply.draining} draining, "
        f"{supply.unschedulable} not schedulable, {supply.failed} failed."
    )
    numbers = {name: getattr(supply, name) for name in supply.__struct_fields__}
    return say(Kind.SUPPLY, text, **numbers)


def _starting(signal: EndpointSignal) -> list[Sentence]:
    """The ages of the starting replicas against the time that a start takes, and where the counts come from."""
    supply, sentences = signal.supply, []
    ages = [replica.age_s for replica in supply.starting_replicas]
    if ages:
        since = span(min(ages)) if min(ages) == max(ages) else f"{span(min(ages))} to {span(max(ages))}"
        text = f"Starting for {since}; a start is expected within {number(supply.startup_p95_s)} s."
        numbers = {"age_min_s": min(ages), "age_max_s": max(ages), "startup_p95_s": supply.startup_p95_s}
        sentences.append(say(Kind.SUPPLY, text, **numbers))
    if supply.failed_starts:
        text = f"Starts that failed since the last that became ready: {supply.failed_starts}."
        sentences.append(say(Kind.SUPPLY, text, failed_starts=supply.failed_starts))
    if supply.source is SupplySource.INFERRED:
        sentences.append(say(Kind.SUPPLY, "The replicas are inferred from their samples: nobody reports their states."))
    return sentences


def _target(signal: EndpointSignal, times: Times) -> Sentence:
    spec, told_s = signal.spec_replicas, signal.target_at_s
    if spec is None:
        return say(Kind.TARGET, "The target was not observed at this tick.")
    when = "" if told_s is None else f", as observed at {times.short(told_s)}"
    return say(Kind.TARGET, f"The target had {count(spec, 'replica')}{when}.", spec_replicas=spec, target_at_s=told_s)


def _source(source: SourceSignal) -> Sentence:
    replica = f" for {printable(source.replica)}" if source.replica else ""
    who = f"{source.source.value}{replica}"
    if source.reporter is not None:
        who += f", reported by {printable(source.reporter)}"
    offset = "" if source.offset_s is None else f", its clock {number(source.offset_s)} s off"
    late = "" if not source.late else f", {count(source.late, 'sample')} too late"
    text = f"Not well: {who}: {source.state.value}{offset}{late}."
    return say(Kind.SOURCE, text, offset_s=source.offset_s, late=source.late or None)


def _blocker(blocker: DownBlocker, times: Times) -> Sentence:
    who = "" if blocker.replica is None else f" of {printable(blocker.replica)}"
    until = "" if blocker.until_s is None else f" until {times.short(blocker.until_s)}"
    return say(Kind.BLOCKER, f"Going down was forbidden by {blocker.kind}{who}{until}.", until_s=blocker.until_s)


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
