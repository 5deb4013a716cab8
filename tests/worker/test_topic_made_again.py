"""A topic that is deleted and made again with another number of partitions, under a worker at work."""

from pathlib import Path

import pytest
from aiokafka.admin import NewTopic

from headrace.exit_codes import ExitCode
from tests.worker.pipeline import Pipeline
from tests.worker.test_worker import BEHIND, ENDPOINTS, Feed, policy
from tests.worker.test_worker_command import Command
from wire.kafka import open_admin

pytestmark = pytest.mark.kafka


async def test_a_topic_made_again_with_fewer_partitions_ends_the_worker_in_one_line(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    await pipeline.send([policy(endpoint) for endpoint in ENDPOINTS])
    feed = Feed(pipeline)
    await feed.send(12)
    command = Command(pipeline, tmp_path, clock=BEHIND)
    topic = pipeline.names.real("telemetry.gpus")
    try:
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        async with open_admin(pipeline.access) as admin:
            await admin.delete_topics([topic])
            await admin.create_topics([NewTopic(topic, pipeline.partitions - 1, 1)])
        assert await command.ended() == ExitCode.PARTITIONS
    finally:
        command.process.kill()
    (line,) = [line for line in command.said.splitlines() if not line.startswith("{")]
    assert topic in line
    assert line.endswith("(hint: headrace topics check)")
