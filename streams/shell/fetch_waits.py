"""Keeps a fetch that leaves partitions out from waiting long: they are not fetched before it is answered.

A consumer has one fetch under way with each broker. aiokafka asks for partitions whose records nobody has taken yet in
no fetch, and after a tenth of a second for the others without them. Where these have nothing to say such a fetch waits
for all of its time, and the partitions that do say something with it, though they were emptied a moment later.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka.consumer.fetcher import Fetcher

from streams.shell.fetch_watch import FetchWatch

PARTIAL_WAIT_MS = 20
"""How long a fetch waits that leaves partitions out: some are still full when it is answered, or paused for long."""


class FetchWaits(FetchWatch):
    """Shortens the wait of such fetches."""

    async def _around(
        self, fetcher: Fetcher, assignment: Any, request: Any, fetch: Callable[[], Awaitable[Any]]
    ) -> Any:
        if fetcher._records:
            request._max_wait_ms = min(request._max_wait_ms, PARTIAL_WAIT_MS)
        return await fetch()
