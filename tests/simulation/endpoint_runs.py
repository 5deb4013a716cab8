"""An endpoint that is run second by second, with what it told."""

from collections.abc import Sequence
from typing import Any

import msgspec

from records.enums import Source
from records.telemetry import ReplicaChanged, RequestSample
from simulation.faults import FaultKind, FaultRequest
from simulation.scale_target import Accepted, DrainRequest, ScaleRequest
from simulation.scenario import EndpointSpec, EngineSpec, LengthsSpec, RatePoint, StartupSpec, TrafficSpec
from simulation.simulated_endpoint import SimulatedEndpoint

FIRST_S = 1_700_000_000
START_S = 10.0


def a_spec(rate: float = 20.0, replicas: int = 2, **changes: Any) -> EndpointSpec:
    spec = EndpointSpec(
        endpoint="chat",
        engine=EngineSpec(model="llama-3.1-8b", hardware="H100"),
        startup=StartupSpec(median_seconds=START_S, spread=0.0),
        traffic=TrafficSpec(
            lengths=LengthsSpec(like="conversation"),
            rate=(RatePoint(second=0.0, requests_per_second=rate),),
            patience_seconds=20.0,
        ),
        replicas=replicas,
        max_replicas=20,
    )
    return msgspec.structs.replace(spec, **changes)


class Run:
    """An endpoint that is advanced; `told` has the records of all its seconds."""

    def __init__(self, spec: EndpointSpec | None = None, seed: int = 1, instance: str = "i") -> None:
        self.endpoint = SimulatedEndpoint(spec or a_spec(), seed=seed, instance=instance, first_s=FIRST_S)
        self.told: list[Any] = []

    @property
    def now_s(self) -> int:
        """The next second, from the start on."""
        return self.endpoint.newest_s + 1 - FIRST_S

    def until(self, second: int) -> list[Any]:
        """Advance up to `second`, that one not; what was told meanwhile."""
        begin = len(self.told)
        while self.now_s < second:
            self.told += self.endpoint.advance(FIRST_S + self.now_s)
        return self.told[begin:]

    def scale(self, spec: int) -> None:
        version = self.endpoint.target.target.resource_version
        request = ScaleRequest(spec_replicas=spec, resource_version=version)
        assert isinstance(self.endpoint.target.compare_and_set(request), Accepted)

    def mark(self, *replicas: str, deadline_s: float = 30.0) -> None:
        self.endpoint.target.mark(DrainRequest(replicas=replicas, deadline_s=deadline_s), FIRST_S + self.now_s)

    def fault(self, kind: FaultKind, replica: str | None = None, **changes: Any) -> None:
        request = msgspec.structs.replace(FaultRequest(kind=kind, replica=replica), **changes)
        assert self.endpoint.inject(request) is None

    def of(self, kind: type[Any], records: Sequence[Any] | None = None) -> list[Any]:
        return [record for record in (self.told if records is None else records) if isinstance(record, kind)]

    def engine_samples(self, records: Sequence[Any] | None = None) -> list[RequestSample]:
        return [sample for sample in self.of(RequestSample, records) if sample.source is Source.ENGINE]

    def states(self, replica: str) -> list[tuple[int, str, str]]:
        """Each entered state of a replica: when, what, and its restarts."""
        changes = [change for change in self.of(ReplicaChanged) if change.replica == replica]
        entered: dict[tuple[str, str], int] = {}
        for change in changes:
            entered.setdefault((change.state, change.epoch.rpartition("/")[2]), change.at_s - FIRST_S)
        return [(at_s, state, restarts) for (state, restarts), at_s in entered.items()]
