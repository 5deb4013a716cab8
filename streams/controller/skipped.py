"""Records that were left unread under a load beyond capacity: a fact of the partition, told by ticks and remembered."""

from collections.abc import Iterable, Sequence

from records.memory import ControllerMemory
from records.signals import SkippedRecords
from streams.endpoints.endpoint_state import EndpointState
from streams.endpoints.endpoint_windows import SPANS_S

KEPT_S = 240
"""How much longer than its longest window an endpoint remembers them: reading again begins some 70 s before the window
of the endpoint that is furthest behind, and clocks differ."""


class SkippedBook:
    """All of one partition that still matter, by topic and in log order. Every endpoint hears of all of them."""

    def __init__(self) -> None:
        self._ranges: tuple[SkippedRecords, ...] = ()

    @property
    def ranges(self) -> Sequence[SkippedRecords]:
        return self._ranges

    def restore(self, memories: Iterable[ControllerMemory]) -> None:
        """Ticks that were made since and got lost would have told the other endpoints too."""
        self._set({skipped for memory in memories for skipped in memory.skipped_records})

    def add(self, skipped: SkippedRecords) -> None:
        self._set({*self._ranges, skipped})

    def tell(self, state: EndpointState, tick: int) -> tuple[SkippedRecords, ...]:
        """Let an endpoint remember at a tick what it has to; what of it is news."""
        if not self._ranges and not state.skipped:
            return ()
        since_s = tick - state.span_s - KEPT_S
        kept = tuple(skipped for skipped in self._ranges if skipped.until_s >= since_s)
        news = tuple(skipped for skipped in kept if skipped not in state.skipped)
        state.skipped = kept
        return news

    def forget(self, processed_s: float) -> None:
        """Drop what is older than any window."""
        self._set({skipped for skipped in self._ranges if skipped.until_s >= processed_s - SPANS_S[-1] - KEPT_S})

    def _set(self, ranges: set[SkippedRecords]) -> None:
        self._ranges = tuple(sorted(ranges, key=lambda skipped: (skipped.topic, skipped.first_offset)))
