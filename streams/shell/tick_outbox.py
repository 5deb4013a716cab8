"""Ticks that are due and not written, and up to which offsets everything that was read is written."""

import asyncio
from collections.abc import Mapping, Sequence

from streams.shell.tick_source import Effects

TRANSACTION_TICKS_MAX = 2000
"""Most ticks in one transaction: some 3 MB and half a second, well inside the transaction's timeout."""
PENDING_TICKS_MAX = 8000
"""More unwritten ticks than this and reading waits."""


class TickOutbox:
    """A queue between reading and writing, on one event loop; `take` and `written` take turns."""

    def __init__(self) -> None:
        self.due = asyncio.Event()
        """Set while there is something to take; an owner sets it to wake its writer for the last time."""
        self.has_room = asyncio.Event()
        self.clear()

    def clear(self) -> None:
        """Forget everything: the partition is read again."""
        self._pending: list[Effects] = []
        self._is_writing = False
        self._settled: Mapping[str, int] = {}
        self._settling: Mapping[str, int] = {}
        self.due.clear()
        self.has_room.set()

    def add(self, effects: Sequence[Effects]) -> None:
        if not effects:
            return
        self._pending.extend(effects)
        self.due.set()
        if len(self._pending) > PENDING_TICKS_MAX:
            self.has_room.clear()

    def __len__(self) -> int:
        return len(self._pending)

    def take(self, read: Mapping[str, int]) -> Sequence[Effects]:
        """The oldest ticks, for one transaction. `read` are the next offsets by topic at this moment."""
        taken, self._pending = self._pending[:TRANSACTION_TICKS_MAX], self._pending[TRANSACTION_TICKS_MAX:]
        self._is_writing = True
        if not self._pending:
            self._settling = dict(read)
            self.due.clear()
        return taken

    def written(self) -> None:
        """The ticks taken last are committed."""
        self._is_writing = False
        self._settled = self._settling
        if len(self._pending) <= PENDING_TICKS_MAX:
            self.has_room.set()

    def settled(self, read: Mapping[str, int]) -> Mapping[str, int]:
        """Next offsets by topic before which everything that was read is committed."""
        return self._settled if self._pending or self._is_writing else read
