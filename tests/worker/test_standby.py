"""A worker that was assigned nothing waits in the group for as long as it takes."""

import asyncio
from pathlib import Path

import pytest

from tests.conftest import Kafka
from tests.worker.pipeline import Pipeline, running
from tests.worker.test_worker import ENDPOINTS, FIRST_S, Feed, assert_undisturbed, policy, worker_maker

pytestmark = pytest.mark.kafka

REBALANCE_S = 3.0


async def test_worker_without_partitions_takes_over_after_a_long_wait(kafka: Kafka, tmp_path: Path) -> None:
    pipeline = Pipeline.unique(kafka.bootstrap, partitions=1)
    await pipeline.create()
    await pipeline.send([policy(endpoint) for endpoint in ENDPOINTS], stamped_s=FIRST_S)
    feed, new_worker = Feed(pipeline), worker_maker(pipeline, tmp_path)
    first = new_worker("first", assignment_timeout_s=REBALANCE_S)
    second = new_worker("second", assignment_timeout_s=REBALANCE_S)
    await feed.send(12)
    async with running(first):
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        async with running(second):
            await asyncio.sleep(3 * REBALANCE_S)  # nothing to await: that nothing happens is the event
            first.kill()
            await feed.send(20)
            await assert_undisturbed(pipeline, feed.last_tick_s)
