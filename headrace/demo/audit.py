"""Counts what went into Kafka against what is in the tables, each row by its topic, partition, offset and number."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka import TopicPartition

from sinks.catalog import query
from sinks.root import TableRoot, table_name
from wire.batches import DecodedBatch, FrameRun, JsonRun, Tombstone, decode_batch
from wire.delta_schemas import DEAD_LETTERS
from wire.kafka import KafkaAccess, open_admin, open_consumer, started
from wire.topics import TOPICS, TopicNames

Identity = tuple[int, int, int]
"""Partition, offset, row."""

POLL_MS = 200
_IDENTITY = "kafka_partition, kafka_offset, row"


@dataclass(frozen=True, kw_only=True)
class Sent:
    """All committed rows of one topic: those that decode, and those that are dead letters."""

    good: Counter[Identity] = field(default_factory=Counter)
    bad: Counter[Identity] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class TopicAudit:
    """Rows of one topic. `missing` are neither in the table nor dead letters, `extra` are there too often or unsent."""

    topic: str
    sent: int
    decoded: int
    kept: int
    dead: int
    missing: int
    extra: int

    @property
    def is_exact(self) -> bool:
        """Each row that was sent is there once: in the table if it decodes, else among the dead letters."""
        return self.missing == 0 and self.extra == 0


async def read_sent(access: KafkaAccess, names: TopicNames) -> dict[str, Sent]:
    """Read every topic from its beginning to its end, by logical name. Raises aiokafka's KafkaError."""
    sent = {topic: Sent() for topic in TOPICS}
    async with started(open_admin(access)) as admin:
        described = await admin.describe_topics([names.real(topic) for topic in TOPICS])
    partitions = [TopicPartition(one["topic"], part["partition"]) for one in described for part in one["partitions"]]
    async with started(open_consumer(access)) as consumer:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            for partition, messages in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                topic = names.logical(partition.topic)
                _add(sent[topic], decode_batch(topic, partition.partition, messages))
    return sent


def _add(sent: Sent, decoded: DecodedBatch) -> None:
    for run in decoded.runs:
        match run:
            case JsonRun(offsets=offsets):
                sent.good.update((decoded.partition, offset, 0) for offset in offsets.tolist())
            case FrameRun(offset=offset, rows=rows):
                sent.good.update((decoded.partition, offset, row) for row in rows.tolist())
            case Tombstone(offset=offset):
                sent.good[decoded.partition, offset, 0] += 1
    sent.bad.update((decoded.partition, letter.offset, letter.row) for letter in decoded.errors)


def audit(sent: Mapping[str, Sent], names: TopicNames, root: TableRoot) -> list[TopicAudit]:
    """Compare with the tables as they are now; blocking. Raises StorageError where they cannot be read."""
    letters = query(root, f"SELECT kafka_topic, {_IDENTITY} FROM {DEAD_LETTERS}").to_pylist()
    dead: dict[str, Counter[Identity]] = {}
    for letter in letters:
        dead.setdefault(letter["kafka_topic"], Counter())[_identity(letter)] += 1
    found = []
    for topic, rows in sent.items():
        kept = _counted(query(root, f"SELECT {_IDENTITY} FROM {table_name(topic)}").to_pylist())
        lost = dead.get(names.real(topic), Counter())
        found.append(_compare(topic, rows, kept, lost))
    return found


def _compare(topic: str, sent: Sent, kept: Counter[Identity], dead: Counter[Identity]) -> TopicAudit:
    return TopicAudit(
        topic=topic,
        sent=sent.good.total() + sent.bad.total(),
        decoded=sent.good.total(),
        kept=kept.total(),
        dead=dead.total(),
        missing=(sent.good - kept).total() + (sent.bad - dead).total(),
        extra=(kept - sent.good).total() + (dead - sent.bad).total(),
    )


def _counted(rows: Iterable[Mapping[str, Any]]) -> Counter[Identity]:
    return Counter(_identity(row) for row in rows)


def _identity(row: Mapping[str, Any]) -> Identity:
    return row["kafka_partition"], row["kafka_offset"], row["row"]
