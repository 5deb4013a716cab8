"""What was polled and no agent has taken yet, in batches and in bytes: what the poll waits for."""

import asyncio

from faust.types import TP

UNREAD_BYTES_MAX = 16 * 1024 * 1024
"""More than this on its way to the agents, of all partitions together, and nothing is polled: agents take batches of
every partition, also of those that wait for others."""


class UnreadBatches:
    """Sizes of batches, in bytes of their messages' values, by topic and partition, in the order of the log."""

    def __init__(self) -> None:
        self._sizes: dict[TP, list[int]] = {}
        self._has_room = asyncio.Event()
        self._has_room.set()

    def add(self, tp: TP, size: int) -> None:
        self._sizes.setdefault(tp, []).append(size)
        self._look()

    def take(self, tp: TP) -> None:
        """The oldest batch of `tp` was taken."""
        del self._sizes[tp][0]
        self._look()

    def clear(self, tp: TP) -> None:
        """Batches of `tp` that are on their way are no longer anybody's."""
        self._sizes.pop(tp, None)
        self._look()

    def clear_partition(self, partition: int) -> None:
        for tp in [tp for tp in self._sizes if tp.partition == partition]:
            self.clear(tp)

    def count(self, tp: TP) -> int:
        return len(self._sizes.get(tp, ()))

    @property
    def size(self) -> int:
        """Of all of them, in bytes."""
        return sum(map(sum, self._sizes.values()))

    async def wait_for_room(self, seconds: float) -> bool:
        """Whether less than UNREAD_BYTES_MAX is on its way, at once or within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._has_room.wait()
        except TimeoutError:
            return False
        return True

    def _look(self) -> None:
        if self.size < UNREAD_BYTES_MAX:
            self._has_room.set()
        else:
            self._has_room.clear()
