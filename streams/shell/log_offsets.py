"""Asks Kafka where logs begin and end, and where a time is in them, over a connection of its own.

On a consumer's connection such a question waits behind the fetch that waits for data there: half a second each.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from faust.types import TP


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
            await consumer.stop()
            raise
        self._consumer = consumer

    async def stop(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def check_answers(self) -> None:
        """Raise KafkaError unless Kafka answers."""
        await self._ask.topics()

    async def ends(self, tps: Collection[TP]) -> dict[TP, int]:
        ends = await self._ask.end_offsets(_plain(tps)) if tps else {}
        return {TP(tp.topic, tp.partition): offset for tp, offset in ends.items()}

    async def bounds(self, tps: Collection[TP]) -> dict[TP, LogBounds]:
        firsts = await self._ask.beginning_offsets(_plain(tps))
        ends = await self.ends(tps)
        return {tp: LogBounds(firsts[TopicPartition(tp.topic, tp.partition)], ends[tp]) for tp in tps}

    async def records_at(self, times_s: Mapping[TP, float]) -> dict[TP, LogRecord]:
        """Of each partition the first record stamped at or after the given UNIX seconds; absent where none is."""
        if not times_s:
            return {}
        found = await self._ask.offsets_for_times(
            {TopicPartition(tp.topic, tp.partition): max(0, int(at_s * 1000)) for tp, at_s in times_s.items()}
        )
        return {
            TP(tp.topic, tp.partition): LogRecord(at.offset, at.timestamp / 1000)
            for tp, at in found.items()
            if at is not None
        }

    @property
    def _ask(self) -> AIOKafkaConsumer:
        assert self._consumer is not None, "start() comes first"
        return self._consumer


def _plain(tps: Collection[TP]) -> list[TopicPartition]:
    return [TopicPartition(tp.topic, tp.partition) for tp in tps]
