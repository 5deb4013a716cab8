"""Instants that a decision's `detail` names and no other field of the record has."""

import re

import msgspec

from records.decisions import ScalingDecision

_NEEDED = re.compile(r"but (?P<replicas>\d+) were needed at (?P<at_s>\d+), within (?P<window_s>\d+) s")
_CYCLE = re.compile(r"the next cycle is at (?P<at_s>\d+)")
_RESPECTED = re.compile(r"someone else set it, respected until (?P<at_s>\d+)")
_CHANGED = re.compile(r"someone else changed the target from (?P<before>\d+) to (?P<after>\d+)")


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """A tick inside the down window that recommended more."""

    replicas: int
    at_s: int
    window_s: int


class DetailFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`next_cycle_s`: the next tick at which a step may be made; `respected_until_s`: until when a count that someone
    else set stays; `changed_from`: the spec before someone else changed it. UNIX seconds; null where not told."""

    needed: Needed | None = None
    next_cycle_s: int | None = None
    respected_until_s: int | None = None
    changed_from: int | None = None


def facts_in_detail(decision: ScalingDecision) -> DetailFacts:
    needed = _NEEDED.search(decision.detail)
    return DetailFacts(
        needed=None if needed is None else Needed(**{name: int(text) for name, text in needed.groupdict().items()}),
        next_cycle_s=_number(_CYCLE, "at_s", decision),
        respected_until_s=_number(_RESPECTED, "at_s", decision),
        changed_from=_number(_CHANGED, "before", decision),
    )


def _number(pattern: re.Pattern[str], group: str, decision: ScalingDecision) -> int | None:
    found = pattern.search(decision.detail)
    return None if found is None else int(found[group])
