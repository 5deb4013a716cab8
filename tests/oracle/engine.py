"""The engine under the oracle's log: encoded and decoded by the wire, cut into polls, killed and restored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import numpy as np

from records.memory import ControllerMemory
from records.policy import EndpointPolicy
from records.signals import EndpointSignal
from records.telemetry import ReplicaChanged, RequestSample
from streams.controller.controller import PartitionController
from streams.controller.rebuild import WINDOW_TOPICS, RewindPlan
from streams.endpoints.effects import Count, TickEffects
from streams.shell.sample_frames import SampleFrames
from tests.oracle.model.log import Change, Clock, Entry, Message, Policy, Sample
from tests.oracle.plans import STRANGER, Case
from tests.wire.messages import FRAME_HEADERS, Consumed
from wire.batches import FrameRun, JsonRun, decode_messages
from wire.codec import encode
from wire.frames import encode_frames

REQUESTS, REPLICAS = "telemetry.requests", "telemetry.replicas"


def owns(endpoint: str) -> bool:
    return endpoint != STRANGER


def policy_of(policy: Policy) -> EndpointPolicy:
    metrics = []
    for metric in policy.metrics:
        name, _, percentile = metric.key.partition(":")
        metrics.append({"name": name, "target": 8, **({"percentile": percentile} if percentile else {})})
    document: dict[str, Any] = {
        "endpoint": policy.endpoint,
        "minReplicas": 1,
        "maxReplicas": 20,
        "scaleTargetRef": {"kind": "Deployment", "name": policy.endpoint},
        "metrics": metrics,
        "scaleUp": {"windowSeconds": policy.up_s},
        "scaleDown": {"windowSeconds": policy.down_s},
        "patienceSeconds": policy.patience_s,
    }
    return msgspec.convert(document, EndpointPolicy)


def record_of(sample: Sample) -> RequestSample:
    histograms = {
        name: {
            "explicit_bounds": [float(bound) for bound in one.bounds],
            "bucket_counts": one.counts,
            "sum": None if one.sum is None else float(one.sum),
        }
        for name, one in sample.histograms.items()
    }
    scalars = {name: value if isinstance(value, int) else float(value) for name, value in sample.scalars.items()}
    document = {
        "endpoint": sample.endpoint,
        "replica": sample.replica,
        "source": sample.source,
        "reporter": sample.reporter,
        "epoch": sample.epoch,
        "seq": sample.seq,
        "at_s": sample.at_s,
        "received_s": None if sample.received_s is None else float(sample.received_s),
        **scalars,
        **histograms,
    }
    return msgspec.convert(document, RequestSample, strict=False)


@dataclass(frozen=True)
class Delivery:
    """One entry as Kafka holds it; `message` null where the clock alone goes on, to `at_s`."""

    topic: str
    at_s: float
    message: Consumed | None


def deliveries(entries: Sequence[Entry]) -> list[Delivery]:
    found = []
    changes = 0
    for entry in entries:
        match entry:
            case Message():
                found.append(Delivery(REQUESTS, float(entry.stamped_s), _message(entry)))
            case Change():
                record = ReplicaChanged(
                    endpoint=entry.endpoint,
                    replica=entry.replica,
                    at_s=entry.at_s,
                    state=msgspec.convert(entry.state, ReplicaChanged.__annotations__["state"]),
                )
                message = Consumed(REPLICAS, encode(record), changes, int(entry.received_s * 1000))
                found.append(Delivery(REPLICAS, float(entry.received_s), message))
                changes += 1
            case Clock():
                found.append(Delivery("clock", float(entry.now_s), None))
    return found


def _message(entry: Message) -> Consumed:
    records = [record_of(sample) for sample in entry.samples]
    stamped_ms = int(entry.stamped_s * 1000)
    if not entry.is_frame:
        return Consumed(REQUESTS, encode(records[0]), entry.offset, stamped_ms)
    (frame,) = encode_frames(records)
    return Consumed(REQUESTS, frame.value, entry.offset, stamped_ms, headers=FRAME_HEADERS)


@dataclass(frozen=True)
class Run:
    """What came of a case: signals by endpoint, and what the last worker counted of rows from `counted_from` on (by
    endpoint; rows of others from `others_from` on)."""

    signals: dict[str, list[EndpointSignal]]
    counts: dict[Count, int]
    counted_from: dict[str, int]
    others_from: int
    restarts: int


def run_engine(case: Case, make: Callable[[], PartitionController] | None = None) -> Run:
    return _Runner(case, make or (lambda: PartitionController(0, owns))).run()


class _Runner:
    def __init__(self, case: Case, make: Callable[[], PartitionController]) -> None:
        self._case, self._make = case, make
        self._log = deliveries(case.entries)
        self._policies = [policy_of(policy) for policy in case.policies]
        self._rng = Random(case.cut_seed)
        self._signals: dict[str, list[EndpointSignal]] = {policy.endpoint: [] for policy in case.policies}
        self._memories: dict[str, bytes] = {}

    def run(self) -> Run:
        for place, share in self._case.kills:
            _, made = self._live(place)
            self._commit(made[: round(len(made) * share)])
        before = dict(self._memories)
        controller, made = self._live(len(self._log))
        self._commit(made + controller.finish())
        offsets = {name: _memory(text).offsets.get(REQUESTS, 0) for name, text in before.items()}
        return Run(
            signals=self._signals,
            counts=dict(controller.counts.by_kind),
            counted_from={policy.endpoint: offsets.get(policy.endpoint, 0) for policy in self._case.policies},
            others_from=min(offsets.values(), default=0),
            restarts=len(self._case.kills) if before else 0,
        )

    def _live(self, end: int) -> tuple[PartitionController, list[TickEffects]]:
        """One worker's life, from its start until it dies before the entry at `end`; what it made."""
        controller, frames = self._make(), SampleFrames()
        plan = controller.restore([_memory(text) for text in self._memories.values()], self._policies)
        effects: list[TickEffects] = []
        for poll in self._polls([one for one in self._log[:end] if _is_read(plan, one)]):
            effects += _feed(controller, frames, poll)
        return controller, effects

    def _polls(self, log: Sequence[Delivery]) -> list[Sequence[Delivery]]:
        """Runs of one topic, cut at random."""
        found: list[Sequence[Delivery]] = []
        start = 0
        while start < len(log):
            longest = self._rng.choice((1, 3, 10, 40))
            end = start + 1
            while end < len(log) and end - start < longest and log[end].topic == log[start].topic:
                end += 1
            found.append(log[start:end])
            start = end
        return found

    def _commit(self, effects: Sequence[TickEffects]) -> None:
        for one in effects:
            self._signals[one.endpoint].append(one.signal)
            self._memories[one.endpoint] = encode(one.memory)


def _memory(text: bytes) -> ControllerMemory:
    return msgspec.json.decode(text, type=ControllerMemory)


def _is_read(plan: RewindPlan, one: Delivery) -> bool:
    """Whether a worker that starts by this plan reads an entry again."""
    if one.message is None or not plan.times_s:
        return True
    if one.at_s >= plan.times_s.get(one.topic, float("inf")):
        return True
    return one.topic not in WINDOW_TOPICS and one.message.offset >= plan.offsets.get(one.topic, 0)


def _feed(controller: PartitionController, frames: SampleFrames, poll: Sequence[Delivery]) -> list[TickEffects]:
    topic = poll[0].topic
    messages = [one.message for one in poll if one.message is not None]
    if not messages:
        return [effects for one in poll for effects in controller.advance(one.at_s)]
    decoded = decode_messages(topic, topic, 0, messages, frames.read)
    assert not decoded.errors, decoded.errors
    effects = []
    for run in decoded.runs:
        match run:
            case JsonRun():
                effects += controller.feed(topic, run.records, run.offsets, run.received_s)
            case FrameRun():
                columns = frames.columns(run.frame, run.received_s)
                offsets = np.full(len(columns), run.offset, np.int64)
                effects += controller.feed(topic, columns, offsets, run.received_s)
    return effects
