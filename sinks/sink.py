"""Keeps topics in Delta tables, each record once, whatever is killed when.

One consumer of a group reads all topics (committed records only) and keeps the messages as they came. A topic is
decoded and written in a thread when the rules say so, one commit for all its partitions. Reading starts where the
tables' logs say; Kafka's committed offsets follow only for tools that show lag.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from types import MappingProxyType

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from sinks import metrics
from sinks.buffers import FlushRules
from sinks.delta_table import AppendTable
from sinks.errors import SourceError, StuckError
from sinks.faults import Faults, NoFaults
from sinks.flusher import Flusher, MisplacedError, TopicState
from sinks.reader import Place, Polled, TableEnd, TableReader, TopicMissingError
from sinks.root import TableRoot
from sinks.rows import table_spec
from sinks.topic_ids import TopicIds
from sinks.topic_writer import TopicWriter
from wire.delta_schemas import DEAD_LETTERS
from wire.kafka import KafkaAccess, close_consumer, open_consumer
from wire.stalls import StallDetector
from wire.topics import TOPICS, TopicNames

REVOKE_PATIENCE_S = 5.0
"""How long a rebalance waits for flushes. One that takes longer goes on and does no harm: the tables sort it out."""
STOP_PATIENCE_S = 20.0
CLOSE_PATIENCE_S = 5.0
STUCK_AFTER_S = 120.0
WATCH_EVERY_S = 15.0

CONSUMER_OPTIONS: Mapping[str, object] = MappingProxyType(
    {
        "auto_offset_reset": "none",
        "fetch_max_bytes": 16 * 1024 * 1024,
        "max_partition_fetch_bytes": 1024 * 1024,
        "metadata_max_age_ms": 10_000,
    }
)
"""`fetch_max_bytes` is what the consumer holds besides our buffers; a larger message comes all the same, alone. After
`metadata_max_age_ms` a topic that was deleted and made again is noticed."""

_log = structlog.get_logger("headrace.sinks")


@dataclass(frozen=True, kw_only=True)
class SinkPlan:
    """What to keep and where. `topics` are logical names; sinks of one `group` share the partitions.

    `threads` decode and write, each one topic at a time. `session_s`: a sink that is killed is missed after it.
    `monotonic_s` gives seconds that never go back, for time-outs and the age of what is buffered.
    """

    access: KafkaAccess
    root: TableRoot
    monotonic_s: Callable[[], float]
    names: TopicNames = field(default_factory=TopicNames)
    topics: tuple[str, ...] = tuple(TOPICS)
    group: str = "headrace-sink"
    rules: FlushRules = field(default_factory=FlushRules)
    threads: int = 2
    session_s: float = 10.0
    faults: Faults = field(default_factory=NoFaults)


class DeltaSink:
    """One sink: `run` does everything, once."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan
        self._give_up = Event()
        self._dead_letters = self._table(DEAD_LETTERS)
        self._topics = {plan.names.real(topic): self._topic(topic) for topic in plan.topics}
        self._threads = ThreadPoolExecutor(plan.threads, thread_name_prefix="flush")
        self._ids = TopicIds(plan.access)
        self._reader: TableReader | None = None
        self._flusher: Flusher | None = None
        self._paused = False
        self._failure: Exception | None = None
        self._lag: int | None = None

    def _table(self, name: str) -> AppendTable:
        return AppendTable(self._plan.root, table_spec(name), self._plan.faults, give_up=self._give_up)

    def _topic(self, topic: str) -> TopicState:
        writer = TopicWriter(topic, self._table(topic), self._dead_letters, self._plan.faults)
        return TopicState(kafka_name=self._plan.names.real(topic), writer=writer)

    @property
    def partitions(self) -> int:
        """How many partitions this sink reads now."""
        return 0 if self._reader is None else len(self._reader.placed)

    @property
    def lag(self) -> int | None:
        """Offsets that were not read yet, over this sink's partitions; None while these are not assigned."""
        return self._lag if self._reader is not None and self._reader.settled else None

    async def run(self, stop: asyncio.Event) -> None:
        """Reads and writes until `stop` is set, then writes what was read and leaves.

        Raises StorageError, SourceError, StuckError, and aiokafka's KafkaError where no broker answers at the start.
        Nothing is lost by any of them: another run goes on from the tables.
        """
        metrics.begin_at_zero([table.spec.name for table in self._tables], self._topics)
        try:
            await asyncio.to_thread(self._ensure_tables)
            async with self._ids:
                await self._check_topics()
                await self._read_and_write(stop)
        finally:
            self._give_up.set()
            await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    @property
    def _tables(self) -> tuple[AppendTable, ...]:
        return (self._dead_letters, *(topic.writer.table for topic in self._topics.values()))

    def _ensure_tables(self) -> None:
        for table in self._tables:
            table.ensure()

    async def _check_topics(self) -> None:
        known = await self._ids.of(self._topics)
        missing = [name for name in self._topics if name not in known]
        if missing:
            raise SourceError(f"topics are missing: {', '.join(missing)} (hint: headrace topics create)")

    async def _read_and_write(self, stop: asyncio.Event) -> None:
        session_ms = int(self._plan.session_s * 1000)
        consumer = open_consumer(
            self._plan.access,
            group_id=self._plan.group,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 4,
            **CONSUMER_OPTIONS,
        )
        self._reader = reader = TableReader(consumer, self, self._plan.monotonic_s)
        self._flusher = flusher = Flusher(self._ids, consumer, self._threads, self._plan.faults, self._plan.monotonic_s)
        beside = [asyncio.create_task(self._watch_progress(reader)), asyncio.create_task(_end_after(stop, reader))]
        try:
            await consumer.start()
            reader.subscribe(self._topics)
            while not stop.is_set() and self._failure is None:
                self._keep(await reader.poll())
                self._throttle(consumer)
                self._start_flushes()
            if self._failure is not None:
                raise self._failure
            await self._flush_everything(STOP_PATIENCE_S)
        finally:
            for task in beside:
                task.cancel()
            reader.end()
            flusher.give_up()
            if not await close_consumer(consumer, CLOSE_PATIENCE_S):
                _log.info("consumer_not_closed_cleanly")
            await self._tell_unwritten()
        if self._failure is not None:
            raise self._failure

    async def _watch_progress(self, reader: TableReader) -> None:
        detector: StallDetector[TopicPartition] = StallDetector(STUCK_AFTER_S)
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            try:
                positions, ends = await reader.ends()
            except KafkaError as error:
                _log.warning("ends_unknown", error=str(error))
                continue
            if self._paused:
                positions = {}
            stuck = detector.stalled(self._plan.monotonic_s(), positions, ends)
            if stuck:
                topic, partition = stuck[0]
                told = f"nothing was read of partition {partition} of {topic} for {STUCK_AFTER_S:g} s, and it has more"
                self._failure = self._failure or StuckError(told)

    def _keep(self, polled: list[Polled]) -> None:
        now_s = self._plan.monotonic_s()
        for part in polled:
            buffer = self._topics[part.partition.topic].buffer
            buffer.add(part.partition.partition, part.messages, part.position, now_s)
        if polled:
            self._lag = sum(max(0, part.end_offset - part.position) for part in polled)
            metrics.lag_offsets.set(self._lag)
            metrics.buffered_bytes.set(self.buffered_bytes)

    @property
    def buffered_bytes(self) -> int:
        """Read and not committed yet: at most `memory_bytes_max` and one poll more."""
        return sum(topic.bytes for topic in self._topics.values())

    def _throttle(self, consumer: AIOKafkaConsumer) -> None:
        """Above the memory limit nothing more is read until half of it is committed."""
        limit = self._plan.rules.memory_bytes_max
        if not self._paused and self.buffered_bytes >= limit:
            consumer.pause(*consumer.assignment())
            self._paused = True
            _log.info("reading_paused", bytes=self.buffered_bytes)
        elif self._paused and self.buffered_bytes <= limit // 2:
            consumer.resume(*consumer.assignment())
            self._paused = False
            _log.info("reading_resumed", bytes=self.buffered_bytes)

    def _start_flushes(self) -> None:
        now_s = self._plan.monotonic_s()
        for topic in self._topics.values():
            due = topic.buffer.due(self._plan.rules, now_s) or (self._paused and topic.buffer.messages > 0)
            if due and topic.flush is None:
                self._start_flush(topic)

    def _start_flush(self, topic: TopicState) -> asyncio.Task[None]:
        topic.flush = asyncio.create_task(self._flush(topic))
        return topic.flush

    async def _flush(self, topic: TopicState) -> None:
        assert self._flusher is not None, "flushes begin after it is made"
        try:
            await self._flusher.flush(topic)
        except MisplacedError as error:
            _log.warning("topic_read_again", topic=topic.kafka_name, why=str(error))
            if self._reader is not None:
                self._reader.misplace(topic.kafka_name)
        except Exception as error:
            self._failure = self._failure or error
        finally:
            topic.flush = None

    async def _flush_everything(self, patience_s: float) -> None:
        """Waits for flushes under way, then writes the rest; what is not done in time is left to run."""
        tasks = [asyncio.create_task(self._flush_rest(topic)) for topic in self._topics.values()]
        _, late = await asyncio.wait(tasks, timeout=patience_s)
        for task in late:
            task.cancel()

    async def _tell_unwritten(self) -> None:
        """What was read and is in no table, once no flush waits any more: another run reads it again."""
        self._give_up.set()  # else a commit that the storage refuses is tried for a minute
        await asyncio.gather(*[topic.flush for topic in self._topics.values() if topic.flush is not None])
        unwritten = sum(topic.unwritten + topic.buffer.messages for topic in self._topics.values())
        if unwritten:
            _log.warning("messages_left_unwritten", messages=unwritten, why="read again by the next run")

    async def _flush_rest(self, topic: TopicState) -> None:
        if topic.flush is not None:
            await asyncio.wait({topic.flush})
        if topic.buffer.messages and self._failure is None:
            await asyncio.wait({self._start_flush(topic)})

    async def table_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TableEnd]:
        """See reader.Shelf. Raises KafkaError, TopicMissingError, StorageError."""
        grouped: dict[str, list[int]] = {}
        for name, number in partitions:
            grouped.setdefault(name, []).append(number)
        ids = await self._ids.of(grouped)
        missing = grouped.keys() - ids.keys()
        if missing:
            raise TopicMissingError(", ".join(sorted(missing)))
        ends = {}
        for name, numbers in grouped.items():
            offsets = await asyncio.to_thread(self._topics[name].writer.next_offsets, ids[name], numbers)
            for number, offset in offsets.items():
                ends[TopicPartition(name, number)] = TableEnd(topic_id=ids[name], next_offset=offset)
        return ends

    def begin(self, places: Iterable[Place]) -> None:
        """See reader.Shelf."""
        for place in places:
            name, partition = place.partition
            topic = self._topics[name]
            topic.topic_id = place.topic_id
            topic.buffer.place(partition, place.base_offset)
            if place.lost:
                metrics.lost_offsets.add(place.lost, {"topic": name})
                _log.error("offsets_lost", topic=name, partition=partition, first=place.base_offset, count=place.lost)

    async def release(self) -> None:
        """See reader.Shelf."""
        await self._flush_everything(REVOKE_PATIENCE_S)
        for topic in self._topics.values():
            topic.buffer.clear()
        self._paused = False  # the next assignment begins with nothing paused


async def _end_after(stop: asyncio.Event, reader: TableReader) -> None:
    """A reader that waits for brokers would not notice by itself."""
    await stop.wait()
    reader.end()
