"""Reads `decisions.scaling` in a consumer group: which partitions are this actuator's, and what is on them."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Protocol

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from actuators.log_tail import LogTail

POLL_MS = 100
POLL_S_MAX = 1.0
RETRY_S = 0.5
COMMIT_S = 0.5
COMMIT_PATIENCE_S = 5.0
"""How long a commit may take: aiokafka's goes on for as long as brokers are away."""

_log = structlog.get_logger("headrace.actuators")


class Owner(Protocol):
    """Who works on the partitions while they are this actuator's."""

    @property
    def tail(self) -> LogTail: ...

    def settled_to(self) -> Mapping[TopicPartition, int]:
        """The offsets below which every decision has its outcome in the log."""
        ...

    async def end(self) -> None:
        """The partitions go to others: finish calls under way, start no others."""
        ...


class Owners(Protocol):
    """Makes an owner of the partitions at each assignment."""

    def begin(self, partitions: frozenset[TopicPartition]) -> Owner: ...


class DecisionReader(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no annotations that mypy may read
    """Polls `consumer`, started and not subscribed yet.

    A rebalance ends the poll under way before anything else happens, and after it all is read again from the committed
    offsets on, by a new owner: so an owner sees each message of its partitions once and in order.
    """

    def __init__(self, consumer: AIOKafkaConsumer, topic: str, owners: Owners) -> None:
        self._consumer = consumer
        self._topic = topic
        self._owners = owners
        self._owner: Owner | None = None
        self._poll: asyncio.Task[dict[TopicPartition, list[ConsumerRecord]]] | None = None
        self._owned = asyncio.Event()
        self._committed: dict[TopicPartition, int] = {}
        self._failure: Exception | None = None

    @property
    def is_member(self) -> bool:
        """Partitions are assigned; maybe none, where there are more actuators than partitions."""
        return self._owner is not None

    def fail(self, error: Exception) -> None:
        """End `run` with this."""
        self._failure = self._failure or error

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop`. Raises KafkaError where it does not help to poll again, and what an owner raised."""
        self._consumer.subscribe(topics=[self._topic], listener=self)
        committing = asyncio.create_task(self._commit_again_and_again())
        try:
            while not stop.is_set():
                if committing.done():
                    committing.result()
                if self._failure is not None:
                    raise self._failure
                await self._read()
        finally:
            committing.cancel()
            self._drop_poll()

    async def _read(self) -> None:
        owner = self._owner
        if owner is None:
            # aiokafka tells what is wrong with the group to those alone who poll, which has to wait for an owner.
            try:
                self._consumer._coordinator.check_errors()
            except KafkaError as error:
                await _pass_over(error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._owned.wait(), POLL_MS / 1000)
            return
        poll = asyncio.ensure_future(self._consumer.getmany(timeout_ms=POLL_MS))
        self._poll = poll
        await asyncio.wait({poll}, timeout=POLL_S_MAX)
        if not poll.done() or self._poll is not poll:
            # Not done: the consumer rejoins its group. Dropped: a rebalance took the partitions away.
            self._drop_poll()
            return
        self._poll = None
        try:
            await owner.tail.taken(self._consumer, poll.result())
        except IllegalStateError:
            return  # A rebalance is about to tell the listener.
        except KafkaError as error:
            await _pass_over(error)

    def _drop_poll(self) -> None:
        if self._poll is not None:
            self._poll.cancel()
            self._poll.add_done_callback(lambda poll: poll.cancelled() or poll.exception())
            self._poll = None

    async def end_owner(self) -> None:
        """Let the owner finish, and commit what it settled."""
        owner, self._owner = self._owner, None
        self._owned.clear()
        if owner is not None:
            await owner.end()
            await self._commit(owner)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._drop_poll()
        try:
            await self.end_owner()
        except Exception as error:
            self.fail(error)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._drop_poll()
        self._committed.clear()
        self._owner = self._owners.begin(frozenset(assigned))
        self._owned.set()
        _log.info("partitions_assigned", partitions=sorted(partition.partition for partition in assigned))

    async def _commit_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            if self._owner is not None:
                await self._commit(self._owner)

    async def _commit(self, owner: Owner) -> None:
        """What is not committed is read again by the next owner, and found settled by its outcomes."""
        moved = {
            partition: offset
            for partition, offset in owner.settled_to().items()
            if offset > self._committed.get(partition, 0)
        }
        if not moved:
            return
        try:
            async with asyncio.timeout(COMMIT_PATIENCE_S):
                await self._consumer.commit(moved)
        except (CommitFailedError, IllegalStateError) as error:
            _log.info("offsets_not_committed", why=f"{type(error).__name__}: {error}")
        except TimeoutError:
            _log.warning("offsets_not_committed", why=f"no answer within {COMMIT_PATIENCE_S:g} s")
        except KafkaError as error:
            _log.warning("offsets_not_committed", why=f"{type(error).__name__}: {error}")
        else:
            self._committed.update(moved)


async def _pass_over(error: KafkaError) -> None:
    """Raise it, unless it helps to poll again after a while."""
    if not error.retriable:
        raise error
    _log.warning("poll_failed", error=f"{type(error).__name__}: {error}")
    await asyncio.sleep(RETRY_S)
