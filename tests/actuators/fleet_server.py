"""The fleet's real scale API with endpoints that serve no traffic."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headrace.fleet.server import ApiPlace, served
from simulation.faults import FaultRequest
from simulation.fleet import NOTHING_TO_CHANGE, Fleet
from simulation.journal import CallResult, Journal, JournalEntry
from simulation.scale_api import make_app
from simulation.scale_target import Refused, ScaleRequest, ScaleTarget

SPEC_MAX = 100


class Idle:
    """An endpoint whose replicas do nothing."""

    def __init__(self, endpoint: str, replicas: int, uid: str = "uid") -> None:
        self.target = ScaleTarget(endpoint, replicas, SPEC_MAX, uid)

    @property
    def replica_names(self) -> Iterable[str]:
        return [f"{self.target.target.endpoint}-{number}" for number in range(self.target.target.spec_replicas)]

    def inject(self, fault: FaultRequest) -> Refused | None:
        return Refused(error=f"kind: {fault.kind}, allowed: none, these replicas do nothing")


@dataclass(frozen=True, kw_only=True)
class ServedFleet:
    url: str
    fleet: Fleet
    endpoints: Mapping[str, Idle]

    def spec(self, endpoint: str) -> int:
        return self.endpoints[endpoint].target.target.spec_replicas

    def meddle(self, endpoint: str, spec: int) -> None:
        """Somebody else changes the count, past the API."""
        target = self.endpoints[endpoint].target
        version = target.target.resource_version
        target.compare_and_set(ScaleRequest(spec_replicas=spec, resource_version=version))

    def entries(self, call: str, endpoint: str | None = None) -> list[JournalEntry]:
        every = self.fleet.journal.after(0)
        return [it for it in every if it.call.value == call and endpoint in (None, it.endpoint)]

    def changes(self, endpoint: str) -> list[tuple[str | None, int | None]]:
        """Decision and count of each scale call that changed the target, in their order.

        A call that repeats the decision applied last is answered `ok` whatever version it gives, and changes nothing.
        """
        return [
            (it.decision_id, it.spec_after)
            for it in self.entries("scale", endpoint)
            if it.result is CallResult.OK and it.detail != NOTHING_TO_CHANGE
        ]


@asynccontextmanager
async def fleet_served(
    replicas: Mapping[str, int],
    now_s: Callable[[], float],
    written: Callable[[JournalEntry], None] | None = None,
) -> AsyncIterator[ServedFleet]:
    endpoints = {name: Idle(name, count) for name, count in replicas.items()}
    fleet = Fleet(endpoints, Journal(written=written))
    app = make_app(fleet, lambda after: {}, now_s)
    async with served(app, ApiPlace(host="127.0.0.1", port=0, file=None)) as url:
        yield ServedFleet(url=url, fleet=fleet, endpoints=endpoints)
