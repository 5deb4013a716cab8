"""An endpoint's records of one input topic as its workers read them: without what they left unread, in pieces."""

from collections.abc import AsyncIterator, Collection

from headrace.export_logs import EndpointLogs, Logged
from records.signals import SkippedRecords


async def read_records(
    logs: EndpointLogs, topic: str, span: tuple[int, int], skipped: Collection[SkippedRecords]
) -> AsyncIterator[Logged]:
    """The endpoint's records of a topic in `span`, [first, end) offsets, but for those in `skipped`."""
    left_out = [one for one in skipped if one.topic == topic]
    async for logged in logs.records(topic, *span):
        if not any(one.first_offset <= logged.offset < one.end_offset for one in left_out):
            yield logged


class Feed:
    """Records, taken up to an offset at a time."""

    def __init__(self, records: AsyncIterator[Logged]) -> None:
        self._records = records
        self._next: Logged | None = None
        self._is_at_end = False

    async def below(self, offset: int) -> AsyncIterator[Logged]:
        while not self._is_at_end:
            if self._next is None:
                self._next = await anext(self._records, None)
                self._is_at_end = self._next is None
            if self._next is None or self._next.offset >= offset:
                return
            taken, self._next = self._next, None
            yield taken
