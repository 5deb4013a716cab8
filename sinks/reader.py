"""Reads topics in a consumer group, from where the tables end, whatever Kafka's own committed offsets say."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError

from sinks.errors import SourceError

POLL_MS = 200
POLL_RECORDS_MAX = 10_000
RETRY_S = 0.5
AHEAD_PATIENCE_S = 30.0
"""How long a topic may hold less than its table before that counts as lost: a broker that starts needs a moment."""

_log = structlog.get_logger("headrace.sinks")


@dataclass(frozen=True, kw_only=True)
class TableEnd:
    """The first offset that a table lacks of a partition, in the topic's incarnation `topic_id`."""

    topic_id: str
    next_offset: int


@dataclass(frozen=True, kw_only=True)
class Place:
    """One partition's start: the table has everything below `base_offset`, reading starts at `position`.

    They differ where the topic has deleted records in between. `end_offset` is the end of what is committed.
    """

    partition: TopicPartition
    topic_id: str
    base_offset: int
    position: int
    end_offset: int

    @property
    def lost(self) -> int:
        """Offsets that the table lacks and the topic no longer has; 0 for a table that has nothing yet."""
        return self.position - self.base_offset if self.base_offset else 0

    @property
    def ahead(self) -> bool:
        """The table has more than the topic: Kafka lost records, or it is another cluster's topic."""
        return self.base_offset > self.end_offset


@dataclass(frozen=True, kw_only=True)
class Polled:
    """What one poll brought of one partition: messages (maybe none), the position after them, the known end."""

    partition: TopicPartition
    messages: list[ConsumerRecord]
    position: int
    end_offset: int


class TopicMissingError(Exception):
    """A topic was deleted; it may be made again."""


class Shelf(Protocol):
    """Where the messages go. `begin` and `release` are not called while polled messages are under way."""

    async def table_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TableEnd]:
        """Where the tables end. Raises KafkaError, or TopicMissingError, to be asked again."""
        ...

    def begin(self, places: Iterable[Place]) -> None:
        """Messages of these partitions follow, from their positions on; what was kept of them before is void.

        The partitions of one topic that are read at all are in it together.
        """
        ...

    async def release(self) -> None:
        """All partitions go to others, at once: write what can be written soon, forget the rest."""
        ...


class TableReader(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no annotations that mypy may read
    """Polls `consumer`, started and not subscribed yet, made with `auto_offset_reset="none"`.

    A rebalance ends the poll under way and drops what it found, before anything else happens; afterwards every
    partition is sought to its place. So a poll's messages always follow those of the poll before.
    """

    def __init__(self, consumer: AIOKafkaConsumer, shelf: Shelf, monotonic_s: Callable[[], float]) -> None:
        self._consumer = consumer
        self._shelf = shelf
        self._monotonic_s = monotonic_s
        self._placed: dict[TopicPartition, Place] = {}
        self._misplaced: set[TopicPartition] = set()
        self._settled = asyncio.Event()
        self._poll: asyncio.Task[dict[TopicPartition, list[ConsumerRecord]]] | None = None
        self._failure: Exception | None = None
        self._ended = False

    @property
    def placed(self) -> frozenset[TopicPartition]:
        return frozenset(self._placed)

    @property
    def settled(self) -> bool:
        """A member of the group, with every partition in its place."""
        return self._settled.is_set() and not self._misplaced

    def subscribe(self, topics: Iterable[str]) -> None:
        self._consumer.subscribe(topics=list(topics), listener=self)

    def end(self) -> None:
        """Whatever waits for brokers, or for the group, stops waiting; nothing more is read."""
        self._ended = True
        self._drop_poll()

    def misplace(self, topic: str) -> None:
        """All partitions of a topic are placed again before the next poll."""
        self._misplaced |= {partition for partition in self._placed if partition.topic == topic}

    async def poll(self) -> list[Polled]:
        """One entry for each placed partition; empty where a rebalance is under way.

        Returns within a second, but for a placing that waits for brokers; `end()` ends it.

        Raises SourceError, StorageError, KafkaError where it does not help to poll again.
        """
        if self._failure is not None:
            raise self._failure
        if self._ended:
            return []
        if not self._settled.is_set():
            await self._unsettled()
            return []
        if self._misplaced:
            await self._place(self._misplaced & self._placed.keys())
            return []
        messages = await self._fetched()
        return [] if messages is None else await self._with_positions(messages)

    async def _unsettled(self) -> None:
        """aiokafka tells what is wrong with the group to those alone who poll, which has to wait for the placing."""
        try:
            self._consumer._coordinator.check_errors()
        except KafkaError as error:
            await self._pass_over(error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), POLL_MS / 1000)

    async def _pass_over(self, error: KafkaError) -> None:
        """Raise it, unless it helps to poll again after a while."""
        if not error.retriable:
            raise error
        _log.warning("poll_failed", error=f"{type(error).__name__}: {error}")
        await asyncio.sleep(RETRY_S)

    async def _fetched(self) -> Mapping[TopicPartition, list[ConsumerRecord]] | None:
        poll = asyncio.ensure_future(self._consumer.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS_MAX))
        self._poll = poll
        await asyncio.wait({poll}, timeout=1.0)
        if not poll.done() or self._poll is not poll:
            # Not done: the consumer rejoins its group. Dropped: a rebalance took the partitions away.
            self._drop_poll()
            return None
        self._poll = None
        try:
            return poll.result()
        except OffsetOutOfRangeError as error:
            for partition in error.args[0]:
                self.misplace(partition.topic)
        except NoOffsetForPartitionError:
            # Asked for between the assignment and our seek, which has answered it.
            return None
        except KafkaError as error:
            await self._pass_over(error)
        return None

    async def _with_positions(self, messages: Mapping[TopicPartition, list[ConsumerRecord]]) -> list[Polled]:
        # Nothing here gives way to another task: every placed partition has a position.
        return [
            Polled(
                partition=partition,
                messages=messages.get(partition, []),
                position=await self._consumer.position(partition),
                end_offset=max(place.end_offset, self._consumer.last_stable_offset(partition) or 0),
            )
            for partition, place in self._placed.items()
        ]

    async def ends(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Positions and ends of all placed partitions, asked from brokers; nothing where a rebalance is under way.

        Raises KafkaError.
        """
        ends = await self._consumer.end_offsets(list(self._placed))
        if not self.settled:
            return {}, {}
        return {partition: await self._consumer.position(partition) for partition in self._placed}, ends

    def _drop_poll(self) -> None:
        if self._poll is not None:
            self._poll.cancel()
            self._poll.add_done_callback(lambda poll: poll.cancelled() or poll.exception())
            self._poll = None

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._settled.clear()
        self._drop_poll()
        try:
            await self._shelf.release()
        except Exception as error:
            self._failure = error
        self._placed.clear()
        self._misplaced.clear()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._drop_poll()
        try:
            await self._place(set(assigned))
        except Exception as error:
            self._failure = error
        self._settled.set()
        _log.info("partitions_assigned", partitions=len(self._placed))

    async def _place(self, partitions: set[TopicPartition]) -> None:
        """Seeks each to where its table ends. Raises SourceError, StorageError."""
        deadline_s = self._monotonic_s() + AHEAD_PATIENCE_S
        while partitions and not self._ended:
            places = await self._find(partitions)
            ahead = [place for place in places if place.ahead]
            if not ahead and places:
                self._begin(places)
                return
            if ahead and self._monotonic_s() > deadline_s:
                raise SourceError(_tell_ahead(ahead[0]))
            await asyncio.sleep(RETRY_S)

    async def _find(self, partitions: set[TopicPartition]) -> list[Place]:
        """The places now; empty where brokers do not answer, or a topic is not there."""
        try:
            table_ends = await self._shelf.table_ends(partitions)
            beginnings = await self._consumer.beginning_offsets(list(partitions))
            ends = await self._consumer.end_offsets(list(partitions))
        except (KafkaError, TopicMissingError) as error:
            _log.warning("places_unknown", error=str(error))
            return []
        return [
            Place(
                partition=partition,
                topic_id=end.topic_id,
                base_offset=end.next_offset,
                position=max(end.next_offset, beginnings[partition]),
                end_offset=ends[partition],
            )
            for partition, end in table_ends.items()
        ]

    def _begin(self, places: list[Place]) -> None:
        assigned = self._consumer.assignment()
        places = [place for place in places if place.partition in assigned]
        for place in places:
            self._consumer.seek(place.partition, place.position)
            self._placed[place.partition] = place
            self._misplaced.discard(place.partition)
        self._placed = {partition: place for partition, place in self._placed.items() if partition in assigned}
        self._shelf.begin(places)


def _tell_ahead(place: Place) -> str:
    topic, partition = place.partition
    return (
        f"partition {partition} of {topic} ends at offset {place.end_offset}, but its table has it up to "
        f"{place.base_offset - 1}: Kafka lost records, or these tables belong to another cluster"
    )
