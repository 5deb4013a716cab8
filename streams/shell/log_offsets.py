"""Asks Kafka where logs begin and end, and where a time is in them, over a connection of its own.

On a consumer's connection such a question waits behind the fetch that waits for data there: half a second each.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import UnknownError
from faust.types import TP

from wire.kafka import close_consumer
from wire.topic_places import learn_topics

CLOSE_TIMEOUT_S = 3.0
STEPS_BACK_S = (0.0, 10.0, 60.0, 600.0, 3600.0)
"""How much earlier a time is looked for where a broker fails to find it: to read more is safe, and costs little."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The first offset that is still there, and the offset of the next record."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class LogRecord:
    """Where a record is, and its timestamp in UNIX seconds."""

    offset: int
    stamped_s: float


class LogOffsets:
    """`start` before anything else. Every method raises KafkaError, and takes up to the client's request timeout."""

    def __init__(self, open_consumer: Callable[..., AIOKafkaConsumer]) -> None:
        self._open_consumer = open_consumer
        self._consumer: AIOKafkaConsumer | None = None

    async def start(self) -> None:
        consumer = self._open_consumer(isolation_level="read_uncommitted")
        try:
            await consumer.start()
        except BaseException:
            await close_consumer(consumer, CLOSE_TIMEOUT_S)
            raise
        self._consumer = consumer

    async def stop(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await close_consumer(consumer, CLOSE_TIMEOUT_S)

    async def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """How many partitions each topic has now (names on the cluster); 0: there is no such topic."""
        cluster = await self._ask._client.fetch_all_metadata()
        return {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}

    async def ends(self, tps: Collection[TP]) -> dict[TP, int]:
        ends = await (await self._asked(tps)).end_offsets(_plain(tps)) if tps else {}
        return {TP(tp.topic, tp.partition): offset for tp, offset in ends.items()}

    async def bounds(self, tps: Collection[TP]) -> dict[TP, LogBounds]:
        firsts = await (await self._asked(tps)).beginning_offsets(_plain(tps))
        ends = await self.ends(tps)
        return {tp: LogBounds(firsts[TopicPartition(tp.topic, tp.partition)], ends[tp]) for tp in tps}

    async def records_at(self, times_s: Mapping[TP, float]) -> dict[TP, LogRecord]:
        """Of each partition the first record stamped at or after the given UNIX seconds; absent where none is.

        A broker that looks for a time decompresses the batch that holds it, and fails where that cannot be done: then
        it is a record before, or the log's first one.
        """
        if not times_s:
            return {}
        try:
            return await self._records_at(times_s)
        except UnknownError:
            found = {tp: await self._record_before(tp, at_s) for tp, at_s in times_s.items()}
            return {tp: record for tp, record in found.items() if record is not None}

    async def _record_before(self, tp: TP, at_s: float) -> LogRecord | None:
        for step_s in STEPS_BACK_S:
            with suppress(UnknownError):
                return (await self._records_at({tp: at_s - step_s})).get(tp)
        return LogRecord((await self.bounds([tp]))[tp].first, at_s)

    async def _records_at(self, times_s: Mapping[TP, float]) -> dict[TP, LogRecord]:
        found = await (await self._asked(times_s)).offsets_for_times(
            {TopicPartition(tp.topic, tp.partition): max(0, int(at_s * 1000)) for tp, at_s in times_s.items()}
        )
        return {
            TP(tp.topic, tp.partition): LogRecord(at.offset, at.timestamp / 1000)
            for tp, at in found.items()
            if at is not None
        }

    async def _asked(self, tps: Collection[TP]) -> AIOKafkaConsumer:
        """The consumer, once it knows where these partitions are."""
        await learn_topics(self._ask._client, {tp.topic for tp in tps})
        return self._ask

    @property
    def _ask(self) -> AIOKafkaConsumer:
        assert self._consumer is not None, "start() comes first"
        return self._consumer


def _plain(tps: Collection[TP]) -> list[TopicPartition]:
    return [TopicPartition(tp.topic, tp.partition) for tp in tps]
