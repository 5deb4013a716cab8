"""One endpoint's scale target: how many replicas are wanted, changed by compare-and-set alone.

As in Kubernetes, the spec is what somebody asked for and the status what there is. A change names the version that it
was made from; where another change came in between it is refused, so no two of them can be mixed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from records.fields import Count, Label, Name, Natural

SPEC_MAX = 10_000
"""Largest number of replicas that any endpoint of the simulation can be given."""
MARK_EXPIRES_S = 60.0
"""How long a mark for draining waits for the spec to be lowered, seconds of event time."""
DRAIN_DEADLINE_S = 30.0
"""How long a replica's requests may take to end where no mark says so: Kubernetes' default grace period."""
DRAIN_DEADLINE_MAX_S = 86_400.0
MARKS_MAX = 1_000

DecisionId = Annotated[str, Meta(min_length=1, max_length=253)]


class ScaleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`spec_replicas` wanted by whoever saw `resource_version`; `decision_id` is null where no decision says so."""

    spec_replicas: Count
    resource_version: Label
    decision_id: DecisionId | None = None
    actuator: Label | None = None


class DrainRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replicas that shall be the first to leave; each has `deadline_s` seconds for the requests that it has then."""

    replicas: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MARKS_MAX)]
    deadline_s: Annotated[float, Meta(ge=0, le=DRAIN_DEADLINE_MAX_S)] = DRAIN_DEADLINE_S
    decision_id: DecisionId | None = None
    actuator: Label | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A scale target as it is told to others.

    `status_replicas` are created and not gone. `generation` counts the changes of the spec from 1 on, and
    `observed_generation` is the newest one that the fleet has acted on. `resource_version` and `uid` are opaque: they
    can be compared and nothing else. `decision_id` is that of the last decision applied, null before the first.
    """

    endpoint: Name
    spec_replicas: Count
    status_replicas: Count
    ready_replicas: Count
    uid: Label
    resource_version: Label
    generation: Natural
    observed_generation: Natural
    decision_id: DecisionId | None = None


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The target after a change, and whether there was one: a decision that was applied already does nothing."""

    target: Target
    changed: bool


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """The version that was given is not the current one; `target` has it."""

    target: Target
    error: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The request asks for what is not allowed; `error` names the value and the range."""

    error: str


@dataclass(frozen=True, kw_only=True)
class DrainMark:
    """That a replica is among the first to leave; `number` rises from call to call, `deadline_s` is a length."""

    replica: str
    deadline_s: float
    marked_s: float
    number: int


class ScaleTarget:
    """A state machine: requests in, values out. `uid` makes its versions differ from those of any other target."""

    def __init__(self, endpoint: str, spec_replicas: int, spec_max: int, uid: str) -> None:
        self.spec_max = spec_max
        self._changes = 0
        self._mark_calls = 0
        self._marks: dict[str, DrainMark] = {}
        self._target = Target(
            endpoint=endpoint,
            spec_replicas=spec_replicas,
            status_replicas=spec_replicas,
            ready_replicas=spec_replicas,
            uid=uid,
            resource_version=_version(uid, 0),
            generation=1,
            observed_generation=1,
        )

    @property
    def target(self) -> Target:
        return self._target

    def compare_and_set(self, request: ScaleRequest) -> Accepted | Conflict | Refused:
        """Apply a request, if it was made from the current version.

        A decision that is the last one applied is accepted whatever its version, and changes nothing. The same count
        again is a change of the version, when another decision asks for it, but not of the generation.
        """
        now = self._target
        if request.decision_id is not None and request.decision_id == now.decision_id:
            return Accepted(target=now, changed=False)
        if not 0 <= request.spec_replicas <= self.spec_max:
            return Refused(error=f"spec_replicas: {request.spec_replicas}, allowed: 0 to {self.spec_max}")
        if request.resource_version != now.resource_version:
            told = f"resource_version: {request.resource_version!r}, the current one is {now.resource_version!r}"
            return Conflict(target=now, error=told)
        wanted = msgspec.structs.replace(
            now,
            spec_replicas=request.spec_replicas,
            generation=now.generation + (request.spec_replicas != now.spec_replicas),
            decision_id=request.decision_id or now.decision_id,
        )
        if wanted == now:
            return Accepted(target=now, changed=False)
        self._changes += 1
        self._target = msgspec.structs.replace(wanted, resource_version=_version(now.uid, self._changes))
        return Accepted(target=self._target, changed=True)

    def mark(self, request: DrainRequest, now_s: float) -> None:
        """Mark replicas as the first to leave. The same call again only lets the marks last longer."""
        self._mark_calls += 1
        for name in request.replicas:
            self._marks[name] = DrainMark(
                replica=name, deadline_s=request.deadline_s, marked_s=now_s, number=self._mark_calls
            )

    def marks(self, now_s: float) -> Sequence[DrainMark]:
        """The marks that have not expired, the newest call first, in the order in which it named the replicas."""
        expired = [name for name, mark in self._marks.items() if now_s - mark.marked_s >= MARK_EXPIRES_S]
        for name in expired:
            del self._marks[name]
        return sorted(self._marks.values(), key=lambda mark: -mark.number)

    def unmark(self, replica: str) -> None:
        """A mark is used up when its replica leaves."""
        self._marks.pop(replica, None)

    def observe(self, *, status_replicas: int, ready_replicas: int, generation: int) -> Target:
        """What the fleet has come to, having acted on `generation`; the target after that."""
        self._target = msgspec.structs.replace(
            self._target,
            status_replicas=status_replicas,
            ready_replicas=ready_replicas,
            observed_generation=generation,
        )
        return self._target


def _version(uid: str, changes: int) -> str:
    return hashlib.sha256(f"{uid}/{changes}".encode()).hexdigest()[:16]
