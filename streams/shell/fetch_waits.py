"""Keeps a fetch that leaves partitions out from waiting long: they are not fetched before it is answered.

A consumer has one fetch under way with each broker. aiokafka asks for partitions whose records nobody has taken yet in
no fetch, and after a tenth of a second for the others without them. Where these have nothing to say such a fetch waits
for all of its time, and the partitions that do say something with it, though they were emptied a moment later. Written
against a pinned release, see tests/worker/test_faust_pin.py.
"""

from typing import Any

from aiokafka.consumer.fetcher import Fetcher

PARTIAL_WAIT_MS = 20
"""How long a fetch waits that leaves partitions out: some are still full when it is answered, or paused for long."""


class FetchWaits:
    """Follows the fetchers that it is told to `watch`."""

    def __init__(self) -> None:
        self._watched: Fetcher | None = None

    def watch(self, fetcher: Fetcher) -> None:
        """From its next fetch on; a second call for the same one does nothing."""
        if self._watched is fetcher:
            return
        self._watched = fetcher
        fetch = fetcher._proc_fetch_request

        async def fetch_soon(assignment: Any, node_id: Any, request: Any) -> Any:
            if fetcher._records:
                request._max_wait_ms = min(request._max_wait_ms, PARTIAL_WAIT_MS)
            return await fetch(assignment, node_id, request)

        fetcher._proc_fetch_request = fetch_soon
