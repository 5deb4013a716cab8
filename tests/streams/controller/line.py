"""A partition's inputs as a test writes them: records in the order of their arrival, fed in any cut."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from records.memory import ControllerMemory
from records.policy import EndpointPolicy
from records.telemetry import RequestSample
from streams.controller.controller import PartitionController
from streams.controller.rebuild import WINDOW_TOPICS, RewindPlan
from streams.endpoints.effects import TickEffects

REQUESTS = "telemetry.requests"


def policy(endpoint: str = "chat", **keys: Any) -> EndpointPolicy:
    """A policy by its YAML keys; in-flight requests at a target of 8 unless `metrics` is given."""
    document: dict[str, Any] = {
        "endpoint": endpoint,
        "minReplicas": 1,
        "maxReplicas": 20,
        "scaleTargetRef": {"kind": "Deployment", "name": endpoint},
        "metrics": [{"name": "inflight_requests", "target": 8}],
        **keys,
    }
    return msgspec.convert(document, EndpointPolicy)


def sample(at_s: int, replica: str = "r1", **fields: Any) -> RequestSample:
    """A second of a busy, consistent engine: one request comes and one leaves, 4 run."""
    values: dict[str, Any] = {
        "endpoint": "chat",
        "source": "engine",
        "epoch": "e1",
        "arrivals": 1,
        "completions": 1,
        "errors": 0,
        "aborted": 0,
        "running": 4.0,
        "waiting": 0.0,
        **fields,
    }
    return msgspec.convert({"at_s": at_s, "replica": replica, **values}, RequestSample)


@dataclass(frozen=True)
class Arrival:
    topic: str
    record: Any
    received_s: float
    offset: int


@dataclass
class Line:
    """What has arrived so far; each topic counts its own offsets."""

    arrivals: list[Arrival] = field(default_factory=list)
    _next: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, topic: str, record: Any, received_s: float | None = None) -> None:
        """`received_s`: a second after the record's own by default."""
        if received_s is None:
            received_s = record.at_s + 1.0
        self.arrivals.append(Arrival(topic, record, received_s, self._next[topic]))
        self._next[topic] += 1

    def samples(self, records: Iterable[RequestSample]) -> None:
        for record in records:
            self.add(REQUESTS, record)


def started(*policies: EndpointPolicy, memories: Sequence[ControllerMemory] = ()) -> PartitionController:
    controller = PartitionController(0, lambda endpoint: not endpoint.startswith("elsewhere"))
    controller.restore(memories, policies)
    return controller


def feed(controller: PartitionController, arrivals: Sequence[Arrival]) -> list[TickEffects]:
    """Feed arrivals of one topic in one call."""
    topics = {arrival.topic for arrival in arrivals}
    assert len(topics) == 1
    return controller.feed(
        topics.pop(),
        [arrival.record for arrival in arrivals],
        np.array([arrival.offset for arrival in arrivals], np.int64),
        np.array([arrival.received_s for arrival in arrivals], np.float64),
    )


def feed_all(
    controller: PartitionController, arrivals: Sequence[Arrival], cut: random.Random | None = None
) -> list[TickEffects]:
    """Feed all arrivals, each alone, or as runs of one topic cut at random."""
    effects: list[TickEffects] = []
    start = 0
    while start < len(arrivals):
        end = start + 1
        longest = 1 if cut is None else cut.choice((1, 2, 7, 40, 1000))
        while end < len(arrivals) and end - start < longest and arrivals[end].topic == arrivals[start].topic:
            end += 1
        effects += feed(controller, arrivals[start:end])
        start = end
    return effects


def as_bytes(effects: Iterable[TickEffects]) -> list[bytes]:
    """Each tick's signal, decisions and memory as they would be written."""
    return [
        b"\n".join(msgspec.json.encode(part) for part in (one.signal, one.decisions, one.memory)) for one in effects
    ]


def read_again(plan: RewindPlan, arrivals: Sequence[Arrival]) -> list[Arrival]:
    """What a worker reads that starts from `plan`."""
    never = float("inf") if plan.times_s else 0.0
    return [
        arrival
        for arrival in arrivals
        if arrival.received_s >= plan.times_s.get(arrival.topic, never)
        or (arrival.topic not in WINDOW_TOPICS and arrival.offset >= plan.offsets.get(arrival.topic, 0))
    ]


def run(line: Line, *policies: EndpointPolicy) -> list[TickEffects]:
    """Feed a whole line and end it, as a replay does."""
    controller = started(*(policies or (policy(),)))
    return feed_all(controller, line.arrivals, random.Random(1)) + controller.finish()
