"""Flushes that brokers or a storage hold up: the end gives them up, and tells what is unwritten."""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka.errors import KafkaConnectionError
from structlog.testing import capture_logs

from sinks.faults import NoFaults
from sinks.flusher import Flusher, TopicState
from sinks.root import TableRoot
from sinks.sink import DeltaSink, SinkPlan
from sinks.topic_ids import TopicIds
from tests.sinks.test_buffers import Sized, buffer_of
from wire.kafka import KafkaAccess


class Refusing:
    """Brokers that are gone."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def of(self, _: Iterable[str]) -> dict[str, str]:
        self.asked.set()
        raise KafkaConnectionError("refused")


class Silent(Refusing):
    """Brokers whose connection stays open."""

    async def of(self, _: Iterable[str]) -> dict[str, str]:
        self.asked.set()
        await asyncio.Event().wait()
        return {}


@pytest.mark.parametrize("brokers", [Refusing, Silent])
async def test_what_was_read_is_unwritten_once_brokers_are_given_up(brokers: type[Refusing]) -> None:
    ids = brokers()
    topic = TopicState(kafka_name="outcomes", writer=cast(Any, None), buffer=buffer_of(0, 1), topic_id="an id")
    topic.buffer.add(0, [Sized()] * 3, 53, 1.0)
    topic.buffer.add(1, [Sized()] * 2, 52, 1.0)
    with ThreadPoolExecutor(1) as threads, capture_logs() as logs:
        flusher = Flusher(cast(TopicIds, ids), cast(Any, None), threads, NoFaults(), lambda: 0.0)
        flushing = asyncio.create_task(flusher.flush(topic))
        await ids.asked.wait()
        flusher.give_up()
        async with asyncio.timeout(10):
            await flushing
    assert (topic.unwritten, topic.bytes) == (5, 0)
    assert {line["event"] for line in logs} <= {"brokers_unreachable"}


async def test_the_end_gives_up_commits_that_a_storage_refuses(tmp_path: Path) -> None:
    """A commit's thread tries again until it is told to end."""
    access = KafkaAccess(bootstrap="127.0.0.1:9092")
    root = TableRoot(address=str(tmp_path))
    sink = DeltaSink(SinkPlan(access=access, root=root, monotonic_s=lambda: 0.0, topics=("outcomes",)))
    (topic,) = sink._topics.values()

    async def refused() -> None:
        assert await asyncio.to_thread(sink._give_up.wait, 30), "nobody gives up"

    topic.flush = asyncio.create_task(refused())
    topic.buffer.place(0, 50)
    topic.buffer.add(0, [Sized()] * 3, 53, 1.0)
    with capture_logs() as logs:
        await sink._tell_unwritten()
    assert [line["messages"] for line in logs if line["event"] == "messages_left_unwritten"] == [3]
