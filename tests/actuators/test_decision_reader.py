"""A reader of decisions ends in time, whether brokers are there or not."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from structlog.testing import capture_logs

from actuators.decision_reader import DecisionReader
from actuators.log_tail import LogTail

PARTITION = TopicPartition("decisions.scaling", 0)


class Away:
    """A consumer whose brokers are gone: aiokafka's commit tries again for ever."""

    async def commit(self, _: Mapping[TopicPartition, int]) -> None:
        await asyncio.Event().wait()


class Settled:
    """An owner, and the maker of owners, with outcomes in the log that no offset was committed for."""

    has_ended = False

    @property
    def tail(self) -> LogTail:
        raise AssertionError("nothing is read")

    def begin(self, _: frozenset[TopicPartition]) -> "Settled":
        return self

    def settled_to(self) -> Mapping[TopicPartition, int]:
        return {PARTITION: 7}

    async def end(self) -> None:
        self.has_ended = True


async def test_the_end_waits_for_no_broker_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actuators.decision_reader.COMMIT_PATIENCE_S", 0.05)
    owner = Settled()
    reader = DecisionReader(cast(AIOKafkaConsumer, cast(Any, Away())), PARTITION.topic, owner)
    await reader.on_partitions_assigned([PARTITION])
    with capture_logs() as logs:
        async with asyncio.timeout(10):
            await reader.end_owner()
    assert owner.has_ended
    assert [line["why"] for line in logs if line["event"] == "offsets_not_committed"] == ["no answer within 0.05 s"]
