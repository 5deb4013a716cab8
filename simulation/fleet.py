"""All endpoints of a simulated fleet, and the calls that others make to them, each one in the journal."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from simulation.faults import FaultRequest
from simulation.journal import Call, CallResult, Journal, JournalEntry, listed
from simulation.scale_target import Accepted, Conflict, DrainRequest, Refused, ScaleRequest, ScaleTarget, Target

NOTHING_TO_CHANGE = "nothing to change"
"""What the journal says of a scale call that was accepted and left the target as it was."""


class ScalableEndpoint(Protocol):
    """What calls need of an endpoint."""

    @property
    def target(self) -> ScaleTarget: ...

    @property
    def replica_names(self) -> Iterable[str]:
        """Those that are created and not gone."""
        ...

    def inject(self, fault: FaultRequest) -> Refused | None:
        """Let a fault happen in the next second; Refused where it cannot, with the value and what is allowed."""
        ...


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who calls, as far as it says: an actuator, and the decision that it carries out."""

    actuator: str | None = None
    decision_id: str | None = None

    def or_else(self, other: "Caller") -> "Caller":
        """This one, with what it does not say taken from another."""
        return Caller(
            actuator=self.actuator if self.actuator is not None else other.actuator,
            decision_id=self.decision_id if self.decision_id is not None else other.decision_id,
        )


@dataclass(frozen=True, kw_only=True)
class NotFound:
    """There is no such endpoint; `error` says which there are."""

    error: str


@dataclass(frozen=True, kw_only=True)
class Marked:
    """Replicas that are marked for draining, and those of the call that are not there (any more)."""

    target: Target
    marked: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Injected:
    """A fault is on its way."""

    target: Target


@dataclass(frozen=True, kw_only=True)
class CallContext:
    """What is known of a call before it is judged. `now_s` is the clock's time, UNIX seconds."""

    call: Call
    endpoint: str | None
    caller: Caller
    now_s: float
    requested: Any = None
    resource_version: str | None = None


class Fleet:
    """Endpoints by name. Calls take effect at once and one after the other; the journal has them in that order."""

    def __init__(self, endpoints: Mapping[str, ScalableEndpoint], journal: Journal) -> None:
        self._endpoints = endpoints
        self.journal = journal

    def targets(self, caller: Caller, now_s: float) -> list[Target]:
        """All targets, by name of their endpoints."""
        self._note(CallContext(call=Call.GET, endpoint=None, caller=caller, now_s=now_s), CallResult.OK)
        return [self._endpoints[name].target.target for name in sorted(self._endpoints)]

    def get(self, endpoint: str, caller: Caller, now_s: float) -> Target | NotFound:
        context = CallContext(call=Call.GET, endpoint=endpoint, caller=caller, now_s=now_s)
        found = self._endpoints.get(endpoint)
        if found is None:
            return self._not_found(context)
        self._note(context, CallResult.OK, before=found.target.target)
        return found.target.target

    def scale(
        self, endpoint: str, request: ScaleRequest, caller: Caller, now_s: float
    ) -> Accepted | Conflict | Refused | NotFound:
        """Compare and set. See ScaleTarget."""
        context = CallContext(
            call=Call.SCALE,
            endpoint=endpoint,
            caller=Caller(actuator=request.actuator, decision_id=request.decision_id).or_else(caller),
            now_s=now_s,
            requested=request.spec_replicas,
            resource_version=request.resource_version,
        )
        found = self._endpoints.get(endpoint)
        if found is None:
            return self._not_found(context)
        before = found.target.target
        answer = found.target.compare_and_set(msgspec.structs.replace(request, decision_id=context.caller.decision_id))
        match answer:
            case Accepted():
                result, detail = CallResult.OK, "" if answer.changed else NOTHING_TO_CHANGE
            case Conflict():
                result, detail = CallResult.CONFLICT, answer.error
            case Refused():
                result, detail = CallResult.REFUSED, answer.error
        self._note(context, result, before=before, detail=detail)
        return answer

    def drain(self, endpoint: str, request: DrainRequest, caller: Caller, now_s: float) -> Marked | NotFound:
        """Mark replicas as the first to leave; they do when the spec is lowered within MARK_EXPIRES_S."""
        context = CallContext(
            call=Call.DRAIN,
            endpoint=endpoint,
            caller=Caller(actuator=request.actuator, decision_id=request.decision_id).or_else(caller),
            now_s=now_s,
            requested={"replicas": request.replicas, "deadline_s": request.deadline_s},
        )
        found = self._endpoints.get(endpoint)
        if found is None:
            return self._not_found(context)
        there = set(found.replica_names)
        marked = tuple(name for name in dict.fromkeys(request.replicas) if name in there)
        unknown = tuple(name for name in dict.fromkeys(request.replicas) if name not in there)
        if marked:
            found.target.mark(msgspec.structs.replace(request, replicas=marked), now_s)
        detail = f"not there: {listed(unknown)}" if unknown else ""
        self._note(context, CallResult.OK, before=found.target.target, detail=detail)
        return Marked(target=found.target.target, marked=marked, unknown=unknown)

    def fault(
        self, endpoint: str, request: FaultRequest, caller: Caller, now_s: float
    ) -> Injected | Refused | NotFound:
        """Let something go wrong from the next second on."""
        context = CallContext(
            call=Call.FAULT,
            endpoint=endpoint,
            caller=Caller(actuator=request.actuator, decision_id=request.decision_id).or_else(caller),
            now_s=now_s,
            requested=msgspec.to_builtins(request),
        )
        found = self._endpoints.get(endpoint)
        if found is None:
            return self._not_found(context)
        refused = found.inject(request)
        result = CallResult.OK if refused is None else CallResult.REFUSED
        self._note(context, result, before=found.target.target, detail=refused.error if refused else "")
        return Injected(target=found.target.target) if refused is None else refused

    def unreadable(self, context: CallContext, error: str) -> Refused | NotFound:
        """A call whose body says nothing that can be carried out; it is noted all the same."""
        found = self._endpoints.get(context.endpoint or "")
        if found is None:
            return self._not_found(context)
        self._note(context, CallResult.REFUSED, before=found.target.target, detail=error)
        return Refused(error=error)

    def _not_found(self, context: CallContext) -> NotFound:
        error = f"endpoint: {context.endpoint!r}, allowed: {listed(sorted(self._endpoints)) or 'none is there'}"
        self._note(context, CallResult.NOT_FOUND, detail=error)
        return NotFound(error=error)

    def _note(
        self, context: CallContext, result: CallResult, before: Target | None = None, detail: str = ""
    ) -> JournalEntry:
        after = None
        if before is not None:
            after = self._endpoints[before.endpoint].target.target
        gave = context.resource_version
        return self.journal.add(
            JournalEntry(
                number=0,
                at_s=context.now_s,
                call=context.call,
                endpoint=context.endpoint,
                actuator=context.caller.actuator,
                decision_id=context.caller.decision_id,
                resource_version=gave if gave is not None or before is None else before.resource_version,
                version_after=after.resource_version if after else None,
                requested=context.requested,
                result=result,
                spec_before=before.spec_replicas if before else None,
                spec_after=after.spec_replicas if after else None,
                detail=detail,
            )
        )
