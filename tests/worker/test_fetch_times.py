"""An answer of a fetch tells of the log as it was when it was asked for, however late it is taken."""

import asyncio
from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition
from faust.types import TP

from streams.shell.fetch_times import FetchTimes

HERE, THERE = TP("t", 0), TP("t", 1)
REQUEST = SimpleNamespace(topics=[("t", [(0, 5, 100), (1, 7, 100)])])


class SlowFetcher:
    """Of its two partitions only the first is answered, once `answer` is set; the other's answer does not fit."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.states = {TopicPartition(*tp): SimpleNamespace(timestamp=None) for tp in (HERE, THERE)}

    def state_value(self, tp: TopicPartition) -> SimpleNamespace:
        return self.states[tp]

    async def _proc_fetch_request(self, assignment: Any, node_id: Any, request: Any) -> bool:
        await self.answer.wait()
        self.states[TopicPartition(*HERE)].timestamp = 1
        return True


async def test_the_moment_of_asking_counts_and_that_of_partitions_with_an_answer_alone() -> None:
    now_s, fetcher = [100.0], SlowFetcher()
    times = FetchTimes(lambda: now_s[0])
    times.watch(fetcher)
    times.watch(fetcher)
    fetching = asyncio.create_task(fetcher._proc_fetch_request(fetcher, 1, REQUEST))
    await asyncio.sleep(0)
    now_s[0] = 160.0
    fetcher.answer.set()
    assert await fetching
    assert times.asked_s(HERE) == 100.0
    assert times.asked_s(THERE) is None
