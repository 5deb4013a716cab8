"""One flush of one topic: is it still the same topic, write it in a thread, tell Kafka how far it is."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError

from sinks import metrics
from sinks.buffers import PartitionBatch, TopicBuffer
from sinks.faults import Faults, Point
from sinks.progress import TableBehindError
from sinks.topic_ids import TopicIds
from sinks.topic_writer import TopicWriter

OFFSETS_PATIENCE_S = 5.0
"""How long a commit of Kafka offsets may take: they are a convenience, and the next flush commits newer ones."""

RETRY_S = 0.5
"""Between two questions to brokers that do not answer, or do not know the topic."""

_log = structlog.get_logger("headrace.sinks")


@dataclass(kw_only=True, eq=False)
class TopicState:
    """One topic while it is read.

    `topic_id` is that of the incarnation in which its partitions were placed; `taken_bytes` are being written by
    `flush`. `unwritten` messages were read and left out, as brokers were not waited for any longer.
    """

    kafka_name: str
    writer: TopicWriter
    buffer: TopicBuffer = field(default_factory=TopicBuffer)
    topic_id: str = ""
    flush: asyncio.Task[None] | None = None
    taken_bytes: int = 0
    unwritten: int = 0

    @property
    def bytes(self) -> int:
        """Read and not committed yet."""
        return self.buffer.bytes + self.taken_bytes


class MisplacedError(Exception):
    """What was read does not continue the table, or is of a topic that is gone: read again from the table's end."""


class Flusher:
    """Writes what a topic's buffer holds. `give_up()` ends the waiting for brokers that do not answer."""

    def __init__(
        self,
        ids: TopicIds,
        consumer: AIOKafkaConsumer,
        threads: ThreadPoolExecutor,
        faults: Faults,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._ids = ids
        self._consumer = consumer
        self._threads = threads
        self._faults = faults
        self._monotonic_s = monotonic_s
        self._given_up = asyncio.Event()

    def give_up(self) -> None:
        self._given_up.set()

    async def flush(self, topic: TopicState) -> None:
        """Commits everything that is buffered now.

        Where the waiting was given up it is `unwritten`, and another run reads it again. Raises StorageError, and
        MisplacedError where the topic's partitions are to be placed again.
        """
        loop = asyncio.get_running_loop()
        started_s = self._monotonic_s()
        topic_id, topic.taken_bytes, batches = topic.topic_id, topic.buffer.bytes, topic.buffer.take()
        try:
            # Asked after the batches were taken: the id is then the one that all their messages were read under.
            current_id = await self._current_id(topic.kafka_name)
            if current_id is None:
                topic.unwritten += sum(len(batch.messages) for batch in batches)
                return
            if current_id != topic_id:
                raise MisplacedError(f"{topic.kafka_name} was deleted and made again")
            appended = await loop.run_in_executor(self._threads, topic.writer.write, topic_id, batches)
        except TableBehindError as error:
            raise MisplacedError(str(error)) from error
        finally:
            topic.taken_bytes = 0
        table = {"table": topic.writer.table.spec.name}
        metrics.rows.add(appended.rows, table)
        metrics.commits.add(1, table)
        metrics.flush_duration.record(self._monotonic_s() - started_s, table)
        await self._commit_offsets(topic.kafka_name, batches)
        self._faults.reached(Point.AFTER_OFFSETS, topic.writer.table.spec.name)

    async def _current_id(self, kafka_name: str) -> str | None:
        """The topic's id now; None where the waiting was given up."""
        while not self._given_up.is_set():
            try:
                ids = await self._unless_given_up(self._ids.of([kafka_name]))
            except KafkaError as error:
                _log.warning("brokers_unreachable", topic=kafka_name, error=str(error))
            else:
                if kafka_name in ids:
                    return ids[kafka_name]
                if self._given_up.is_set():
                    return None
                _log.warning("topic_missing", topic=kafka_name)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._given_up.wait(), RETRY_S)
        return None

    async def _unless_given_up(self, asked: Coroutine[Any, Any, dict[str, str]]) -> dict[str, str]:
        """What was asked for; nothing once the waiting is given up. Raises KafkaError."""
        asking, giving_up = asyncio.ensure_future(asked), asyncio.ensure_future(self._given_up.wait())
        try:
            await asyncio.wait({asking, giving_up}, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else {}
        finally:
            asking.cancel()
            giving_up.cancel()

    async def _commit_offsets(self, kafka_name: str, batches: Sequence[PartitionBatch]) -> None:
        offsets = {TopicPartition(kafka_name, batch.partition): batch.next_offset for batch in batches}
        mine = self._consumer.assignment()
        offsets = {partition: offset for partition, offset in offsets.items() if partition in mine}
        if not offsets:
            return
        try:
            await asyncio.wait_for(self._consumer.commit(offsets), OFFSETS_PATIENCE_S)
        except (KafkaError, IllegalStateError, TimeoutError) as error:
            # The tables have the offsets that count.
            _log.info("kafka_offsets_not_committed", topic=kafka_name, error=str(error))
