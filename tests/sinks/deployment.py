"""Topics of one test on a real Kafka, what is sent to them, and a sink that writes them."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer, ConsumerRecord, TopicPartition

from headrace.clock import monotonic_s
from records.enums import Source
from records.histogram import Histogram
from records.telemetry import RequestSample
from sinks.buffers import FlushRules
from sinks.root import TableRoot
from sinks.sink import DeltaSink, SinkPlan
from wire.admin import TopicSettings, create_topics
from wire.codec import encode
from wire.frames import ARROW_CONTENT_TYPE, encode_frames
from wire.kafka import KafkaAccess, open_consumer, open_producer, partition_of
from wire.topics import TopicNames, key_of, topic_of

PARTITIONS = 3
ARROW = [("content-type", ARROW_CONTENT_TYPE)]
QUICK = FlushRules(age_max_s=0.2)

Send = Callable[..., Any]


def request_samples(count: int, first: int = 0, endpoints: int = 7) -> list[RequestSample]:
    """`count` samples of as many seconds, spread over endpoints; some with a histogram, all with known counts."""
    ttft = Histogram(explicit_bounds=(10.0, 100.0), bucket_counts=(1, 2, 3), sum=321.5)
    return [
        RequestSample(
            endpoint=f"endpoint-{number % endpoints}",
            replica=f"replica-{number % 3}",
            epoch="1",
            seq=number,
            at_s=1_790_000_000 + number,
            source=Source.ENGINE,
            arrivals=number % 11,
            output_tokens=None if number % 5 == 0 else number,
            ttft_ms=ttft if number % 4 == 0 else None,
        )
        for number in range(first, first + count)
    ]


@dataclass(frozen=True)
class Deployment:
    """All topics under a prefix of their own, `PARTITIONS` each, and a folder for the tables."""

    access: KafkaAccess
    names: TopicNames
    folder: Path

    @classmethod
    async def create(cls, bootstrap: str, folder: Path, prefix: str = "") -> "Deployment":
        names = TopicNames(prefix or f"t{uuid.uuid4().hex[:10]}.")
        made = cls(KafkaAccess(bootstrap=bootstrap), names, folder)
        await create_topics(made.access, names, TopicSettings(partitions=PARTITIONS))
        return made

    def plan(self, **changes: Any) -> SinkPlan:
        plan = SinkPlan(
            access=self.access,
            root=TableRoot(address=str(self.folder)),
            monotonic_s=monotonic_s,
            names=self.names,
            group=f"{self.names.prefix}sink",
            rules=QUICK,
            session_s=6.0,
        )
        return replace(plan, **changes)

    @asynccontextmanager
    async def producer(self, **options: Any) -> AsyncIterator["Sender"]:
        async with open_producer(self.access, **options) as producer:
            yield Sender(self.names, producer)

    async def send(self, records: Sequence[msgspec.Struct]) -> None:
        """Each record as a JSON message, by its key."""
        async with self.producer() as sender:
            await sender.send_all(records)

    async def messages(self, topic: str) -> list[ConsumerRecord]:
        """Every committed message of a topic, counted without any code of the sink."""
        found: list[ConsumerRecord] = []
        async with open_consumer(self.access) as consumer:
            partitions = [TopicPartition(self.names.real(topic), number) for number in range(PARTITIONS)]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            await consumer.seek_to_beginning()
            while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    found.extend(batch)
        return found


@dataclass(frozen=True)
class Sender:
    names: TopicNames
    kafka: AIOKafkaProducer

    async def send_all(self, records: Sequence[msgspec.Struct]) -> None:
        for record in records:
            key = key_of(record)
            await self.raw(topic_of(record), encode(record), key.encode(), partition_of(key, PARTITIONS))
        await self.kafka.flush()

    async def send_frames(self, samples: Sequence[RequestSample], partition: int, rows_max: int = 50) -> None:
        for frame in encode_frames(samples, rows_max=rows_max):
            await self.raw("telemetry.requests", frame.value, b"frame", partition, headers=ARROW)
        await self.kafka.flush()

    async def raw(self, topic: str, value: bytes | None, key: bytes | None, partition: int, headers: Any = None) -> int:
        """Sends one message; the future of its metadata is left to `flush`."""
        await self.kafka.send(self.names.real(topic), value, key=key, partition=partition, headers=headers)
        return partition


class Running:
    """A sink at work."""

    def __init__(self, plan: SinkPlan) -> None:
        self.sink = DeltaSink(plan)
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(self.sink.run(self.stop))

    async def until(self, holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Returns when `holds()`; raises what the sink raised before that."""
        async with asyncio.timeout(timeout_s):
            while not holds():
                await asyncio.wait({self.task}, timeout=0.02)
                if self.task.done():
                    await self.task
                    raise AssertionError("the sink ended by itself")

    async def caught_up(self) -> None:
        """Returns when everything that was in the topics has been read."""
        await self.until(lambda: self.sink.lag == 0)


@asynccontextmanager
async def running(plan: SinkPlan) -> AsyncIterator[Running]:
    """At the end the sink is stopped as by SIGTERM; what it raised is raised."""
    made = Running(plan)
    try:
        yield made
    finally:
        made.stop.set()
        await made.task


async def keep_everything(plan: SinkPlan) -> None:
    """Runs a sink until it has read everything, then stops it: all of it is committed.

    A member of the group that was killed may hold partitions for a while.
    """
    async with running(plan) as made:
        await made.until(lambda: made.sink.partitions == PARTITIONS * len(plan.topics) and made.sink.lag == 0)
