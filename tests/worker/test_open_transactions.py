"""Transactions that somebody else left open, or opens under a worker's own transactional id."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
from aiokafka import AIOKafkaProducer

from tests.line.audit import until
from tests.worker.pipeline import Pipeline, WorkerProcess, running
from tests.worker.test_worker import ENDPOINTS, FIRST_S, Feed, NewWorker, assert_undisturbed, policy, worker_maker
from wire.kafka import open_producer

pytestmark = pytest.mark.kafka

GARBAGE = b'{"garbage": true}'


@pytest.fixture
async def feed(pipeline: Pipeline) -> Feed:
    await pipeline.send([policy(endpoint) for endpoint in ENDPOINTS], stamped_s=FIRST_S)
    return Feed(pipeline)


@pytest.fixture
def new_worker(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> NewWorker:
    return worker_maker(pipeline, tmp_path_factory.mktemp("workers"))


@asynccontextmanager
async def open_transaction(pipeline: Pipeline, transactional_id: str) -> AsyncIterator[AIOKafkaProducer]:
    """With a record in what is remembered and in what is decided of each partition; whoever opened it is gone."""
    producer = open_producer(pipeline.access, transactional_id=transactional_id, transaction_timeout_ms=60_000)
    await producer.start()
    await producer.begin_transaction()
    for topic in ("controllers", "decisions.scaling"):
        for partition in range(pipeline.partitions):
            await producer.send_and_wait(pipeline.names.real(topic), GARBAGE, ENDPOINTS[0].encode(), partition)
    try:
        yield producer
    finally:
        await asyncio.wait({asyncio.create_task(producer.stop())}, timeout=5)


@pytest.mark.slow
async def test_what_was_left_open_under_the_partitions_own_id_is_ended(
    pipeline: Pipeline, feed: Feed, new_worker: NewWorker
) -> None:
    await feed.send(20)
    async with running(first := new_worker("first")):
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        # While the worker works: it is fenced, and takes its partitions over again.
        usurped = [f"{pipeline.prefix}worker-{partition}" for partition in range(pipeline.partitions)]
        async with open_transaction(pipeline, usurped[0]), open_transaction(pipeline, usurped[1]):
            await feed.send(20)
            await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        assert "partition_fenced" in first.said
        first.kill()
        # While none does.
        async with open_transaction(pipeline, usurped[2]):
            await feed.send(32)
            async with running(new_worker("second")):
                await assert_undisturbed(pipeline, feed.last_tick_s)


async def test_memory_behind_a_strangers_open_transaction_is_waited_for(
    pipeline: Pipeline, feed: Feed, new_worker: NewWorker
) -> None:
    """What a worker committed behind it cannot be read: a successor that went on would decide it again."""
    await feed.send(20)
    async with running(first := new_worker("first")):
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        async with open_transaction(pipeline, "a-stranger") as stranger:
            await feed.send(20)
            await until(partial(are_written, pipeline, feed.last_tick_s))
            first.kill()
            await feed.send(12)
            async with running(second := new_worker("second")):
                await until(partial(has_said, second, "partitions_assigned"))
                await asyncio.sleep(1.0)  # nothing to await: that nothing is decided is the event
                assert "partition_taken_over" not in second.said
                await stranger.abort_transaction()
                await assert_undisturbed(pipeline, feed.last_tick_s)


async def are_written(pipeline: Pipeline, tick_s: int) -> bool:
    """Whether every endpoint's memory of a tick is in the log, readable or not."""
    written = await pipeline.read("controllers", "read_uncommitted")
    memories = [msgspec.json.decode(message.value) for message in written if message.value != GARBAGE]
    return {memory["endpoint"] for memory in memories if memory["at_s"] == tick_s} == set(ENDPOINTS)


async def has_said(worker: WorkerProcess, event: str) -> bool:
    return event in worker.said
