"""What the decisions of a run were made from, and whether the run shows anything: its verdict."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from records.enums import ValueState
from records.fields import TICK_S
from records.policy import EndpointPolicy
from sinks.catalog import query
from sinks.root import TableRoot

FRESH_SHARE_MIN = 0.8
"""Share of an endpoint's ticks from which on a run shows how Headrace scales. Runs on a machine with nothing else to do
have 0.9 and more (the first seconds, and replicas that have just started, are partly seen); busy ones half or less."""

_GOOD = (ValueState.FRESH, ValueState.UNDEFINED)
_DECISIONS = "SELECT endpoint, candidates, skipped FROM decisions_scaling"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Ticks of one endpoint by the best value that its window to go up had.

    `fresh` ones had a whole one (a known zero load is one), `partial` ones a part of the replicas' seconds, `blind`
    ones none, or were skipped.
    """

    endpoint: str
    fresh: int = 0
    partial: int = 0
    blind: int = 0

    @property
    def ticks(self) -> int:
        return self.fresh + self.partial + self.blind

    @property
    def fresh_share(self) -> float:
        """0..1; 0 where nothing was decided."""
        return self.fresh / self.ticks if self.ticks else 0.0


def read_evidence(root: TableRoot, policies: Iterable[EndpointPolicy]) -> list[Evidence]:
    """One for each policy, in their order; blocking. Raises StorageError."""
    rows = query(root, _DECISIONS).to_pylist()
    return [_evidence(policy, [row for row in rows if row["endpoint"] == policy.endpoint]) for policy in policies]


def _evidence(policy: EndpointPolicy, rows: Sequence[Mapping[str, Any]]) -> Evidence:
    fresh = partial = blind = 0
    for row in rows:
        skipped = row["skipped"]
        if skipped is not None:
            blind += (skipped["last_tick"] - skipped["first_tick"]) // TICK_S + 1
            continue
        states = {one["state"] for one in row["candidates"] if one["window_s"] == policy.scale_up.window_seconds}
        if not states.isdisjoint(_GOOD):
            fresh += 1
        elif ValueState.PARTIAL in states:
            partial += 1
        else:
            blind += 1
    return Evidence(endpoint=policy.endpoint, fresh=fresh, partial=partial, blind=blind)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a run shows how Headrace scales, by its worst endpoint. `speed` is that of its clock."""

    evidence: Sequence[Evidence]
    is_exact: bool
    speed: float

    @property
    def worst(self) -> Evidence:
        return min(self.evidence, key=lambda one: one.fresh_share)

    @property
    def is_fresh(self) -> bool:
        """Enough decisions of every endpoint were made from fresh signals."""
        return self.worst.fresh_share >= FRESH_SHARE_MIN

    @property
    def is_good(self) -> bool:
        return self.is_exact and self.is_fresh

    @property
    def words(self) -> str:
        """One line."""
        if self.is_exact and not self.is_fresh:
            return too_busy(self.speed, self.freshness)
        told = [] if self.is_exact else ["NOT every row is where it belongs: a bug worth reporting, with the folder"]
        return f"Verdict: {'; '.join([*told, self.freshness])}."

    @property
    def freshness(self) -> str:
        """What the decisions were made from, without a full stop."""
        worst = self.worst
        of_all = f"{int(100 * worst.fresh_share)} % of the {worst.ticks} ticks of {worst.endpoint}"
        if self.is_fresh:
            return f"decisions were made from fresh signals (at {of_all}, where it was least)"
        return (
            f"at {of_all} decisions were made from fresh signals, at {worst.partial} from a part of them, at "
            f"{worst.blind} from none"
        )


def too_busy(speed: float, why: str) -> str:
    """The verdict on a run that says more of its machine than of Headrace, in one line."""
    return (
        "Verdict: decisions were NOT made from fresh signals, so this run does not show how Headrace scales: "
        f"{why}. The machine was too busy for this speed; {remedy(speed)}."
    )


def remedy(speed: float) -> str:
    """What to do on a machine that is too busy for this speed."""
    if speed <= 1:
        return "end what else runs on it"
    return f"end what else runs on it, or try make demo SPEED={max(1.0, speed / 2):g}"
