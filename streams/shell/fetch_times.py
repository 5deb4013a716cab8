"""When the newest fetch of each partition was asked for: what it tells of the log's end holds for that moment.

aiokafka notes when it took the answer. In a process that stood still, or had no processor, an answer waits in its
socket for seconds, and what was written meanwhile is not in it. Written against a pinned release, see
tests/worker/test_faust_pin.py.
"""

from collections.abc import Callable
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from faust.types import TP


class FetchTimes:
    """Follows the fetchers that it is told to `watch`; `clock` gives UNIX seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._watched: Fetcher | None = None
        self._asked_s: dict[TopicPartition, float] = {}

    def watch(self, fetcher: Fetcher) -> None:
        """From its next fetch on; a second call for the same one does nothing."""
        if self._watched is fetcher:
            return
        self._watched = fetcher
        fetch = fetcher._proc_fetch_request

        async def fetch_and_note(assignment: Any, node_id: Any, request: Any) -> Any:
            asked_s, before = self._clock(), _answers(assignment, request)
            try:
                return await fetch(assignment, node_id, request)
            finally:
                self._asked_s |= {
                    tp: asked_s for tp, answer in _answers(assignment, request).items() if answer != before[tp]
                }

        fetcher._proc_fetch_request = fetch_and_note

    def asked_s(self, tp: TP) -> float | None:
        """When the newest fetch that was answered was sent; null before the first."""
        return self._asked_s.get(TopicPartition(tp.topic, tp.partition))


def _answers(assignment: Any, request: Any) -> dict[TopicPartition, int | None]:
    """By partition when its last answer was taken, ms."""
    partitions = (TopicPartition(topic, entry[0]) for topic, entries in request.topics for entry in entries)
    return {tp: assignment.state_value(tp).timestamp for tp in partitions}
