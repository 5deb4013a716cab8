"""A case in sentences: as text for a terminal, and as one JSON object."""

from datetime import tzinfo
from itertools import groupby
from typing import Any, assert_never

import msgspec

from headrace.explain.case import Case, telling_outcome
from headrace.explain.counterfactuals import Computed, Counterfactual, find_otherwise
from headrace.explain.sentences.bounds import bound_sentences
from headrace.explain.sentences.decided import carried_out_sentences, decided_sentences
from headrace.explain.sentences.formatting import ID_DIGITS, Times, span
from headrace.explain.sentences.observed import proposed_sentences, seen_sentences
from headrace.explain.sentences.otherwise import otherwise_sentences
from headrace.explain.sentences.sentence import Kind, Sentence


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`computed`: whether counterfactuals were decided again or taken from the record; times are in `zone`'s words."""

    case: Case
    sentences: tuple[Sentence, ...]
    counterfactuals: tuple[Counterfactual, ...]
    earliest_down_s: int | None
    computed: Computed


def explain(case: Case, zone: tzinfo | None = None) -> Explanation:
    """Say what was decided, what became of it, what was seen, proposed and bound, and what would have been otherwise.

    Times are said in `zone`, null: the machine's own. The same case gives the same sentences.
    """
    times = Times(day_s=case.decision.at_s, zone=zone)
    otherwise = find_otherwise(case)
    sentences = [
        *decided_sentences(case, times),
        *carried_out_sentences(case, times),
        *seen_sentences(case, times),
        *proposed_sentences(case.decision),
        *bound_sentences(case, times),
        *otherwise_sentences(case, otherwise, times),
    ]
    return Explanation(
        case=case,
        sentences=tuple(sentences),
        counterfactuals=otherwise.counterfactuals,
        earliest_down_s=otherwise.earliest_down_s,
        computed=otherwise.computed,
    )


def text_lines(explanation: Explanation, now_s: float, zone: tzinfo | None = None) -> list[str]:
    """Lines for people: a head, and the sentences below their titles. `now_s`: UNIX seconds, to say how long ago."""
    decision = explanation.case.decision
    times = Times(day_s=decision.at_s, zone=zone)
    ago_s = now_s - decision.at_s
    ago = f", {span(round(ago_s))} ago" if ago_s >= 0 else ""
    head = f"{decision.endpoint}: decision {decision.decision_id[:ID_DIGITS]} of {times.full(decision.at_s)}{ago}"
    lines = [head]
    for title, sentences in groupby(explanation.sentences, key=lambda sentence: _title(sentence.kind)):
        lines += ["", title, *(f"  {sentence.text}" for sentence in sentences)]
    if explanation.counterfactuals:
        lines.append(f"  ({_how(explanation.computed)})")
    return lines


def _how(computed: Computed) -> str:
    match computed:
        case Computed.AGAIN:
            return "computed: decided again from the recorded signal, policy and memory, with that one change"
        case Computed.RECORD:
            return "from the recorded proposals: what the tick was decided on is not all there any more"
        case _:
            assert_never(computed)


def _title(kind: Kind) -> str:
    match kind:
        case Kind.DECIDED | Kind.REASON | Kind.VICTIM | Kind.DETAIL:
            return "What was decided"
        case Kind.OUTCOME | Kind.LAST:
            return "Was it carried out"
        case Kind.SEEN | Kind.SUPPLY | Kind.TARGET | Kind.SOURCE | Kind.BLOCKER:
            return "What was seen"
        case Kind.PROPOSED:
            return "What each metric proposed"
        case Kind.BOUND | Kind.FLOOR | Kind.NOT_UP | Kind.NOT_DOWN:
            return "What bound it"
        case Kind.OTHERWISE | Kind.EARLIEST:
            return "What would have been otherwise"
        case _:
            assert_never(kind)


def as_object(explanation: Explanation, source: dict[str, Any]) -> dict[str, Any]:
    """The JSON object of `--json`. `outcome` is the one that counts, `outcomes` all of the decision's id."""
    case = explanation.case
    return {
        "decision": case.decision,
        "signal": case.signal,
        "outcome": telling_outcome(case.outcomes),
        "outcomes": case.outcomes,
        "shown_s": case.shown_s,
        "policy": case.policy,
        "last": case.last,
        "sentences": explanation.sentences,
        "counterfactuals": explanation.counterfactuals,
        "earliest_down_s": explanation.earliest_down_s,
        "source": source,
    }
