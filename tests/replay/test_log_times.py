"""Where a time is in a log, also where the broker cannot say it: it decompresses the batch that holds the time."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import UnknownError

from headrace.export_logs import EndpointLogs
from wire.topics import TopicNames

FIRST, END = 100, 4100
"""Offsets of a log with one message a second."""


class PoisonedLog:
    """A consumer of such a log, of which the broker cannot look into the batches with some offsets."""

    def __init__(self, poisoned: range) -> None:
        self._poisoned = poisoned
        self._next = FIRST

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def partitions_for_topic(self, _: str) -> set[int]:
        return {0}

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        ((tp, at_ms),) = times.items()
        offset = max(FIRST, -(-at_ms // 1000))
        if offset in self._poisoned:
            raise UnknownError
        return {tp: SimpleNamespace(offset=offset) if offset < END else None}

    async def beginning_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, FIRST)

    async def end_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, END)

    def assign(self, _: object) -> None: ...
    def seek(self, _: TopicPartition, offset: int) -> None:
        self._next = offset

    async def position(self, _: TopicPartition) -> int:
        return self._next

    async def getmany(self, tp: TopicPartition, **_: int) -> dict[TopicPartition, list[Any]]:
        found = range(self._next, min(self._next + 500, END))
        self._next = found.stop
        return {tp: [SimpleNamespace(offset=offset, timestamp=offset * 1000) for offset in found]}


@pytest.mark.parametrize("at_s", [50, 999, 1000, 1500.5, 3999, 4099, 5000])
@pytest.mark.parametrize("poisoned", [range(0), range(1000, 1010), range(900, 4000), range(5000)], ids=str)
async def test_a_time_is_found_behind_what_the_broker_cannot_read(poisoned: range, at_s: float) -> None:
    logs = EndpointLogs("chat", TopicNames(), lambda: cast(AIOKafkaConsumer, PoisonedLog(poisoned)))
    assert await logs.offset_at("signals", at_s) == min(max(FIRST, -(-at_s // 1)), END)
