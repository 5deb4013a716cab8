"""Faust's Kafka consumer, taught to hand over one event per partition and poll, and to start reading where we say.

Stock Faust pays tasks and futures for every message; here an event is a whole poll of one partition (`PolledBatch`).
Where a partition is read from is decided by its owner alone (`rewind`), never by the offsets committed to Kafka:
those are written for lag tools, from what the owner's transactions cover. The overridden methods belong to a pinned
release; tests/worker/test_faust_pin.py fails when one of them changes.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.errors import KafkaError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from streams.shell.consumer_thread import POLL_LIMITS, ConsumerThread
from streams.shell.fetch_times import FetchTimes
from streams.shell.fetch_waits import FetchWaits
from streams.shell.fetched import Polled, PollLimits
from streams.shell.unread_batches import UnreadBatches
from wire.admission import AUTHORIZATION_ERRORS
from wire.batches import Message

POLL_TIMEOUT_S = 0.25
"""Longest wait of one poll: a rewind waits for the poll in flight, so this bounds it (Faust's own is 1 s)."""

POLL_PAUSE_S = 0.02
"""After a poll that brought something. What a poll costs hardly depends on how many messages it brings: some 0.4 ms a
partition. Without a pause, twelve partitions keep a worker busy with a few messages each, and its transactions, which
need some thirty turns of the event loop, wait for a poll's work at every turn. One that brought FULL found a backlog,
and is followed by the next at once: 4 MiB each 20 ms would be all that is ever read.
"""
FULL = PollLimits(messages=POLL_LIMITS.messages // 2, size=POLL_LIMITS.size // 2)


@dataclass(frozen=True, slots=True)
class PolledBatch:
    """What one poll brought of one topic's partition, in log order; `size` in bytes of the messages' values.

    `session` numbers the owner's rewinds of the partition: a batch of an older one was read from a position that no
    longer counts, and is left unread.
    """

    session: int
    messages: list[Message]
    size: int


@dataclass(frozen=True, slots=True)
class ReadState:
    """How far one topic's partition has been read: `position` is the next offset, `end` the log's end as a fetch showed
    it that was asked for at `asked_s`, UNIX seconds, or later; null before the first fetch."""

    position: int | None
    end: int | None
    asked_s: float | None

    @property
    def at_end(self) -> bool:
        return self.position is not None and self.end is not None and self.position >= self.end

    @property
    def unread(self) -> int | None:
        return None if self.position is None or self.end is None else max(0, self.end - self.position)


class PartitionHost(Protocol):
    """Whoever owns the partitions: told what is assigned, asked what may be committed."""

    def partitions_assigned(self, partitions: frozenset[TP]) -> None: ...

    def refused(self, error: KafkaError) -> None:
        """Kafka does not allow us to read; no other try cures that."""

    def settled_offset(self, tp: TP) -> int | None:
        """The next offset of `tp` that the committed transactions do not cover; null: none is known."""


class BatchingConsumer(driver.Consumer):
    """One event per partition and poll; positions by the partitions' owners. See the module's text."""

    mundane_level = "debug"

    def __init__(
        self,
        *args: Any,
        host: PartitionHost,
        open_consumer: Callable[[Any], AIOKafkaConsumer],
        clock: Callable[[], float],
        **kwargs: Any,
    ) -> None:
        self.host = host
        self.open_consumer = open_consumer
        self.fetch_times = FetchTimes(clock)
        self.fetch_waits = FetchWaits()
        self._sessions: dict[int, int] = {}
        self._sessions_begun = 0
        self._unread = UnreadBatches()
        self._positions: dict[TP, int] = {}
        self._polling = asyncio.Lock()
        self._pauses = False
        super().__init__(*args, **kwargs)

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def verify_all_partitions_active(self) -> None:
        """Faust would call a partition stuck whose offsets it did not commit: they are its owner's, and the worker's
        watchdog looks at progress."""

    @property
    def _reader(self) -> ConsumerThread:
        return cast(ConsumerThread, self._thread)

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> dict[TP, list[Any]]:  # noqa: ASYNC109  # Faust's
        if not await self._unread.wait_for_room(POLL_TIMEOUT_S):
            return {}
        if self._pauses:
            await asyncio.sleep(POLL_PAUSE_S)
        async with self._polling:
            try:
                records = await super()._getmany(active_partitions, min(timeout, POLL_TIMEOUT_S))
            except AUTHORIZATION_ERRORS as error:
                self.host.refused(error)
                await asyncio.sleep(POLL_TIMEOUT_S)
                return {}
            # Between polls alone: during one, the thread's own positions are ahead of what was handed over.
            self._positions = self._reader.positions()
            self._pauses = bool(records) and not _is_full([polled for (polled,) in records.values()])
            return {tp: [self._as_event(tp, polled)] for tp, (polled,) in records.items() if self._is_read(tp)}

    def _is_read(self, tp: TP) -> bool:
        return tp.partition in self._sessions

    def _as_event(self, tp: TP, polled: Polled) -> ConsumerRecord:
        last = polled.messages[-1]
        self._unread.add(tp, polled.size)
        return ConsumerRecord(
            topic=tp.topic,
            partition=tp.partition,
            offset=last.offset,
            timestamp=last.timestamp,
            timestamp_type=0,
            key=None,
            value=PolledBatch(self._sessions[tp.partition], polled.messages, polled.size),
            checksum=None,
            serialized_key_size=0,
            serialized_value_size=0,
            headers=(),
        )

    async def _wait_next_records(self, timeout: float) -> tuple[Any, Any]:  # noqa: ASYNC109  # Faust's
        records, active = await super()._wait_next_records(timeout)
        # While the flow is stopped (a rebalance, the end), stock code seeks back to the committed offsets. Here the
        # records are left: whoever owns the partition next says where reading starts.
        return (records if self.flow_active else None), active

    async def perform_seek(self) -> None:
        """Called once after each rebalance, before the flow is resumed."""
        await super().perform_seek()
        self.host.partitions_assigned(frozenset(TP(tp.topic, tp.partition) for tp in self.assignment()))

    def batch_read(self, tp: TP, session: int) -> bool:
        """Account for a batch taken by an agent; whether it belongs to the partition's current session."""
        if self._sessions.get(tp.partition) != session:
            return False
        self._unread.take(tp)
        return True

    async def rewind(self, partition: int, offsets: Mapping[TP, int]) -> int:
        """Read `partition` from these offsets on, in a new session whose number is returned."""
        async with self._polling:
            await self._reader.call_thread(self._reader.seek_all, offsets)
            self._sessions_begun += 1
            self._sessions[partition] = self._sessions_begun
            self.resume_partitions(offsets)
            for tp, offset in offsets.items():
                self._unread.clear(tp)
                self._positions[tp] = offset
                self._read_offset[tp] = offset or None
                self._committed_offset[tp] = None
            return self._sessions_begun

    def forget(self, partition: int) -> None:
        """Hand over nothing of this partition until it is rewound again."""
        self._sessions.pop(partition, None)
        self._unread.clear_partition(partition)

    def unread_batches(self, tp: TP) -> int:
        """How many batches of the current session are on their way to an agent."""
        return self._unread.count(tp)

    def read_state(self, tp: TP) -> ReadState:
        # Before the end, which may so be that of a later fetch, and never of an earlier one.
        asked_s = self.fetch_times.asked_s(tp)
        return ReadState(self._positions.get(tp), self._reader.end(tp), asked_s)

    async def commit_or_raise(self, offsets: Mapping[TP, int]) -> None:
        """Commit, raising KafkaError where the partition is not assigned or the broker refuses: it takes commits of
        members of the group's current generation only."""
        await self._reader.call_thread(self._reader.commit_or_raise, offsets)

    async def check_group(self) -> None:
        """Raise the KafkaError for which the group's coordinator waits to be asked; Faust never does."""
        if self._reader.is_group_in_error():
            await self._reader.call_thread(self._reader.check_group)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Offsets between two batches need no book-keeping: what is committed comes from the owner."""

    def _new_offset(self, tp: TP) -> int | None:
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return self.host.settled_offset(tp)


def _is_full(found: Collection[Polled]) -> bool:
    messages = sum(len(polled.messages) for polled in found)
    return messages >= FULL.messages or sum(polled.size for polled in found) >= FULL.size
