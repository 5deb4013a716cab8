"""Three cases with much to tell, and their texts: `python -m tests.explain.whole_cases` writes these anew."""

import re
from datetime import UTC
from pathlib import Path

import msgspec

from headrace.explain.case import Case, Move
from headrace.explain.explanation import explain, text_lines
from records.enums import OutcomeResult, Source, SupplySource, ValueState
from records.scaling_memory import Recommendation
from records.signals import DownBlocker, DrainCandidate, SourceSignal, StartingReplica, SupplySignal
from tests.decisions.ticks import T0, policy_of, settled, signal_of
from tests.explain.cases import case_of, outcome_of

GOLDEN = Path(__file__).parent / "golden"

PAIR = {"metrics": [{"name": "inflight_requests"}, {"name": "ttft"}], "model": {"hardware": "H100x4"}}


def up() -> Case:
    """Limited, answered twice, seen applied."""
    policy = policy_of(**PAIR)
    supply = SupplySignal(
        source=SupplySource.OBSERVED, ready=4, starting=1, starting_replicas=(StartingReplica(replica="n", age_s=75),)
    )
    case = case_of(
        policy,
        signal_of(policy, {"inflight_requests": 96.25, "ttft": 19416.7}, spec=5, supply=supply, target_at_s=T0 - 11),
        settled(),
    )
    refused = outcome_of(case, OutcomeResult.REFUSED, retryable=True, detail="version 41 is not 42")
    applied = outcome_of(case, at_s=T0 + 130, observed=10)
    return msgspec.structs.replace(case, outcomes=(refused, applied), shown_s=T0 + 131)


def down() -> Case:
    """With victims, a deadline and a window that still counts."""
    policy = policy_of()
    order = (DrainCandidate(replica="chat-3", inflight=0.5), DrainCandidate(replica="chat-1", inflight=1.25))
    signal = signal_of(policy, {"inflight_requests": 8.0}, spec=10, drain_order=order, drain_p99_ms=45_500.0)
    return case_of(policy, signal, settled(recommendations=(Recommendation(at_s=T0 - 100, replicas=8),)))


def held() -> Case:
    """In spite of little load, with sources that are not well, after a move."""
    policy = policy_of(**PAIR)
    sources = (
        SourceSignal(replica="r", source=Source.ENGINE, reporter=None, offset_s=7.5, state=ValueState.STALE, late=3),
    )
    signal = signal_of(
        policy,
        {"inflight_requests": 8.0, "ttft": "undefined"},
        spec=10,
        sources=sources,
        down_blockers=(DownBlocker(kind="restart", replica="r", until_s=T0 + 60),),
    )
    before = down()
    last = Move(decisions=(before.decision,), outcomes=(outcome_of(before),), shown_s=T0 + 7)
    memory = settled(recommendations=(Recommendation(at_s=T0 - 100, replicas=12),))
    return case_of(policy, signal, memory, last=last)


STORIES = {"up": up, "down": down, "held": held}


def unnamed(text: str) -> str:
    """The text without decisions' ids, which change with every new field of a policy."""
    return re.sub(r"\b[0-9a-f]{12}\b", "(id)", text)


def printed(case: Case) -> str:
    """What the command prints a minute after the decision, in UTC."""
    return unnamed("\n".join(text_lines(explain(case, UTC), T0 + 60, UTC))) + "\n"


if __name__ == "__main__":
    for name, make in STORIES.items():
        (GOLDEN / f"{name}.txt").write_text(printed(make()))
