"""What the fleet was asked to do, held against what was decided and what the actuators say became of it."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from simulation.fleet import NOTHING_TO_CHANGE
from tests.line.audit import read_topic, until

Record = Mapping[str, Any]
Decisions = Mapping[str, Sequence[Record]]
"""By endpoint, in the order of the log."""


@dataclass(frozen=True)
class Change:
    """A call that changed a scale target: `number` is the journal's."""

    number: int
    endpoint: str
    actuator: str
    decision_id: str
    requested: int
    spec_before: int
    spec_after: int


def read_journal(file: Path) -> list[Record]:
    """The calls that were answered so far, in the order in which they took effect."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def changes_in(entries: Sequence[Record]) -> list[Change]:
    """A call that repeats the decision applied last is answered `ok` whatever version it gives, and changes nothing."""
    return [
        Change(**{name: entry[name] for name in Change.__dataclass_fields__})
        for entry in entries
        if entry["call"] == "scale" and entry["result"] == "ok" and entry["detail"] != NOTHING_TO_CHANGE
    ]


async def until_called(file: Path, holds: Callable[[list[Record]], object], timeout_s: float = 120) -> None:
    """Return when the journal is as wanted."""

    async def is_so() -> object:
        return holds(read_journal(file))

    await until(is_so, timeout_s)


def check_changes(entries: Sequence[Record], decisions: Decisions) -> dict[str, list[Change]]:
    """Assert that no decision was applied after a newer one, none twice, and each as it was decided; by endpoint."""
    place = {one["decision_id"]: (number, one) for chain in decisions.values() for number, one in enumerate(chain)}
    found: defaultdict[str, list[Change]] = defaultdict(list)
    for change in changes_in(entries):
        assert change.decision_id in place, f"{change} carries out nothing that was decided"
        decision = place[change.decision_id][1]
        assert decision["endpoint"] == change.endpoint
        assert (decision["mode"], decision["action"] == "hold") == ("act", False), decision
        assert decision["desired"] == change.requested == change.spec_after, (change, decision)
        found[change.endpoint].append(change)
    for endpoint, changes in found.items():
        for before, after in pairwise(changes):
            assert place[before.decision_id][0] < place[after.decision_id][0], f"{endpoint}: {after} after {before}"
            assert before.spec_after == after.spec_before, f"{endpoint}: somebody else changed it before {after}"
    return found


async def read_outcomes(bootstrap: str, prefix: str) -> list[Record]:
    messages = await read_topic(bootstrap, prefix + "outcomes")
    return [json.loads(message.value or b"") for message in messages]


def untold(outcomes: Sequence[Record], decisions: Decisions) -> set[str]:
    """Decisions that are no hold and have no outcome."""
    told = {outcome["decision_id"] for outcome in outcomes}
    wanted = {one["decision_id"] for chain in decisions.values() for one in chain if one["action"] != "hold"}
    return wanted - told


def check_outcomes(outcomes: Sequence[Record], decisions: Decisions, changes: Mapping[str, list[Change]]) -> None:
    """Assert that each decision that is no hold has its outcome, and that what was applied is told so."""
    assert not untold(outcomes, decisions)
    applied = {outcome["decision_id"] for outcome in outcomes if outcome["result"] == "applied"}
    carried_out = {change.decision_id for of_endpoint in changes.values() for change in of_endpoint}
    assert carried_out <= applied, "applied, and told otherwise"
    already = [
        outcome["detail"]
        for outcome in outcomes
        if outcome["result"] == "applied" and outcome["decision_id"] not in carried_out
    ]
    assert all("already" in detail for detail in already), already
