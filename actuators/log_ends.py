"""Asks Kafka where logs end now, over a connection of its own.

On a consumer's connection the question would wait behind the fetch that waits for data there, half a second each.
"""

import asyncio
from collections.abc import Mapping, Sequence

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from wire.kafka import KafkaAccess, close_consumer, open_consumer

ANSWER_S = 4.0
"""Longer than a broker takes to hand over to another."""
RETRY_S = 0.5

Ends = Mapping[TopicPartition, int]

_log = structlog.get_logger("headrace.actuators")


class LogEnds:
    """Those who ask at the same time share a question; everyone's was sent after they asked.

    Ends are those of what is committed: the last stable offsets.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._consumer: AIOKafkaConsumer | None = None
        self._asked: asyncio.Task[Ends] | None = None
        self._next: asyncio.Task[Ends] | None = None
        self._partitions: Sequence[TopicPartition] = ()

    def watch(self, partitions: Sequence[TopicPartition]) -> None:
        """Which ones are asked for from now on."""
        self._partitions = partitions

    async def now(self) -> Ends:
        """The ends of all partitions, as of a moment after this call. While Kafka does not answer, it waits."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask_after(self._asked))
        return await asyncio.shield(self._next)

    async def _ask_after(self, before: asyncio.Task[Ends] | None) -> Ends:
        if before is not None:
            await asyncio.wait({before})
        self._asked, self._next = self._next, None
        while True:
            try:
                return await self._ask(list(self._partitions))
            except (KafkaError, OSError, TimeoutError) as error:
                # A new client finds brokers also where they came back under other addresses.
                _log.warning("log_ends_unknown", error=f"{type(error).__name__}: {error}")
                await self._close()
                await asyncio.sleep(RETRY_S)

    async def _ask(self, partitions: list[TopicPartition]) -> Ends:
        if not partitions:
            return {}
        async with asyncio.timeout(ANSWER_S):
            if self._consumer is None:
                self._consumer = open_consumer(self._access, request_timeout_ms=int(ANSWER_S * 1000))
                await self._consumer.start()
            ends: Ends = await self._consumer.end_offsets(partitions)
            return ends

    async def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await close_consumer(consumer, RETRY_S)

    async def stop(self) -> None:
        """End whatever is being asked, and disconnect."""
        tasks = [task for task in (self._asked, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._close()
