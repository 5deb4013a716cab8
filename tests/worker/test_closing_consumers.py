"""A consumer is closed to the end although a fetch waits to be tried again, as while a broker is away."""

import asyncio

import pytest

from tests.worker.pipeline import Pipeline
from wire.kafka import open_consumer

pytestmark = pytest.mark.kafka


async def test_a_fetch_that_waits_does_not_end_the_closing(pipeline: Pipeline) -> None:
    consumer = open_consumer(pipeline.access, pipeline.names.real("policies"))
    await consumer.start()
    waiting = asyncio.create_task(asyncio.sleep(600))
    consumer._fetcher._pending_tasks.add(waiting)
    await consumer.stop()
    assert waiting.cancelled()
    assert not any(connection.connected() for connection in consumer._client._conns.values())
