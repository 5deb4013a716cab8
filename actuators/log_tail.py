"""How far some partitions were read, for those who wait until it is far enough."""

import asyncio
from collections.abc import Callable, Mapping

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition


class LogTail:
    """Hands a consumer's messages to `take`, and keeps the positions after them.

    One task calls `read` again and again; any number of others wait in `reach`.
    """

    def __init__(self, take: Callable[[ConsumerRecord], None]) -> None:
        self._take = take
        self._positions: dict[TopicPartition, int] = {}
        self._moved = asyncio.Condition()
        self._is_closed = False

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset of the next message to take, of each partition that was read."""
        return dict(self._positions)

    async def taken(self, consumer: AIOKafkaConsumer, polled: Mapping[TopicPartition, list[ConsumerRecord]]) -> None:
        """Take what a poll brought. Nothing gives way to another task between the poll, this and the positions."""
        for messages in polled.values():
            for message in messages:
                self._take(message)
        for partition in consumer.assignment():
            self._positions[partition] = await consumer.position(partition)
        async with self._moved:
            self._moved.notify_all()

    async def reach(self, ends: Mapping[TopicPartition, int], timeout_s: float) -> bool:
        """True once everything below `ends` was taken; False after `timeout_s` real seconds, or when it is closed."""

        def is_reached() -> bool:
            return all(self._positions.get(partition, -1) >= end for partition, end in ends.items())

        if is_reached():
            return True
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: self._is_closed or is_reached())
        except TimeoutError:
            return False
        return is_reached()

    async def close(self) -> None:
        """Nobody waits any longer."""
        self._is_closed = True
        async with self._moved:
            self._moved.notify_all()
