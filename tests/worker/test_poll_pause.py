"""A poll waits for a moment after one that brought something, and only then; not after one that found a backlog."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from faust.transport.consumer import ThreadDelegateConsumer
from faust.types import TP

from streams.shell.batching_consumer import FULL, POLL_PAUSE_S, BatchingConsumer
from streams.shell.fetched import Polled
from streams.shell.unread_batches import UnreadBatches
from tests.wire.messages import consumed

HERE = TP("telemetry.requests", 3)


async def test_a_poll_waits_after_one_that_brought_something(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    full = Polled([consumed(HERE.topic, b"{}")], FULL.size)
    answers: list[dict[TP, Any]] = [{}, {HERE: [Polled(full.messages, 2)]}, {HERE: [full]}, {}, {}]

    async def getmany(*_: object) -> dict[TP, Any]:
        steps.append("poll")
        return answers.pop(0)

    async def sleep(seconds: float) -> None:
        assert seconds == POLL_PAUSE_S
        steps.append("pause")

    monkeypatch.setattr(ThreadDelegateConsumer, "_getmany", getmany)
    monkeypatch.setattr("streams.shell.batching_consumer.asyncio.sleep", sleep)
    consumer = consumer_of(HERE.partition)
    events = [await consumer._getmany({HERE}, 0.0) for _ in range(5)]
    assert [list(event) for event in events] == [[], [HERE], [HERE], [], []]
    assert steps == ["poll", "poll", "pause", "poll", "poll", "poll"]


def consumer_of(partition: int) -> BatchingConsumer:
    """What a poll needs of a consumer that has a partition; Faust's own is made of a whole application."""
    consumer = BatchingConsumer.__new__(BatchingConsumer)
    consumer._unread = UnreadBatches()
    consumer._polling = asyncio.Lock()
    consumer._pauses = False
    consumer._sessions = {partition: 1}
    consumer._thread = SimpleNamespace(positions=dict)  # type: ignore[assignment]  # all that is asked of it
    return consumer
