"""Counts what went in against what came out, with none of the code that carried it.

Kafka is read by a plain consumer (committed records only) and taken apart with the standard library and pyarrow; the
tables are read by DuckDB's delta_scan and by Polars.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from duckdb_extensions import import_extension

Identity = tuple[int, int, int]
"""Partition, offset, row."""

DEAD_LETTERS = "deadletters"
TICK_S = 5
POLL_S = 0.25


@dataclass(frozen=True)
class Message:
    partition: int
    offset: int
    value: bytes | None
    is_frame: bool

    @property
    def rows(self) -> int:
        """Rows of a frame; 1 for any other message, readable or not."""
        if not self.is_frame or self.value is None:
            return 1
        try:
            return int(pa.ipc.open_stream(self.value).read_all().num_rows)
        except pa.ArrowInvalid:
            return 1


async def read_topic(bootstrap: str, topic: str) -> list[Message]:
    """Every committed message of a topic, partition by partition in log order."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, number) for number in range(await _partition_count(bootstrap, topic))]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        found: list[Message] = []
        while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
            for partition, records in (await consumer.getmany(timeout_ms=100)).items():
                for record in records:
                    types = [value or b"" for key, value in record.headers if key == "content-type"]
                    is_frame = any(b"arrow" in value for value in types)
                    found.append(Message(partition.partition, record.offset, record.value, is_frame))
    finally:
        await consumer.stop()
    return sorted(found, key=lambda message: (message.partition, message.offset))


async def _partition_count(bootstrap: str, topic: str) -> int:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        (description,) = await admin.describe_topics([topic])
        return len(description["partitions"])
    finally:
        await admin.close()


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """Loading the extension takes a third of a second of CPU."""
    import_extension("delta")
    connection = duckdb.connect()
    connection.load_extension("delta")
    return connection


def ask(sql: str) -> list[tuple[Any, ...]]:
    """DuckDB's answer; tables are `delta_scan('FOLDER')`."""
    return _duckdb().cursor().sql(sql).fetchall()


def table_identities(folder: Path, topic: str) -> Counter[Identity]:
    """How often each message's row is in a topic's table; DuckDB and Polars must agree on it."""
    table = folder / topic.replace(".", "_")
    if not (table / "_delta_log").is_dir():
        return Counter()
    columns = ["kafka_partition", "kafka_offset", "row"]
    duck = Counter(ask(f"SELECT {', '.join(columns)} FROM delta_scan('{table}')"))
    frame = polars.scan_delta(str(table)).select(columns).collect()
    assert Counter(frame.iter_rows()) == duck, f"DuckDB and Polars read {table} differently"
    return duck


def dead_identities(folder: Path) -> dict[str, Counter[Identity]]:
    """The same of the dead letters, by the topic they came from."""
    if not (folder / DEAD_LETTERS / "_delta_log").is_dir():
        return {}
    found: defaultdict[str, Counter[Identity]] = defaultdict(Counter)
    columns = "source_topic, kafka_partition, kafka_offset, row"
    for topic, *identity in ask(f"SELECT {columns} FROM delta_scan('{folder / DEAD_LETTERS}')"):
        found[topic][(identity[0], identity[1], identity[2])] += 1
    return found


@dataclass(frozen=True)
class TopicCount:
    """Rows of one topic: in Kafka, in its table, in the dead letters."""

    sent: int
    kept: int
    dead: int


async def until(holds: Callable[[], Awaitable[object]], timeout_s: float = 120) -> None:
    """Ask until it holds: neither Kafka nor files nor tables tell when they have more."""
    async with asyncio.timeout(timeout_s):
        while not await holds():  # noqa: ASYNC110  # as said
            await asyncio.sleep(POLL_S)


async def until_kept(bootstrap: str, prefix: str, folder: Path, topics: list[str], timeout_s: float = 120) -> None:
    """Return when the last message of every partition of the topics is in its table or among the dead letters.

    Nothing may be sent meanwhile.
    """
    ends = {topic: _last_offsets(await read_topic(bootstrap, prefix + topic)) for topic in topics}

    async def are_kept() -> bool:
        return all(_reaches(folder, prefix, topic, offsets) for topic, offsets in ends.items())

    await until(are_kept, timeout_s)


def _last_offsets(messages: list[Message]) -> dict[int, int]:
    return {message.partition: message.offset for message in messages}


def _reaches(folder: Path, prefix: str, topic: str, offsets: dict[int, int]) -> bool:
    kept: dict[int, int] = {}
    for table in (topic.replace(".", "_"), DEAD_LETTERS):
        if not (folder / table / "_delta_log").is_dir():
            continue
        rows = polars.scan_delta(str(folder / table)).filter(polars.col("kafka_topic") == prefix + topic)
        found = rows.group_by("kafka_partition").agg(polars.col("kafka_offset").max()).collect()
        for partition, offset in found.iter_rows():
            kept[partition] = max(offset, kept.get(partition, -1))
    return all(kept.get(partition, -1) >= offset for partition, offset in offsets.items())


def _rows_of(message: Message, kept_messages: set[tuple[int, int]]) -> range:
    """The rows that must be somewhere; a frame of which nothing could be kept is one dead letter as a whole."""
    is_dead = message.is_frame and (message.partition, message.offset) not in kept_messages
    return range(1 if is_dead else message.rows)


async def count_everything(bootstrap: str, prefix: str, folder: Path, topics: list[str]) -> Mapping[str, TopicCount]:
    """Assert that each row of each topic is in its table or in the dead letters, once; give the counts."""
    dead = dead_identities(folder)
    counts = {}
    for topic in topics:
        messages = await read_topic(bootstrap, prefix + topic)
        kept, lost = table_identities(folder, topic), dead.get(prefix + topic, Counter())
        kept_messages = {identity[:2] for identity in kept}
        expected = Counter((m.partition, m.offset, row) for m in messages for row in _rows_of(m, kept_messages))
        assert kept + lost == expected, (
            f"{topic}: {sum(expected.values())} rows in Kafka, {sum(kept.values())} in the table, "
            f"{sum(lost.values())} dead; missing {list((expected - kept - lost).items())[:5]}, "
            f"too many {list((kept + lost - expected).items())[:5]}"
        )
        counts[topic] = TopicCount(sent=expected.total(), kept=kept.total(), dead=lost.total())
    return counts


async def until_decided(
    bootstrap: str, prefix: str, endpoints: Iterable[str], tick_s: int, timeout_s: float = 120
) -> None:
    """Return when each of the endpoints has a committed decision of this tick or of a later one."""
    topic, waiting = prefix + "decisions.scaling", set(endpoints)
    async with (
        asyncio.timeout(timeout_s),
        AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer,
    ):
        while waiting:
            decision = json.loads((await consumer.getone()).value)
            if decision["at_s"] >= tick_s:
                waiting.discard(decision["endpoint"])


async def read_decisions(bootstrap: str, prefix: str) -> dict[str, list[dict[str, Any]]]:
    """The scaling decisions of each endpoint in log order, as plain JSON objects."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for message in await read_topic(bootstrap, prefix + "decisions.scaling"):
        assert message.value is not None
        decision = json.loads(message.value)
        found[decision["endpoint"]].append(decision)
    return dict(found)


def check_ticks(decisions: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, tuple[int, int]]:
    """Assert that every tick of every endpoint is there once, or inside a `skipped`, and that the chains hold.

    Gives each endpoint's first and last tick.
    """
    spans = {}
    for endpoint, chain in decisions.items():
        previous: str | None = None
        ticks: list[int] = []
        for decision in chain:
            assert decision["previous_id"] == previous, f"{endpoint}: the chain breaks at {decision['at_s']}"
            previous = decision["decision_id"]
            skipped = decision["skipped"]
            if skipped is None:
                ticks.append(decision["at_s"])
            else:
                ticks += range(skipped["first_tick"], skipped["last_tick"] + 1, TICK_S)
        expected = list(range(ticks[0], ticks[-1] + 1, TICK_S))
        missing = sorted(set(expected) - set(ticks))
        assert ticks == expected, f"{endpoint}: ticks missing {missing[:5]}, or not once and in order"
        spans[endpoint] = (ticks[0], ticks[-1])
    return spans
