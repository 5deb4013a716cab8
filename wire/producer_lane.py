"""One topic's way to Kafka: takes what waits, sends it, and puts back what failed."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from wire.admission import reason_of
from wire.kafka import BATCH_BYTES, KafkaAccess, close_producer, open_producer
from wire.packing import Batch, Message, frame_messages, json_messages, pack
from wire.send_buffer import SendBuffer, Waiting
from wire.topics import TopicSpec

CLIENT_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {"request_timeout_ms": 10_000, "retry_backoff_ms": 1000, "linger_ms": 0}
)
"""Tries once a second (the longest wait of Kafka's own clients), as each try writes into the host's log."""
ROUND_RECORDS = 4096
"""Records of one round: at 2 µs each a few ms of the host's loop."""
ROUND_BYTES = 8 * BATCH_BYTES
_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 0.1, 5.0


@dataclass(slots=True)
class _Attempt:
    """What became of messages: `refused` are above the broker's limit, `failed` may be tried again."""

    sent: list[Message] = field(default_factory=list)
    refused: list[Message] = field(default_factory=list)
    failed: list[Message] = field(default_factory=list)
    error: Exception | None = None


class Lane:
    """One topic's buffer and the task that empties it. Counts are of records."""

    def __init__(self, spec: TopicSpec, kafka_topic: str, buffer: SendBuffer, linger_s: float, frames: bool) -> None:
        self.buffer = buffer
        self.frames = frames
        self.sent = self.too_large = self.unreadable = self.unsent = 0
        self.last_error: Exception | None = None
        self._spec = spec
        self._topic = kafka_topic
        self._linger_s = linger_s
        self._on_the_way = 0
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        return len(self.buffer) + self._on_the_way

    def put(self, waiting: Waiting) -> None:
        if self.buffer.put(waiting) and self._loop is not None:
            with suppress(RuntimeError):  # the host's loop is closed: what waits will not be sent
                self._loop.call_soon_threadsafe(self._work.set)

    def start(self, access: KafkaAccess, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the task, in `loop`'s thread; a second start does nothing."""
        if self._task is None:
            self._loop = loop
            self._work.set()
            self._task = loop.create_task(self._run(access), name=f"producer {self._topic}")
            self._task.add_done_callback(lambda _: self._idle.set())

    async def idle(self) -> None:
        """Waits until nothing waits. Raises what ended the task, if something did: it is a bug of ours."""
        while self.waiting:
            if self._task is not None and self._task.done():
                self._task.result()
            self._idle.clear()
            await self._idle.wait()

    async def stop(self) -> None:
        """Ends the task; what still waits is counted as unsent."""
        self._loop = None
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self.unsent += len(self.buffer.take(len(self.buffer), self.buffer.nbytes))

    async def _run(self, access: KafkaAccess) -> None:
        """Connects, again and again: a client that failed is thrown away, as its state may be beyond repair."""
        backoff_s = _BACKOFF_FIRST_S
        while True:
            sent_before = self.sent
            client = open_producer(access, **CLIENT_OPTIONS)
            try:
                await client.start()
                await self._serve(client)
            except (KafkaError, OSError) as error:
                self.last_error = await reason_of(access, error)
            finally:
                await close_producer(client)
            backoff_s = _BACKOFF_FIRST_S if self.sent > sent_before else min(backoff_s * 2, _BACKOFF_MAX_S)
            await asyncio.sleep(backoff_s)

    async def _serve(self, client: AIOKafkaProducer) -> None:
        """Sends what waits, round after round. Raises the first error, with what was not sent put back."""
        self._work.set()
        while True:
            await self._work.wait()
            await asyncio.sleep(self._linger_s)
            self._work.clear()
            while taken := self.buffer.take(ROUND_RECORDS, ROUND_BYTES):
                await self._round(client, taken)
                self.last_error = None
            self._idle.set()

    async def _round(self, client: AIOKafkaProducer, taken: list[Waiting]) -> None:
        """All of `taken` is sent, dropped and counted, or put back, also where this is cancelled."""
        self._on_the_way = len(taken)
        left = taken
        try:
            partitions = len(await client.partitions_for(self._topic))
            messages = await self._messages(taken, partitions)
            left = _records(messages)
            first = await self._attempt(client, pack(client, messages))
            alone = [batch for message in first.refused for batch in pack(client, [message])]
            second = await self._attempt(client, alone)
            left = _records(first.failed + second.failed)
            self.sent += len(_records(first.sent + second.sent))
            self.too_large += len(_records(second.refused))
        finally:
            self.buffer.put_back(left)
            self._on_the_way = 0
        error = first.error or second.error
        if error is not None:
            raise error

    async def _messages(self, taken: list[Waiting], partitions: int) -> list[Message]:
        if not self.frames:
            return json_messages(taken, partitions)
        messages, unwritable = await frame_messages(taken, partitions, self._spec.message_bytes_max)
        self.too_large += len(unwritable.too_large)
        self.unreadable += len(unwritable.unreadable)
        return messages

    async def _attempt(self, client: AIOKafkaProducer, batches: list[Batch]) -> _Attempt:
        """Sends batches: those of one partition one after the other, so that they arrive in their order."""
        attempt = _Attempt()
        by_partition: dict[int, list[Batch]] = defaultdict(list)
        for batch in batches:
            by_partition[batch.partition].append(batch)
        await asyncio.gather(*(self._deliver(client, row, attempt) for row in by_partition.values()))
        return attempt

    async def _deliver(self, client: AIOKafkaProducer, batches: list[Batch], attempt: _Attempt) -> None:
        for batch in batches:
            try:
                delivery = await client.send_batch(batch.builder, self._topic, partition=batch.partition)
                await delivery
            except MessageSizeTooLargeError:
                attempt.refused += batch.messages
            except KafkaError as error:
                attempt.failed += batch.messages
                attempt.error = error
            else:
                attempt.sent += batch.messages


def _records(messages: list[Message]) -> list[Waiting]:
    return [record for message in messages for record in message.records]
