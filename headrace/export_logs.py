"""What one endpoint's logs hold: read committed, from one partition of each topic, record by record."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import UnknownError

from streams.endpoints.effects import PolicyDeleted
from streams.shell.log_offsets import STEPS_BACK_S
from wire.batches import FrameRun, JsonRun, Run, Tombstone, decode_batch
from wire.codec import DecodeError, decode, has_own_key
from wire.frame_schema import frame_columns
from wire.frames import histogram_at
from wire.kafka import partition_of
from wire.topics import TOPICS, TopicNames

R = TypeVar("R", bound=msgspec.Struct)

POLL_TIMEOUT_MS = 200
POLL_RECORDS_MAX = 2000


@dataclass(frozen=True, slots=True)
class Logged:
    """A record of the endpoint. `continues`: the next one is another row of the same message."""

    topic: str
    offset: int
    received_s: float
    record: msgspec.Struct | PolicyDeleted
    continues: bool = False


class EndpointLogs:
    """Logs of `endpoint` on a cluster that `open_consumer()` reaches; one consumer a topic, closed by `close`."""

    def __init__(self, endpoint: str, names: TopicNames, open_consumer: Callable[[], AIOKafkaConsumer]) -> None:
        self.endpoint = endpoint
        self._names = names
        self._open = open_consumer
        self._consumers: dict[str, AIOKafkaConsumer] = {}

    async def close(self) -> None:
        for consumer in self._consumers.values():
            await consumer.stop()
        self._consumers.clear()

    async def partition(self, topic: str) -> TopicPartition:
        """The endpoint's partition of a topic (logical name). Raises LookupError for a topic that is not there."""
        real = self._names.real(topic)
        consumer = await self._consumer(topic)
        partitions = consumer.partitions_for_topic(real) or await self._ask_partitions(consumer, real)
        if not partitions:
            raise LookupError(f"topic {real} does not exist")
        return TopicPartition(real, partition_of(self.endpoint, len(partitions)))

    async def offset_at(self, topic: str, time_s: float) -> int:
        """The first offset stamped at or after a UNIX time; the end where there is none.

        A broker that looks for a time decompresses the batch that holds it, and fails where that cannot be done: then
        it is looked for here, from an earlier time on.
        """
        try:
            return await self._asked_offset(topic, time_s)
        except UnknownError:
            first = 0
            for step_s in STEPS_BACK_S[1:]:
                with suppress(UnknownError):
                    first = await self._asked_offset(topic, time_s - step_s)
                    break
        end = first
        async for messages in self.messages(topic, first):
            for message in messages:
                if message.timestamp >= int(time_s * 1000):
                    return int(message.offset)
                end = message.offset + 1
        return end

    async def _asked_offset(self, topic: str, time_s: float) -> int:
        """As `offset_at`, as the broker answers. Raises UnknownError where it fails."""
        tp = await self.partition(topic)
        consumer = await self._consumer(topic)
        found = (await consumer.offsets_for_times({tp: max(0, int(time_s * 1000))}))[tp]
        end: int = (await consumer.end_offsets([tp]))[tp]
        return end if found is None else int(found.offset)

    async def messages(self, topic: str, first: int, end: int | None = None) -> AsyncIterator[list[ConsumerRecord]]:
        """All messages of the partition from an offset on, up to `end`, else to the end as it is now."""
        tp = await self.partition(topic)
        consumer = await self._consumer(topic)
        begins: int = (await consumer.beginning_offsets([tp]))[tp]
        ends: int = (await consumer.end_offsets([tp]))[tp]
        stop = ends if end is None else min(end, ends)
        consumer.assign([tp])
        consumer.seek(tp, max(first, begins))
        # The position, not the records, tells the end: a log of transactions ends with control records.
        while await consumer.position(tp) < stop:
            polled = await consumer.getmany(tp, timeout_ms=POLL_TIMEOUT_MS, max_records=POLL_RECORDS_MAX)
            for records in polled.values():
                wanted = [record for record in records if record.offset < stop]
                if wanted:
                    yield wanted

    async def records(self, topic: str, first: int, end: int | None = None) -> AsyncIterator[Logged]:
        """The endpoint's records of an input topic; what cannot be decoded is left out, as the workers leave it out."""
        async for messages in self.messages(topic, first, end):
            for run in decode_batch(topic, messages[0].partition, messages).runs:
                for logged in _of_run(topic, run, self.endpoint):
                    yield logged

    async def outputs(
        self, topic: str, kind: type[R], first: int, end: int | None = None
    ) -> AsyncIterator[tuple[ConsumerRecord, R]]:
        """The endpoint's records of an output topic, each with its message; what is none of `kind` is left out."""
        key = self.endpoint.encode()
        async for messages in self.messages(topic, first, end):
            for message in messages:
                record = _read(topic, message) if message.key == key else None
                if isinstance(record, kind) and has_own_key(topic, key, record):
                    yield message, record

    async def _consumer(self, topic: str) -> AIOKafkaConsumer:
        consumer = self._consumers.get(topic)
        if consumer is None:
            consumer = self._open()
            self._consumers[topic] = consumer  # before its start: `close` closes also what failed to start
            await consumer.start()
        return consumer

    async def _ask_partitions(self, consumer: AIOKafkaConsumer, real: str) -> set[int]:
        await consumer.topics()
        await consumer._client.force_metadata_update()  # aiokafka loads a topic's partitions when it is first named
        return consumer.partitions_for_topic(real) or set()


def _read(topic: str, message: ConsumerRecord) -> msgspec.Struct | None:
    """Null for a tombstone, and for what no worker wrote."""
    try:
        return decode(topic, message.value)
    except DecodeError:
        return None


def _of_run(topic: str, run: Run, endpoint: str) -> list[Logged]:
    match run:
        case JsonRun(records=records, offsets=offsets, received_s=received_s):
            rows = zip(records, offsets.tolist(), received_s.tolist(), strict=True)
            return [
                Logged(topic, offset, received, record)
                for record, offset, received in rows
                if record.endpoint == endpoint
            ]
        case FrameRun():
            return _of_frame(topic, run, endpoint)
        case Tombstone(key=key, offset=offset, received_s=received):
            return [Logged(topic, offset, received, PolicyDeleted(key))] if key == endpoint else []


def _of_frame(topic: str, run: FrameRun, endpoint: str) -> list[Logged]:
    """The endpoint's rows; all but the last one are continued by the next."""
    own = np.flatnonzero(np.array(run.batch.column("endpoint").to_pylist()) == endpoint)
    batch = run.batch.take(own)
    kind = TOPICS[topic].record
    found = []
    for place, (row, values) in enumerate(zip(own.tolist(), batch.to_pylist(), strict=True)):
        for name in frame_columns(topic).histograms:
            values[name] = histogram_at(batch, name, place)
        record = msgspec.convert(values, kind, strict=False)
        found.append(Logged(topic, run.offset, float(run.received_s[row]), record, row != own[-1]))
    return found
