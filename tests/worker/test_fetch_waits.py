"""A fetch that leaves partitions out is answered soon, so that these are fetched again once they are emptied."""

from typing import Any

from aiokafka.protocol.fetch import FetchRequest

from streams.shell.fetch_waits import PARTIAL_WAIT_MS, FetchWaits
from tests.worker.test_fetched import A, Log, batch

LONG_MS = 500


class WaitingLog(Log):
    """A log whose fetches are noted, as how long they may wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_ms: list[int] = []

    async def _proc_fetch_request(self, assignment: Any, node_id: Any, request: FetchRequest) -> bool:
        self.waits_ms.append(request._max_wait_ms)
        return True

    async def fetch(self, wait_ms: int) -> None:
        await self._proc_fetch_request(self.positions, 1, FetchRequest(wait_ms, 1, 1000, 0, [("t", [(1, 5, 100)])]))


async def test_a_fetch_waits_shortly_while_what_was_fetched_of_a_partition_is_not_taken() -> None:
    log, waits = WaitingLog(), FetchWaits()
    waits.watch(log)
    waits.watch(log)
    await log.fetch(LONG_MS)
    log.add(A, [batch(0, b"a")])
    await log.fetch(LONG_MS)
    await log.fetch(PARTIAL_WAIT_MS // 2)
    await log.poll()
    await log.fetch(LONG_MS)
    assert log.waits_ms == [LONG_MS, PARTIAL_WAIT_MS, PARTIAL_WAIT_MS // 2, LONG_MS]
