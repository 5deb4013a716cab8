"""Reads an explanation's sentences again and compares every number, action, reason and bound with the records.

It shares no code with the writers: its rules take the text apart from outside. What no rule knows is a disagreement,
and so is what the records have and the text leaves out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from tests.explain.checker import holds, outcomes, reasons, rules
from tests.explain.checker.records import Records

__all__ = ["Disagreement", "Records", "check_lines", "check_object", "sentences_of"]

RULES = (*rules.RULES, *reasons.RULES, *holds.RULES, *outcomes.RULES)

SAID_ONCE = frozenset({"seen", "proposed", "otherwise"})
"""Kinds of which no two sentences are alike."""


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """A sentence, empty where one is missing, and what is wrong with it."""

    sentence: str
    problem: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.sentence}" if self.sentence else self.problem


def check_lines(lines: Iterable[str], records: Records) -> list[Disagreement]:
    """All that disagrees in the sentences of one explanation, one a line, without titles and blank lines."""
    found: list[Disagreement] = []
    kinds: Counter[str] = Counter()
    for line, times in Counter(lines).items():
        kind, problems = _judge(line, records)
        kinds[kind] += times
        if times > 1 and kind in SAID_ONCE:
            problems = [*problems, f"said {times} times"]
        found += [Disagreement(sentence=line, problem=problem) for problem in problems]
    return found + [Disagreement(sentence="", problem=problem) for problem in _missing(kinds, records)]


def check_object(told: Mapping[str, Any], zone: tzinfo | None = None) -> list[Disagreement]:
    """The same of the object that `headrace explain --json` prints, with the records that it has."""
    names = ("decision", "signal", "policy", "outcomes", "shown_s", "last", "counterfactuals", "earliest_down_s")
    records = Records(**{name: told[name] for name in names}, zone=zone)
    return check_lines([sentence["text"] for sentence in told["sentences"]], records)


def _judge(line: str, records: Records) -> tuple[str, Sequence[str]]:
    """The kind of a sentence and what is wrong with it, by the rule of its form that finds least."""
    best: tuple[str, Sequence[str]] | None = None
    for kind, pattern, judge in RULES:
        form = pattern.fullmatch(line)
        if form is not None:
            problems = list(judge(form, records))
            if best is None or len(problems) < len(best[1]):
                best = kind, problems
    return best or ("", ["a sentence of no known form"])


def _missing(kinds: Counter[str], records: Records) -> Iterator[str]:
    """What must be said and is not, or is said too often."""
    decision = records.decision
    is_hold = decision["action"] == "hold"
    wanted = {
        **_of_signal(records.signal or {}),
        "decided": 1,
        "reason": 1,
        "detail": 1,
        "victim": len(decision["victims"]),
        "seen": len(records.candidates),
        "proposed": len(records.candidates),
        "supply": 1,
        "target": 1,
        "bound": int(decision["bound"] is not None or not is_hold),
        "hold": 2 if is_hold else 0,
        "outcome": 0 if is_hold else len(records.outcomes),
        "no_outcome": int(is_hold or not records.outcomes),
        "shown": int(not is_hold and records.shown_s is not None),
        "otherwise": len(records.counterfactuals),
        "earliest": int(records.earliest_down_s is not None),
        "floor": int(records.policy is not None or any(it is not None for it in decision["floors"].values())),
        "unsaid": int(_is_unsaid(records)),
        "last": int(is_hold or _is_repeat(records)),
    }
    for kind, count in wanted.items():
        if kinds[kind] != count:
            yield f"{kind}: {kinds[kind]} sentences, the records need {count}"


def _of_signal(signal: Mapping[str, Any]) -> dict[str, int]:
    supply = signal.get("supply", {})
    return {
        "starting": int(bool(supply.get("starting_replicas"))),
        "failed_starts": int(bool(supply.get("failed_starts"))),
        "inferred": int(supply.get("source") == "inferred"),
        "source": len(signal.get("sources", ())),
        "blocker": len(signal.get("down_blockers", ())),
        "unheard": int(bool(signal.get("unheard"))),
        "rollout": int(bool(signal.get("rollout"))),
    }


def _is_unsaid(records: Records) -> bool:
    """For want of evidence it was held, and without a value nothing can be said of what else it would have done."""
    is_for_want = records.decision["reason"] in ("unknown", "insufficient_evidence", "suspect")
    is_silent = any(it["observed"] is None and it["state"] != "undefined" for it in records.candidates)
    return is_for_want and is_silent and all(it["without"] != "gaps" for it in records.counterfactuals)


def _is_repeat(records: Records) -> bool:
    if records.last is None:
        return False
    before = records.last["decisions"][-1]
    same = all(before[name] == records.decision[name] for name in ("current", "desired"))
    return bool(same and before["decision_id"] == records.decision["previous_id"])


def sentences_of(text: str) -> list[str]:
    """The sentences in what `headrace explain` prints: the indented lines, without notes in brackets."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    return [line for line in lines if not re.fullmatch(r"\(.*\)", line)]
