"""Reads what is remembered of a partition: the compacted topics `controllers` and `policies`, to their end.

Faust's own consumer reads uncommitted records, so this one is ours and reads committed: what an aborted transaction
left is not there, and an owner reads after its producer's start has ended the transactions before it. The end is that
of the log, committed or not: somebody else's open transaction hides what stands behind it, and an owner that went on
without that would decide it again.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError
from faust.types import TP

from streams.shell.log_offsets import LogOffsets
from wire.admission import AUTHORIZATION_ERRORS
from wire.topic_places import learn_topics

READ_TIMEOUT_S = 60.0
POLL_TIMEOUT_MS = 50
"""Short, since a poll that finds nothing but the end marker of a transaction waits for all of it."""


class MemoryUnreadableError(Exception):
    """Kafka did not give the memory in time. Retryable."""


@dataclass(slots=True)
class CompactedPartition:
    """The newest message of each key of one topic's partition, tombstones left out, and the next offset to read.

    `keyless` are those without a key, which no compaction removes: somebody's mistake, or a batch that was refused.
    """

    newest: dict[bytes, ConsumerRecord] = field(default_factory=dict)
    keyless: list[ConsumerRecord] = field(default_factory=list)
    next_offset: int = 0
    _before: dict[bytes, tuple[int, ConsumerRecord | None]] = field(default_factory=dict)
    """By key the offset of its newest message, a tombstone too, and the message that this one took the place of."""

    def add(self, message: ConsumerRecord) -> None:
        if message.key is None:
            self.keyless.append(message)
            return
        self._before[message.key] = message.offset, self.newest.get(message.key)
        if message.value is None:
            self.newest.pop(message.key, None)
        else:
            self.newest[message.key] = message

    @property
    def keys(self) -> Collection[bytes]:
        """Those of all messages that the log has, deleted ones too."""
        return self._before.keys()

    def newest_offset(self, key: bytes) -> int:
        """Of the key's newest message, a tombstone too; -1 where it has none."""
        return self._before[key][0] if key in self._before else -1

    def before(self, message: ConsumerRecord) -> ConsumerRecord | None:
        """The message that the newest one of a key took the place of, as far as the log still has it."""
        offset, before = self._before.get(message.key, (-1, None))
        return before if offset == message.offset else None

    def as_of(self, offset: int) -> list[ConsumerRecord]:
        """What was the newest of each key before `offset`, as far as the log still has it and one message back."""
        found = []
        for key, (changed_at, before) in self._before.items():
            message = self.newest.get(key) if changed_at < offset else before
            if message is not None:
                found.append(message)
        return found


class MemoryReader:
    """Reads partitions of compacted topics from their beginning to their end, read committed; `offsets` tells where
    that is."""

    def __init__(self, open_consumer: Callable[..., AIOKafkaConsumer], offsets: LogOffsets) -> None:
        self._open_consumer = open_consumer
        self._offsets = offsets

    async def read(self, topics: Sequence[str], partition: int) -> dict[str, CompactedPartition]:
        """The given partition of each topic (names on the cluster). Raises MemoryUnreadableError, and one of
        AUTHORIZATION_ERRORS."""
        tps = [TopicPartition(topic, partition) for topic in topics]
        told = f"{', '.join(topics)}, partition {partition}"
        consumer = self._open_consumer(isolation_level="read_committed", auto_offset_reset="earliest")
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                await consumer.start()
                await learn_topics(consumer._client, topics)
                ends = await self._offsets.ends([TP(tp.topic, tp.partition) for tp in tps])
                return await _read_to_end(consumer, {tp: ends[TP(tp.topic, tp.partition)] for tp in tps})
        except TimeoutError as error:
            raise MemoryUnreadableError(f"{told}: not read to the end, a transaction may be open there") from error
        except AUTHORIZATION_ERRORS:
            raise
        except (KafkaError, OSError) as error:
            raise MemoryUnreadableError(f"{told}: {error!r}") from error
        finally:
            await consumer.stop()


async def _read_to_end(consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int]) -> dict[str, CompactedPartition]:
    tps = list(ends)
    firsts = await consumer.beginning_offsets(tps)
    consumer.assign(tps)
    for tp in tps:
        consumer.seek(tp, firsts[tp])
    partitions = {tp.topic: CompactedPartition() for tp in tps}
    # Positions, not records, tell the end: the last offsets of a log of transactions are control records.
    while any([await consumer.position(tp) < ends[tp] for tp in tps]):
        polled = await consumer.getmany(timeout_ms=POLL_TIMEOUT_MS)
        for tp, messages in polled.items():
            for message in messages:
                partitions[tp.topic].add(message)
    for tp in tps:
        partitions[tp.topic].next_offset = await consumer.position(tp)
    return partitions
