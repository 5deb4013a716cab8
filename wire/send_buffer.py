"""Records that wait to be sent: bounded in number and bytes, the oldest dropped first, filled from any thread."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record on its way: `payload` its JSON, or the record itself where frames are made of it.

    `nbytes` is what it weighs in the buffer, `timestamp_ms` its Kafka timestamp, None for the time of sending.
    """

    key: str
    payload: Any
    nbytes: int
    timestamp_ms: int | None


class SendBuffer:
    """A queue that never refuses and never grows over its bounds."""

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._queue: deque[Waiting] = deque()
        self._nbytes = 0
        self._dropped = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @property
    def dropped(self) -> int:
        """Records dropped since the start because newer ones needed their place."""
        return self._dropped

    def put(self, waiting: Waiting) -> bool:
        """Adds the newest record; true where the queue was empty."""
        with self._lock:
            was_empty = not self._queue
            self._queue.append(waiting)
            self._nbytes += waiting.nbytes
            self._drop_oldest()
        return was_empty

    def put_back(self, taken: Iterable[Waiting]) -> None:
        """Returns records that were taken, in the order they were; they are the oldest again."""
        with self._lock:
            self._queue.extendleft(reversed(list(taken)))
            self._nbytes = sum(waiting.nbytes for waiting in self._queue)
            self._drop_oldest()

    def take(self, records_max: int, bytes_max: int) -> list[Waiting]:
        """The oldest records, at least one where there is one, within the limits."""
        taken: list[Waiting] = []
        nbytes = 0
        with self._lock:
            while self._queue and len(taken) < records_max:
                nbytes += self._queue[0].nbytes
                if taken and nbytes > bytes_max:
                    break
                taken.append(self._queue.popleft())
            self._nbytes -= sum(waiting.nbytes for waiting in taken)
        return taken

    def _drop_oldest(self) -> None:
        while self._queue and (len(self._queue) > self._records_max or self._nbytes > self._bytes_max):
            self._nbytes -= self._queue.popleft().nbytes
            self._dropped += 1
