"""A small run of the workers' own controller: load comes and goes, an actuator carries out, replicas start."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from deltalake import write_deltalake

from records.decisions import ScalingDecision
from records.enums import OutcomeResult, ReplicaState, ScalingAction
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.telemetry import ReplicaChanged, TargetObserved
from sinks.rows import record_rows, table_spec
from streams.endpoints.effects import TickEffects
from tests.streams.controller.line import REQUESTS, Line, feed, policy, sample, started
from wire.batches import DecodedBatch, JsonRun

START_S = 1_700_000_100
ACTUATOR = "fleet-1"
START_UP_S = 15


class ClosedLoop:
    """One endpoint, second by second from `start_s` on, a multiple of 300.

    `load(second)` is the requests in flight; `answers(second)` whether the actuator is there. `records` has, by topic,
    what travelled.
    """

    def __init__(
        self,
        endpoint: str = "chat",
        load: Callable[[int], float] = lambda second: 12.0 if second < 40 else 90.0 if second < 120 else 6.0,
        answers: Callable[[int], bool] = lambda second: True,
        start_s: int = START_S,
        **keys: Any,
    ) -> None:
        shape: dict[str, Any] = {
            "metrics": [{"name": "inflight_requests", "target": 8}, {"name": "queue_depth", "target": 2}],
            "scaleDown": {"windowSeconds": 60},
        }
        self.policy: EndpointPolicy = policy(endpoint, **(shape | keys))
        self.endpoint = endpoint
        self.start_s = start_s
        self.effects: list[TickEffects] = []
        self.records: defaultdict[str, list[Any]] = defaultdict(list)
        self.records["policies"].append(self.policy)
        self._load, self._answers = load, answers
        self._controller = started(self.policy)
        self._line = Line()
        self._ready_s: dict[str, int] = {}
        self._spec = 2

    @property
    def decisions(self) -> list[ScalingDecision]:
        return [decision for one in self.effects for decision in one.decisions]

    @property
    def moves(self) -> list[ScalingDecision]:
        return [decision for decision in self.decisions if decision.action is not ScalingAction.HOLD]

    def run(self, seconds: int) -> "ClosedLoop":
        for name in ("r0", "r1"):
            self._start(name, self.start_s, self.start_s)
        self._tell_target(self.start_s)
        for second in range(seconds):
            self._second(self.start_s + second, self._load(second), is_answered=self._answers(second))
        for one in self.effects:
            self.records["signals"].append(one.signal)
            self.records["controllers"].append(one.memory)
            self.records["decisions.scaling"] += one.decisions
        return self

    def _second(self, at_s: int, load: float, *, is_answered: bool) -> None:
        ready = [name for name, since_s in self._ready_s.items() if since_s <= at_s]
        for name, since_s in self._ready_s.items():
            if since_s == at_s:
                self._feed("telemetry.replicas", _replica(self.endpoint, name, ReplicaState.READY, at_s))
        if at_s % 30 == 0:
            self._tell_target(at_s)
        made = []
        for name in ready:
            fields = {"running": min(8.0, load / len(ready)), "waiting": max(0.0, load / len(ready) - 8.0)}
            made += self._feed(REQUESTS, sample(at_s, name, endpoint=self.endpoint, arrivals=None, **fields))
        self.effects += made
        moves = [it for one in made for it in one.decisions if it.action is not ScalingAction.HOLD]
        if moves and is_answered:
            self._carry_out(moves[-1], at_s)

    def _carry_out(self, decision: ScalingDecision, at_s: int) -> None:
        """The newest decision only; a repeat of what is there already is applied again, which changes nothing."""
        outcome = Outcome(
            decision_id=decision.decision_id,
            decision_topic="decisions.scaling",
            endpoint=self.endpoint,
            actuator=ACTUATOR,
            at_s=at_s + 1,
            result=OutcomeResult.APPLIED,
            observed=decision.desired,
        )
        self._feed("outcomes", outcome)
        self._spec = decision.desired
        for index in range(len(self._ready_s), self._spec):
            self._start(f"r{index}", at_s, at_s + START_UP_S)
        for name in list(self._ready_s)[self._spec :]:
            del self._ready_s[name]
            self._feed("telemetry.replicas", _replica(self.endpoint, name, ReplicaState.GONE, at_s))
        self._tell_target(at_s + 1)

    def _start(self, name: str, at_s: int, ready_s: int) -> None:
        self._ready_s[name] = ready_s
        self._feed("telemetry.replicas", _replica(self.endpoint, name, ReplicaState.STARTING, at_s))

    def _tell_target(self, at_s: int) -> None:
        self._feed("telemetry.targets", TargetObserved(endpoint=self.endpoint, at_s=at_s, spec_replicas=self._spec))

    def _feed(self, topic: str, record: Any) -> list[TickEffects]:
        self.records[topic].append(record)
        self._line.add(topic, record)
        return feed(self._controller, self._line.arrivals[-1:])


def _replica(endpoint: str, name: str, state: ReplicaState, at_s: int) -> ReplicaChanged:
    return ReplicaChanged(endpoint=endpoint, replica=name, epoch="e1", at_s=at_s, state=state, seq=at_s)


def write_tables(folder: Path, records: Mapping[str, Sequence[Any]]) -> None:
    """Tables as the sink writes them, each in one commit."""
    for topic, written in records.items():
        offsets = np.arange(len(written))
        received_s = np.array([getattr(record, "at_s", START_S) + 1.0 for record in written])
        run = JsonRun(records=list(written), offsets=offsets, received_s=received_s)
        batch = DecodedBatch(
            topic=topic, kafka_topic=topic, partition=0, runs=[run], errors=[], next_offset=len(written)
        )
        spec = table_spec(topic)
        write_deltalake(str(folder / spec.name), record_rows(batch, "made"), mode="append", partition_by=["date"])
