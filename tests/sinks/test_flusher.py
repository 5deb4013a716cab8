"""A flush whose brokers do not answer: what it holds is told as unwritten when the waiting is given up."""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from aiokafka.errors import KafkaConnectionError
from structlog.testing import capture_logs

from sinks.faults import NoFaults
from sinks.flusher import Flusher, TopicState
from sinks.topic_ids import TopicIds
from tests.sinks.test_buffers import Sized, buffer_of


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
