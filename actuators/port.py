"""The port to whatever keeps the replicas: get, compare-and-set, drain.

Whatever the world answers, and that it does not answer, comes back as a value; an implementation raises for nothing
but its own bugs, and ends each call within a time of its own. `tests/actuators/contract.py` holds every
implementation to that.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class TargetRef:
    """Which scale target."""

    endpoint: str


@dataclass(frozen=True, kw_only=True)
class CallContext:
    """Who calls, and for which decision: the target's side keeps both in its own log where it can."""

    actuator: str
    decision_id: str


@dataclass(frozen=True, kw_only=True)
class ObservedTarget:
    """The target as it was read.

    `resource_version` is opaque and differs after every change of the spec. `decision_id` is that of the decision
    which a compare-and-set carried out last, also after somebody else changed the spec; None before the first, and
    where the target cannot remember it.
    """

    endpoint: str
    spec_replicas: int
    resource_version: str
    decision_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Change:
    """The spec wanted by whoever saw `resource_version`. The same count again is a change too: it makes a version."""

    spec_replicas: int
    resource_version: str


@dataclass(frozen=True, kw_only=True)
class Drain:
    """Replicas that shall be the first to leave when the spec is lowered; `deadline_s` is for their requests."""

    replicas: tuple[str, ...]
    deadline_s: float


@dataclass(frozen=True, kw_only=True)
class Applied:
    """The compare-and-set was carried out, now or by an earlier call for the same decision; the target after it."""

    target: ObservedTarget


@dataclass(frozen=True, kw_only=True)
class Marked:
    """The replicas are marked, or this kind of target has no marks."""


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """The target has another version by now; nothing was done."""

    detail: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The target's side said no, or could not be reached at all; nothing was done."""

    retryable: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class Unanswered:
    """The call was sent and no readable answer came in time: it may have been carried out, or be carried out later."""

    detail: str


class ScaleTargetPort(Protocol):
    """One kind of scale target."""

    async def get(self, target: TargetRef, context: CallContext) -> ObservedTarget | Refused | Unanswered:
        """Read the target as it is now, never from a cache."""
        ...

    async def compare_and_set(
        self, target: TargetRef, change: Change, context: CallContext
    ) -> Applied | Conflict | Refused | Unanswered:
        """Change the spec if `change.resource_version` is still the target's; names the decision on the target."""
        ...

    async def drain(self, target: TargetRef, drain: Drain, context: CallContext) -> Marked | Refused | Unanswered:
        """Mark replicas; the same call again changes nothing."""
        ...
