"""A number of partitions that grows under workers: each ends with its own exit code, and nothing is decided twice."""

from collections import defaultdict
from pathlib import Path

import pytest
from aiokafka.admin import NewPartitions

from headrace.exit_codes import ExitCode
from headrace.policies.topic import publish
from tests.worker.pipeline import Pipeline, broken_links, running
from tests.worker.test_worker import BEHIND, ENDPOINTS, FIRST_S, Feed, policy, worker_maker
from tests.worker.test_worker_command import Command
from wire.kafka import open_admin, partition_of
from wire.topics import CO_PARTITIONED

pytestmark = pytest.mark.kafka

GROWN = 6
STALL_S = "6"
"""The watchdog looks six times in it."""


async def grow(pipeline: Pipeline, *topics: str) -> None:
    async with open_admin(pipeline.access) as admin:
        await admin.create_partitions(
            {pipeline.names.real(topic): NewPartitions(total_count=GROWN) for topic in topics}
        )


async def test_endpoints_that_move_are_decided_in_one_place(pipeline: Pipeline, tmp_path: Path) -> None:
    """They begin anew in their new partition, once their policies are published again; the others go on."""
    policies = [policy(endpoint) for endpoint in ENDPOINTS]
    await publish(pipeline.access, pipeline.names, policies, clock=BEHIND)
    feed = Feed(pipeline)
    await feed.send(30)
    command = Command(pipeline, tmp_path, "--stall-seconds", STALL_S, clock=BEHIND)
    try:
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        await grow(pipeline, *CO_PARTITIONED, "signals", "decisions.scaling")
        assert await command.ended() == ExitCode.PARTITIONS
    finally:
        command.process.kill()
    assert f"{pipeline.names.real('telemetry.requests')} has 6 partitions, and had 4" in command.said
    assert "Traceback" not in command.said
    moved = {name for name in ENDPOINTS if partition_of(name, GROWN) != partition_of(name, pipeline.partitions)}
    assert 0 < len(moved) < len(ENDPOINTS)
    pipeline.partitions = GROWN
    changes = await publish(pipeline.access, pipeline.names, policies, clock=BEHIND)
    assert set(changes.created) == moved
    await feed.send(32)
    async with running(worker_maker(pipeline, tmp_path)("after")):
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
    ticks: defaultdict[str, list[int]] = defaultdict(list)
    for endpoint, decisions in (await pipeline.decisions()).items():
        chains = [number for number, decision in enumerate(decisions) if decision.previous_id is None]
        assert len(chains) == (2 if endpoint in moved else 1)
        assert len(broken_links(decisions)) == len(chains) - 1
        ticks[endpoint] = sorted(decision.at_s for decision in decisions)
        assert len(set(ticks[endpoint])) == len(ticks[endpoint]), f"{endpoint}: ticks decided twice"
    assert {name for name in ENDPOINTS if ticks[name] == list(range(FIRST_S + 5, feed.last_tick_s + 1, 5))} >= (
        set(ENDPOINTS) - moved
    )
