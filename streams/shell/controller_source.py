"""A partition's controller behind the shell's port: messages are decoded here, once, and become rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
from aiokafka import ConsumerRecord

from records.memory import ControllerMemory
from records.policy import EndpointPolicy
from records.signals import SkippedRecords
from streams.controller.controller import PartitionController
from streams.controller.rebuild import REQUESTS
from streams.endpoints.effects import ControllerSize, Count, PolicyDeleted, TickEffects
from streams.endpoints.ticks import CATCH_UP_S
from streams.shell.inputs import INPUT_TOPICS
from streams.shell.left_out import LeftOut
from streams.shell.memory_reader import CompactedPartition
from streams.shell.remembered import lost_memories, name_of, read_remembered
from streams.shell.sample_frames import SampleFrames
from streams.shell.sample_reader import Read, read_samples
from streams.shell.tick_source import StartPositions
from streams.shell.unreadable_memory import UnreadableMemoryError
from streams.shell.worker_metrics import WorkerMetrics
from wire.batches import FrameRun, JsonRun, Message, Run, Tombstone, decode_messages
from wire.kafka import partition_of
from wire.topics import TOPICS

FIRST_SPAN_S = 400.0
"""How far back a partition is read of which nothing is remembered: the default windows and their margins."""


class ControllerSource:
    """The ticks of one partition of `partitions`. See streams.shell.tick_source.TickSource for the methods."""

    def __init__(self, partition: int, partitions: int, metrics: WorkerMetrics) -> None:
        self._partition = partition
        self._owns: Callable[[str], bool] = lambda endpoint: partition_of(endpoint, partitions) == partition
        self._controller = PartitionController(partition, self._owns)
        self._metrics = metrics
        self._left_out = LeftOut(metrics)
        self._counted: dict[Count, int] = {}
        self._behind_until_s = float("-inf")
        self._frames = SampleFrames()

    @property
    def processed_s(self) -> float | None:
        return self._controller.processed_s

    def restore(self, memory: Mapping[str, CompactedPartition], now_s: float) -> StartPositions:
        """What is nobody's memory here is counted and left out; the unreadable one of an endpoint that is to be decided
        raises UnreadableMemoryError, since going on without it would decide ticks again.

        Policies are those that the last tick knew; what was published since is read in its turn, as ticks that came due
        before it know nothing of it.
        """
        policies = memory["policies"]
        own, forgotten = self._memories(memory["controllers"], policies)
        read_to = max((one.offsets.get("policies", 0) for one in own), default=0) or policies.next_offset
        known = {message.key: message for message in policies.as_of(read_to)}
        # A memory's policy that was compacted away since: the newest is as near to it as the log has one.
        remembered = [key for one in own if (key := one.endpoint.encode()) not in known]
        known |= {key: policies.newest[key] for key in remembered if key in policies.newest}
        found = self._policies(policies, [known[key] for key in known if key not in forgotten], read_to)
        plan = self._controller.restore(own, found, read_to)
        self._mark_behind(now_s)
        offsets = {"policies": read_to, **plan.offsets}
        since_s = now_s - max(plan.span_s, FIRST_SPAN_S)
        times_s = plan.times_s or {topic: since_s for topic in INPUT_TOPICS if topic not in offsets}
        return StartPositions(times_s=times_s, offsets=offsets)

    def _memories(
        self, controllers: CompactedPartition, policies: CompactedPartition
    ) -> tuple[list[ControllerMemory], set[bytes]]:
        """Those of endpoints of this partition; and keys whose memory cannot be read and whose policy was deleted since
        it was written, so that nothing is to be decided."""
        found = read_remembered("controllers", [*controllers.newest.values(), *controllers.keyless])
        named = [endpoint for key in policies.keys if (endpoint := name_of(key)) is not None and self._owns(endpoint)]
        lost = lost_memories(controllers, found.rejected, named) if found.rejected else {}
        # A policy that cannot be read either was not deleted: the one under it counts, or the next that is published.
        if decided := {endpoint: one for endpoint, one in lost.items() if endpoint.encode() in policies.newest}:
            raise UnreadableMemoryError(decided)
        memories = [record for record in found.records.values() if isinstance(record, ControllerMemory)]
        foreign = [controllers.newest[one.endpoint.encode()] for one in memories if not self._owns(one.endpoint)]
        self._left_out.tell("controllers", found.rejected, foreign)
        own = [one for one in memories if self._owns(one.endpoint) and one.endpoint not in lost]
        return own, {endpoint.encode() for endpoint in lost}

    def _policies(
        self, policies: CompactedPartition, known: Sequence[ConsumerRecord], read_to: int
    ) -> list[EndpointPolicy]:
        """Under a policy that cannot be read is the one that its owner has kept, as long as the log has it."""
        found = read_remembered("policies", known)
        under = [message for one in found.rejected if (message := policies.before(one.message)) is not None]
        keyless = read_remembered("policies", [message for message in policies.keyless if message.offset < read_to])
        self._left_out.tell("policies", [*found.rejected, *keyless.rejected])
        records = [*found.records.values(), *read_remembered("policies", under).records.values()]
        return [record for record in records if isinstance(record, EndpointPolicy)]

    def log_begins(self, received_s: float) -> None:
        self._controller.log_begins(received_s)

    @property
    def size(self) -> ControllerSize:
        return self._controller.size

    @property
    def is_rebuilding(self) -> bool:
        return self._controller.is_rebuilding

    def skip(self, skipped: Sequence[SkippedRecords], now_s: float) -> None:
        for one in skipped:
            self._controller.skip(one)
        self._controller.mark_behind(now_s)

    def feed(self, topic: str, messages: Sequence[Message], now_s: float) -> list[TickEffects]:
        processed_s = self._controller.processed_s
        if processed_s is not None and now_s - processed_s > CATCH_UP_S:
            self._mark_behind(now_s)
        messages = self._without_skipped(topic, messages)
        if not messages:
            return []
        effects: list[TickEffects] = []
        samples = 0
        for rows, offsets, received_s in self._read(topic, messages):
            effects += self._controller.feed(topic, rows, offsets, received_s)
            samples += len(offsets)
        if topic == REQUESTS and samples:
            self._metrics.samples.add(samples)
        self._count(topic, len(messages))
        return effects

    def _read(self, topic: str, messages: Sequence[Message]) -> Iterator[Read]:
        decode_exactly = partial(self._decode, topic)
        return read_samples(messages, decode_exactly) if topic == REQUESTS else decode_exactly(messages)

    def _decode(self, topic: str, messages: Sequence[Message]) -> Iterator[Read]:
        """Message by message. Dead letters are only counted here: the sink keeps them, with the topic's name on the
        cluster."""
        read_frame = self._frames.read if topic == REQUESTS else None
        decoded = decode_messages(topic, topic, self._partition, messages, read_frame)
        self._metrics.count_undecodable(topic, decoded.errors)
        for run in decoded.runs:
            yield _rows(topic, run, self._frames)

    def advance(self, now_s: float) -> list[TickEffects]:
        return list(self._controller.advance(now_s))

    def _without_skipped(self, topic: str, messages: Sequence[Message]) -> Sequence[Message]:
        """Without what an owner before this one has left unread: its ticks are not to be made otherwise."""
        for skipped in self._controller.skipped_records:
            first, end = skipped.first_offset, skipped.end_offset
            if skipped.topic == topic and messages and messages[0].offset < end and messages[-1].offset >= first:
                messages = [message for message in messages if not first <= message.offset < end]
        return messages

    def _mark_behind(self, now_s: float) -> None:
        """An outage of the pipeline ends now. Whoever is behind all the time still decides once each time round: a new
        mark is set only when the one before was reached."""
        processed_s = self._controller.processed_s
        if processed_s is None or processed_s >= self._behind_until_s:
            self._behind_until_s = now_s
            self._controller.mark_behind(now_s)

    def _count(self, topic: str, messages: int) -> None:
        self._metrics.messages.add(messages, {"topic": topic})
        for kind, total in self._controller.counts.by_kind.items():
            new = total - self._counted.get(kind, 0)
            if new:
                self._counted[kind] = total
                self._metrics.left_out.add(new, {"kind": kind.value})


def _rows(topic: str, run: Run, frames: SampleFrames) -> Read:
    match run:
        case JsonRun():
            return run.records, run.offsets, run.received_s
        case FrameRun():
            offsets = np.full(len(run.received_s), run.offset, np.int64)
            if topic == REQUESTS:
                return frames.columns(run.frame, run.received_s), offsets, run.received_s
            kind: Any = TOPICS[topic].record
            records = msgspec.convert(run.batch.to_pylist(), list[kind], strict=False)
            return records, offsets, run.received_s
        case Tombstone():
            deleted = PolicyDeleted(run.key)
            return [deleted], np.array([run.offset], np.int64), np.array([run.received_s], np.float64)
