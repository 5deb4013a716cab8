"""A worker that takes over a backlog of large messages holds only so much of it at once, and reads all of it."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import pytest
from faust.types import TP

from headrace.clock import Clock, monotonic_s
from streams.shell.batching_consumer import PolledBatch
from streams.shell.consumer_thread import POLL_LIMITS
from streams.shell.faust_app import GroupOptions
from streams.shell.partition_owner import PartitionOwner
from streams.shell.unread_batches import UNREAD_BYTES_MAX, UnreadBatches
from streams.shell.worker import Worker, WorkerOptions
from streams.shell.worker_metrics import WorkerMetrics
from tests.worker.counting_source import CountedTick, CountingSource
from tests.worker.pipeline import Pipeline
from wire.batches import Message
from wire.kafka import open_producer

TOPIC = "telemetry.requests"
MESSAGE_BYTES = 1_000_000
MESSAGES = 30
"""Of each partition; compressed they are nothing, so that one fetch has them all."""


class Reads:
    """What all partitions' sources were fed: `order` has each one's partition and offset."""

    def __init__(self, wanted: int) -> None:
        self.order: list[tuple[int, int]] = []
        self.all_read = asyncio.Event()
        self._wanted = wanted

    def source(self, partition: int) -> CountingSource:
        return _NotingSource(partition, self)

    def note(self, partition: int, offset: int) -> None:
        self.order.append((partition, offset))
        if len(self.order) == self._wanted:
            self.all_read.set()


class _NotingSource(CountingSource):
    def __init__(self, partition: int, reads: Reads) -> None:
        super().__init__(partition)
        self._partition, self._reads = partition, reads

    def feed(self, topic: str, messages: Sequence[Message], now_s: float) -> list[CountedTick]:
        for message in messages if topic == TOPIC else ():
            self._reads.note(self._partition, message.offset)
        return []


class WatchedBatches(UnreadBatches):
    """`most` bytes that ever were in it; `is_full` once somebody waited for room in vain with all partitions read."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.most = 0
        self.is_full = asyncio.Event()
        self._not_rewound = set(range(partitions))

    def clear(self, tp: TP) -> None:
        super().clear(tp)
        self._not_rewound.discard(tp.partition)

    def add(self, tp: TP, size: int) -> None:
        super().add(tp, size)
        self.most = max(self.most, self.size)

    async def wait_for_room(self, seconds: float) -> bool:
        has_room = await super().wait_for_room(seconds)
        if not has_room and not self._not_rewound:
            self.is_full.set()
        return has_room


@pytest.mark.kafka
async def test_a_backlog_is_read_within_the_bound_and_nothing_of_it_is_lost(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No agent takes anything until the poll waits for them."""
    watched = WatchedBatches(pipeline.partitions)
    monkeypatch.setattr("streams.shell.batching_consumer.UnreadBatches", lambda: watched)
    take = PartitionOwner.take

    async def take_later(owner: PartitionOwner, topic: str, batch: PolledBatch) -> None:
        await watched.is_full.wait()
        await take(owner, topic, batch)

    monkeypatch.setattr(PartitionOwner, "take", take_later)
    await _send(pipeline)
    reads = Reads(MESSAGES * pipeline.partitions)
    options = WorkerOptions(
        access=pipeline.access,
        names=pipeline.names,
        group=GroupOptions(app=pipeline.prefix + "worker", session_timeout_s=2.0),
        clock=Clock().now_s,
        monotonic_s=monotonic_s,
    )
    stop = asyncio.Event()
    running = asyncio.create_task(Worker(options, reads.source, WorkerMetrics()).run(stop))
    all_read = asyncio.create_task(reads.all_read.wait())
    async with asyncio.timeout(60):
        await asyncio.wait({running, all_read}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await running
    by_partition = defaultdict(list)
    for partition, offset in reads.order:
        by_partition[partition].append(offset)
    assert by_partition == {partition: list(range(MESSAGES)) for partition in range(pipeline.partitions)}
    one_poll = POLL_LIMITS.size + MESSAGE_BYTES
    assert UNREAD_BYTES_MAX <= watched.most < UNREAD_BYTES_MAX + one_poll


async def _send(pipeline: Pipeline) -> None:
    """Large messages that compress to nothing, the same number to each partition."""
    real = pipeline.names.real(TOPIC)
    async with open_producer(pipeline.access) as producer:
        for number in range(MESSAGES):
            value = bytes([65 + number]) * MESSAGE_BYTES
            for partition in range(pipeline.partitions):
                await producer.send(real, value, b"key", partition)
