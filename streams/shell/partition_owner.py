"""Owns one partition: takes it over, feeds its ticks' source, writes the ticks in transactions, gives it back.

The order is what makes ticks exactly once. Taking over: start the producer (this fences the owner before), read what is
remembered to its end, rewind the telemetry, tick. Whatever fails on the way or in a transaction, the partition is taken
over anew: the log alone knows which transaction was committed, and memory and windows are rebuilt from it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog
from aiokafka.errors import KafkaError
from faust.types import TP

from streams.endpoints.effects import ControllerSize
from streams.endpoints.ticks import CATCH_UP_S
from streams.shell.backlog_skip import skip_backlog
from streams.shell.batching_consumer import PolledBatch
from streams.shell.fault_points import FaultPoint
from streams.shell.inputs import INPUT_TOPICS, MEMORY_TOPICS
from streams.shell.memory_reader import MemoryUnreadableError
from streams.shell.merge_order import MergeOrder
from streams.shell.outgoing import transaction_records
from streams.shell.overload import OverloadWatch
from streams.shell.owner_ports import OwnerPorts, OwnerState
from streams.shell.owner_times import OwnerTimes
from streams.shell.read_progress import ReadProgress
from streams.shell.start_offsets import start_offsets
from streams.shell.tick_outbox import TickOutbox
from streams.shell.tick_source import Effects, TickSource
from streams.shell.time_passing import passing
from streams.shell.transactions import FencedError, PartitionTransactions, TransactionFailedError
from wire.admission import AUTHORIZATION_ERRORS

LINGER_S = 0.01
"""How long the first due tick waits for those of other endpoints."""
HELD_MESSAGES_MAX = 20_000
HELD_BYTES_MAX = 8 * 1024 * 1024
"""Of a topic, waiting for older messages of other topics: above one of these its fetching pauses."""
REVOKE_TIMEOUT_S = 1.0
MEMBERSHIP_TIMEOUT_S = 10.0
RETRY_S = 0.5
RETRY_MAX_S = 4.0

log = structlog.get_logger()


class PartitionOwner:
    """See the module's text. `start` once, `stop` once; `take` and `idle` between them, on the same event loop."""

    def __init__(
        self,
        partition: int,
        make_source: Callable[[int], TickSource],
        transactions: PartitionTransactions,
        ports: OwnerPorts,
    ) -> None:
        self.partition = partition
        self.state = OwnerState.TAKING_OVER
        self._make_source = make_source
        self._source = make_source(partition)
        self._transactions = transactions
        self._ports = ports
        self._inputs = {topic: TP(ports.names.real(topic), partition) for topic in INPUT_TOPICS}
        self._logical = {tp.topic: topic for topic, tp in self._inputs.items()}
        self._log = log.bind(partition=partition)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._retry_s = RETRY_S
        self._outbox = TickOutbox()
        self._order = MergeOrder(INPUT_TOPICS)
        self._overload = OverloadWatch()
        self._times = OwnerTimes(ports.metrics, ports.clock)
        self._progress = ReadProgress(self._inputs, ports.reader.read_state, ports.reader.unread_batches, ports.clock)

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"partition-{self.partition}")

    async def stop(self) -> None:
        """Give the partition back: commit what is due if Kafka acknowledges it within a second, else abort."""
        self._stopping.set()
        self._outbox.due.set()
        if (task := self._task) is not None:
            await asyncio.wait([task], timeout=REVOKE_TIMEOUT_S if self.state is OwnerState.WORKING else 0)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
                await self._transactions.abort()
        self.state = OwnerState.STOPPED
        self._outbox.has_room.set()
        self._ports.reader.forget(self.partition)
        await self._transactions.close()

    async def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                await self._own()
                self._let_go(OwnerState.TAKING_OVER)
                await self._pause(self._retry_s)
                self._retry_s = min(self._retry_s * 2, RETRY_MAX_S)
                await self._confirm_membership()
        except Exception as error:
            # An unreadable memory, or a bug of ours: a worker that goes on without one of its partitions hides it.
            self._ports.fail(error)

    async def _own(self) -> None:
        """Take the partition over and work on it until something fails or it is given back."""
        try:
            await self._take_over()
            await self._write_ticks()
        except FencedError:
            self._ports.metrics.fenced.add(1)  # By our successor, or the broker, for a transaction that took too long.
            self._log.warning("partition_fenced")
        except AUTHORIZATION_ERRORS:
            raise
        except (TransactionFailedError, MemoryUnreadableError, KafkaError) as error:
            self._ports.metrics.failed.add(1)
            self._log.warning("partition_failed", error=str(error))

    async def _pause(self, seconds: float) -> None:
        """Wait, but not once the partition is to be given back."""
        waiter = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([waiter], timeout=seconds)
        waiter.cancel()

    def _let_go(self, state: OwnerState) -> None:
        """Read and tick no more; what was not committed is made again from the log."""
        self._let_go_of_reading(state)
        self._outbox.clear()

    def _let_go_of_reading(self, state: OwnerState) -> None:
        self.state = state
        self._ports.reader.forget(self.partition)
        self._order.clear()

    async def _confirm_membership(self) -> None:
        """Return when the partition is still ours, or is to be given back; taking over would fence its new owner.

        A commit of offsets tells: the broker takes it from members of the group's current generation only. Refused,
        the partition is lost until the group's next rebalance gives it to somebody.
        """
        offset = self._progress.next_offsets.get("telemetry.requests", 0)
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(MEMBERSHIP_TIMEOUT_S):
                    await self._ports.reader.commit_or_raise({self._inputs["telemetry.requests"]: offset})
                return
            except TimeoutError:
                await self._pause(RETRY_S)
            except KafkaError as error:
                self.state = OwnerState.LOST
                self._log.warning("partition_lost", error=repr(error))
                await self._transactions.close()
                await self._stopping.wait()

    # -- taking over --------------------------------------------------------------------------------------------

    async def _take_over(self) -> None:
        started_s = self._times.take_over()
        await self._transactions.start()
        memory = await self._ports.memory.read(
            [self._ports.names.real(topic) for topic in MEMORY_TOPICS], self.partition
        )
        source = self._make_source(self.partition)
        plan = source.restore({self._ports.names.logical(topic): read for topic, read in memory.items()}, started_s)
        offsets = await start_offsets(self._ports.offsets, self._inputs, plan, source)
        self._source = source
        await self._ports.reader.rewind(self.partition, offsets)
        self._read_from(offsets)
        self._retry_s = RETRY_S
        await self._ports.faults.reached(FaultPoint.REWOUND, self.partition)
        self._log.info("partition_taken_over", seconds=round(self._ports.clock() - started_s, 3))

    def _read_from(self, offsets: Mapping[TP, int]) -> None:
        self._progress.restart({self._logical[tp.topic]: offset for tp, offset in offsets.items()})
        self._overload.reset()
        self.state = OwnerState.WORKING

    async def _skip_backlog(self) -> None:
        """Leave unread what cannot be caught up; what is on its way is read again, or left out too."""
        self._let_go_of_reading(OwnerState.SKIPPING)
        positions = {self._inputs[topic]: offset for topic, offset in self._progress.next_offsets.items()}
        offsets = await skip_backlog(self._ports, self._source, self.partition, positions)
        # The ticks of the time that nobody read; what is newer goes on with what is read next.
        for effects in passing(self._source, self._ports.clock() - CATCH_UP_S):
            self._add_due(effects)
            while self._outbox:
                await self._write_some()
        self._read_from(offsets)
        await self._ports.faults.reached(FaultPoint.SKIPPED, self.partition)

    # -- reading ------------------------------------------------------------------------------------------------

    async def take(self, topic: str, batch: PolledBatch) -> None:
        """Feed one poll of a topic (logical name) in its turn; waits while too many ticks are unwritten."""
        tp = self._inputs[topic]
        if not self._ports.reader.batch_read(tp, batch.session):
            return
        self._order.add(topic, batch.messages, batch.size, self._ports.reader.read_state(tp).asked_s or 0.0)
        if self._holds_too_much(topic):
            self._ports.reader.pause_partitions([tp])
        self._feed_in_order()
        await self._outbox.has_room.wait()

    def _feed_in_order(self) -> None:
        at_end = self._progress.topics_at_end()
        while (taken := self._order.take(at_end)) is not None:
            topic, messages = taken
            self._add_due(self._source.feed(topic, messages, self._ports.clock()))
            self._progress.next_offsets[topic] = messages[-1].offset + 1
            if not self._holds_too_much(topic):
                self._ports.reader.resume_partitions([self._inputs[topic]])
            self._look_behind()

    def _add_due(self, effects: Sequence[Effects]) -> None:
        self._times.fed(effects, is_rebuilding=self._source.is_rebuilding)
        self._outbox.add(effects)

    def _look_behind(self) -> None:
        processed_s = self._source.processed_s
        if processed_s is None or self._source.is_rebuilding:
            self._overload.reset()
        elif self._overload.look(self._ports.clock(), processed_s):
            self._outbox.due.set()

    def _holds_too_much(self, topic: str) -> bool:
        return self._order.held(topic) > HELD_MESSAGES_MAX or self._order.held_bytes(topic) > HELD_BYTES_MAX

    def idle(self) -> None:
        """Let time pass if everything was read: up to the moment for which every topic's end is known to be read."""
        if self.state is not OwnerState.WORKING:
            return
        self._progress.look()
        self._feed_in_order()
        read_until_s = self._progress.read_until_s()
        if read_until_s is not None and not self._order:
            for effects in passing(self._source, read_until_s):
                self._add_due(effects)
                if not self._outbox.has_room.is_set():
                    return

    @property
    def is_rebuilding(self) -> bool:
        """Whether the windows are still being filled with what was read before."""
        return self._source.is_rebuilding

    @property
    def size(self) -> ControllerSize:
        return self._source.size

    @property
    def processed_s(self) -> float | None:
        """Processing time, UNIX s; null before anything was read."""
        return self._source.processed_s

    @property
    def lag_s(self) -> float | None:
        """How far processing time is behind the clock; null before anything was read."""
        processed_s = self._source.processed_s
        return None if processed_s is None else self._ports.clock() - processed_s

    @property
    def is_caught_up(self) -> bool:
        return self.state is OwnerState.WORKING and self._progress.is_at_end and not self._order

    def read_positions(self) -> dict[TP, int]:
        """The next offset of each input to feed."""
        return self._progress.positions()

    def unread_records(self) -> dict[str, int]:
        """By logical topic how far the consumer is behind the end as last seen; topics not fetched yet are left out."""
        reads = {topic: self._ports.reader.read_state(tp) for topic, tp in self._inputs.items()}
        return {topic: read.unread for topic, read in reads.items() if read.unread is not None}

    def settled_offset(self, tp: TP) -> int | None:
        """The offset before which everything that `tp` caused is committed."""
        return self._outbox.settled(self._progress.next_offsets).get(self._logical[tp.topic])

    # -- writing ------------------------------------------------------------------------------------------------

    async def _write_ticks(self) -> None:
        while not self._stopping.is_set() or self._outbox:
            await self._outbox.due.wait()
            if self._overload.is_hopeless:
                await self._skip_backlog()
            if not self._stopping.is_set():
                await asyncio.sleep(LINGER_S)
            if self._outbox:
                await self._write_some()
            elif not self._stopping.is_set():
                self._outbox.due.clear()

    async def _write_some(self) -> None:
        effects = self._outbox.take(self._progress.next_offsets)
        self._times.begin()
        await self._transactions.write(transaction_records(effects, self._ports.names, self.partition))
        self._outbox.written()
        self._times.written(effects, len(self._outbox))
