"""Stands around every fetch of an aiokafka fetcher; against a pinned release: tests/worker/test_faust_pin.py."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka.consumer.fetcher import Fetcher


class FetchWatch(ABC):
    """Follows the fetchers that it is told to `watch`."""

    def __init__(self) -> None:
        self._watched: Fetcher | None = None

    def watch(self, fetcher: Fetcher) -> None:
        """From its next fetch on; a second call for the same one does nothing."""
        if self._watched is fetcher:
            return
        self._watched = fetcher
        fetch = fetcher._proc_fetch_request

        async def watched(assignment: Any, node_id: Any, request: Any) -> Any:
            return await self._around(fetcher, assignment, request, lambda: fetch(assignment, node_id, request))

        fetcher._proc_fetch_request = watched

    @abstractmethod
    async def _around(
        self, fetcher: Fetcher, assignment: Any, request: Any, fetch: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Send the request by `fetch`, and return its answer."""
