"""A take-over after the log cleaner went through what is remembered: the newest memory of each endpoint is enough."""

import asyncio
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.conftest import BrokerFactory
from tests.worker.pipeline import Pipeline, running
from tests.worker.test_worker import ENDPOINTS, FIRST_S, Feed, assert_undisturbed, policy, worker_maker
from wire.kafka import open_admin, open_consumer

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EAGER = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.compaction.lag.ms": "0"}
SMALL_SEGMENTS = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
}


async def clean_often(pipeline: Pipeline, topic: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, pipeline.names.real(topic), configs=SMALL_SEGMENTS)
    async with open_admin(pipeline.access) as admin:
        await admin.alter_configs([resource])


async def are_cleaned(pipeline: Pipeline, topic: str) -> bool:
    """Whether the log of each partition that has one has fewer records than half of its offsets."""
    counts = dict.fromkeys(range(pipeline.partitions), 0)
    for message in await pipeline.read(topic, "read_uncommitted"):
        counts[message.partition] += 1
    async with open_consumer(pipeline.access, isolation_level="read_uncommitted") as consumer:
        tps = [TopicPartition(pipeline.names.real(topic), number) for number in counts]
        ends = {tp.partition: end for tp, end in (await consumer.end_offsets(tps)).items()}
    return all(count < ends[number] / 2 for number, count in counts.items() if ends[number])


async def test_take_over_after_the_memory_was_compacted(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = await asyncio.to_thread(broker_factory, None, 0, EAGER)
    pipeline = Pipeline.unique(broker.bootstrap)
    await pipeline.create()
    await clean_often(pipeline, "controllers")
    await pipeline.send([policy(endpoint) for endpoint in ENDPOINTS], stamped_s=FIRST_S)
    feed, new_worker = Feed(pipeline), worker_maker(pipeline, tmp_path)
    async with running(first := new_worker("first")):
        async with asyncio.timeout(90):
            while True:
                await feed.send(10)  # a segment ends with the next write
                await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
                if await are_cleaned(pipeline, "controllers"):
                    break
        first.kill()
    await feed.send(32)
    async with running(new_worker("second")):
        await assert_undisturbed(pipeline, feed.last_tick_s)
