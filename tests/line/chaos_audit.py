"""Holds what disturbed workers told against what an undisturbed controller tells of the same log, tick by tick."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from streams.endpoints.effects import TickEffects
from tests.line.audit import TICK_S, check_ticks, read_decisions, read_topic

LACK_OF_EVIDENCE = frozenset({"unknown", "insufficient_evidence", "suspect", "skipped"})
"""Reasons of holds that a disturbance may cost, and that say so."""
NEWS = "target_changed"
"""The reason of a hold that may follow a `skipped`: what became known during it is told with the next decision."""
MEMORY_S = 300
"""So long after a tick that was held, the same is decided for another reason: fewer ticks are remembered."""
_CHAINED = ("decision_id", "previous_id")
_OUTCOME = ("action", "current", "desired")

Record = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Told:
    """By endpoint, in the order of the log: decisions as plain JSON objects, and the ticks of signals, each with what
    it says of the windows, as text."""

    decisions: Mapping[str, Sequence[Record]]
    windows: Mapping[str, Sequence[tuple[int, str]]]


async def read_told(bootstrap: str, prefix: str) -> Told:
    windows: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for message in await read_topic(bootstrap, prefix + "signals"):
        assert message.value is not None
        signal = json.loads(message.value)
        windows[signal["endpoint"]].append((signal["at_s"], _text(signal["windows"])))
    return Told(decisions=await read_decisions(bootstrap, prefix), windows=dict(windows))


def told_by(effects: Iterable[TickEffects]) -> Told:
    """The same of ticks that nobody wrote."""
    decisions: defaultdict[str, list[Record]] = defaultdict(list)
    windows: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for one in effects:
        decisions[one.endpoint] += [json.loads(msgspec.json.encode(decision)) for decision in one.decisions]
        windows[one.endpoint].append((one.at_s, _text(json.loads(msgspec.json.encode(one.signal.windows)))))
    return Told(decisions=dict(decisions), windows=dict(windows))


def compare(told: Told, undisturbed: Told, last_tick_s: int) -> dict[str, list[int]]:
    """Assert that every tick up to the last is there once and is the undisturbed one's, or a hold that says that it
    lacks evidence. Gives such ticks, in s, of each endpoint that has any.

    That a sample was lost shows in the windows of the ticks after it.
    """
    assert told.decisions.keys() == undisturbed.decisions.keys()
    spans = check_ticks(told.decisions)
    held = {}
    for endpoint, expected in undisturbed.decisions.items():
        first_tick_s, newest_s = spans[endpoint]
        assert first_tick_s == expected[0]["at_s"], f"{endpoint} begins at {first_tick_s}"
        assert newest_s >= last_tick_s, f"{endpoint} ends at {newest_s}, before {last_tick_s}"
        differing = _other_windows(endpoint, told, undisturbed, last_tick_s)
        if ticks := _lacking(endpoint, told.decisions[endpoint], expected, differing, last_tick_s):
            held[endpoint] = ticks
    return held


def _other_windows(endpoint: str, told: Told, undisturbed: Told, last_tick_s: int) -> set[int]:
    """Ticks whose windows are not the undisturbed one's; each tick must have one signal."""
    found = [entry for entry in told.windows[endpoint] if entry[0] <= last_tick_s]
    expected = [entry for entry in undisturbed.windows[endpoint] if entry[0] <= last_tick_s]
    ticks = [at_s for at_s, _ in found]
    assert ticks == [at_s for at_s, _ in expected], f"{endpoint}: signals missing, or not once and in order"
    return {at_s for (at_s, windows), (_, other) in zip(found, expected, strict=True) if windows != other}


def _lacking(
    endpoint: str, chain: Sequence[Record], expected: Sequence[Record], differing: set[int], last_tick_s: int
) -> list[int]:
    """Ticks that were held, or explained in another way, for lack of evidence."""
    wanted = {decision["at_s"]: decision for decision in expected}
    lacking: list[int] = []
    newest_s, follows_skip = -MEMORY_S, False
    for decision in chain:
        at_s = decision["at_s"]
        if at_s > last_tick_s:
            break
        allowed = LACK_OF_EVIDENCE | {NEWS} if follows_skip else LACK_OF_EVIDENCE
        skipped = decision["skipped"]
        follows_skip = skipped is not None
        if skipped is not None:
            lacking += range(skipped["first_tick"], skipped["last_tick"] + 1, TICK_S)
            newest_s = at_s
        elif at_s in differing or _unchained(decision) != _unchained(wanted[at_s]):
            is_held = decision["action"] == "hold" and decision["reason"] in allowed
            is_same = at_s not in differing and all(decision[name] == wanted[at_s][name] for name in _OUTCOME)
            assert is_held or (is_same and at_s - newest_s <= MEMORY_S), _difference(endpoint, decision, wanted[at_s])
            lacking.append(at_s)
            newest_s = at_s if is_held else newest_s
    return lacking


def _unchained(decision: Record) -> Record:
    """Ids follow from all decisions before, so one that differs changes those of all after it."""
    return {name: value for name, value in decision.items() if name not in _CHAINED}


def _difference(endpoint: str, decision: Record, wanted: Record) -> str:
    keys = [key for key in wanted if key not in _CHAINED and decision[key] != wanted[key]]
    fields = "; ".join(f"{key} {decision[key]!r} and not {wanted[key]!r}" for key in keys)
    return f"{endpoint} at {decision['at_s']}: {fields or 'other windows, and the same decision'}"


def _text(windows: object) -> str:
    return json.dumps(windows, sort_keys=True)
