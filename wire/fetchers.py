"""Closes aiokafka's consumers to the end, also while a fetch waits to be tried again.

aiokafka ends the closing with the cancellation of such a fetch: whoever closes is taken for cancelled, and the
connections stay open.
"""

import asyncio

from aiokafka.consumer import consumer as aiokafka_consumer
from aiokafka.consumer.fetcher import Fetcher


class ClosingFetcher(Fetcher):  # type: ignore[misc]  # aiokafka has no types
    """As aiokafka's, but that all its tasks are waited for, however they end."""

    async def close(self) -> None:
        self._closed = True
        tasks = {self._fetch_task, *self._pending_tasks}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for waiter in list(self._fetch_waiters):
            self._notify(waiter)


def close_fetchers() -> None:
    """Have every consumer of this process fetch by a ClosingFetcher."""
    aiokafka_consumer.Fetcher = ClosingFetcher
