"""Strangers write into `controllers` of a real Kafka: a worker leaves out what is nobody's, and stops in one line at
what stands where an endpoint's memory should be."""

from pathlib import Path

import pytest

from headrace.exit_codes import ExitCode
from headrace.policies.topic import publish
from tests.worker.pipeline import Pipeline, broken_links
from tests.worker.test_worker import BEHIND, ENDPOINTS, Feed, policy
from tests.worker.test_worker_command import Command
from wire.kafka import open_producer, partition_of

pytestmark = pytest.mark.kafka

BROKEN, *OTHERS = ENDPOINTS
JUNK = b'{"scaling": 5}\n'


async def plant(pipeline: Pipeline, key: str, partition: int) -> None:
    async with open_producer(pipeline.access) as producer:
        await producer.send_and_wait(pipeline.names.real("controllers"), JUNK, key.encode(), partition)


async def decides(pipeline: Pipeline, folder: Path, feed: Feed, endpoints: list[str]) -> str:
    """A worker goes on with these until the newest tick, and is stopped in order; what it said."""
    await feed.send(12)
    command = Command(pipeline, folder, clock=BEHIND)
    try:
        await pipeline.until_decided(endpoints, feed.last_tick_s)
        command.process.terminate()
        assert await command.ended() == ExitCode.OK, command.said
    finally:
        command.process.kill()
    return command.said


async def test_junk_in_controllers(pipeline: Pipeline, tmp_path: Path) -> None:
    policies = [policy(endpoint) for endpoint in ENDPOINTS]
    await publish(pipeline.access, pipeline.names, policies, clock=BEHIND)
    own = partition_of(BROKEN, pipeline.partitions)
    for key, partition in (("nobody", own), (BROKEN, (own + 1) % pipeline.partitions)):
        await plant(pipeline, key, partition)
    feed = Feed(pipeline)
    said = await decides(pipeline, tmp_path, feed, ENDPOINTS)
    assert said.count('"event": "records_left_out"') == 2

    await plant(pipeline, BROKEN, own)
    command = Command(pipeline, tmp_path, clock=BEHIND)
    try:
        assert await command.ended() == ExitCode.UNREADABLE
    finally:
        command.process.kill()
    (line,) = [line for line in command.said.splitlines() if not line.startswith("{")]
    assert line.startswith(f"{pipeline.names.real('controllers')}, partition {own}, offset ")
    assert f", key {BROKEN}: scaling: 5: Expected `object`, got `int` (wrong_type); " in line

    await publish(pipeline.access, pipeline.names, [], delete=[BROKEN], clock=BEHIND)
    await decides(pipeline, tmp_path, feed, OTHERS)
    decisions = await pipeline.decisions()
    assert all(broken_links(decisions[endpoint]) == [] for endpoint in ENDPOINTS)
    assert {decisions[endpoint][-1].at_s for endpoint in OTHERS} == {feed.last_tick_s}
    assert decisions[BROKEN][-1].at_s < feed.last_tick_s
