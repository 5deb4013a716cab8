"""When the newest fetch of each partition was asked for: what it tells of the log's end holds for that moment.

aiokafka notes when it took the answer. In a process that stood still, or had no processor, an answer waits in its
socket for seconds, and what was written meanwhile is not in it.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from faust.types import TP

from streams.shell.fetch_watch import FetchWatch


class FetchTimes(FetchWatch):
    """`clock` gives UNIX seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._asked_s: dict[TopicPartition, float] = {}

    async def _around(
        self, fetcher: Fetcher, assignment: Any, request: Any, fetch: Callable[[], Awaitable[Any]]
    ) -> Any:
        asked_s, before = self._clock(), _answers(assignment, request)
        try:
            return await fetch()
        finally:
            self._asked_s |= {
                tp: asked_s for tp, answer in _answers(assignment, request).items() if answer != before[tp]
            }

    def asked_s(self, tp: TP) -> float | None:
        """When the newest fetch that was answered was sent; null before the first."""
        return self._asked_s.get(TopicPartition(tp.topic, tp.partition))


def _answers(assignment: Any, request: Any) -> dict[TopicPartition, int | None]:
    """By partition when its last answer was taken, ms."""
    partitions = (TopicPartition(topic, entry[0]) for topic, entries in request.topics for entry in entries)
    return {tp: assignment.state_value(tp).timestamp for tp in partitions}
