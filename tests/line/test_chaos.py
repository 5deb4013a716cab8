"""Three workers on twelve partitions, killed, paused and cut off at random: what they told is what nobody disturbed
would have told of the same log."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import structlog

from headrace.broker import EmbeddedBroker
from headrace.children import Children
from tests.conftest import BrokerFactory
from tests.line.audit import TICK_S, read_topic, until_decided
from tests.line.chaos import POLICY, Chaos, Traffic, Troubled, WideLine
from tests.line.chaos_audit import compare, read_told, told_by
from tests.worker.pipeline import Pipeline
from tests.worker.undisturbed import undisturbed_ticks
from wire.kafka import partition_of

TAKE_OVER_S, REBUILT_S = 9, 20
"""What a fault may cost a partition at most."""

log = structlog.get_logger()

pytestmark = pytest.mark.kafka


class QuickLine(WideLine):
    worker_session_s = 2.0


async def run(line: WideLine, broker: EmbeddedBroker, endpoints: int, chaos: Chaos, seed: int) -> Counter[str]:
    """The faults that there were."""
    names = [f"e{number}" for number in range(endpoints)]
    await line.create([POLICY.format(name=name, window_s=(60, 300)[n % 2]) for n, name in enumerate(names)])
    traffic, troubled = Traffic(line, names, random.Random(seed)), Troubled(line, broker, chaos, random.Random(seed))
    await troubled.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(traffic.run())
        await troubled.go_through()
        await troubled.settle()
        traffic.stop.set()
    await until_decided(line.bootstrap, line.prefix, names, traffic.last_tick_s)
    await troubled.end()
    arrived = Counter(map(_identity, await _values(line, "telemetry.requests")))
    assert arrived == traffic.sent, "the log itself lost or doubled samples"
    undisturbed = told_by(await undisturbed_ticks(Pipeline(line.bootstrap, line.prefix, line.partitions)))
    held = compare(await read_told(line.bootstrap, line.prefix), undisturbed, traffic.last_tick_s)
    ticks = sum(at_s <= traffic.last_tick_s for chain in undisturbed.windows.values() for at_s, _ in chain)
    lacking = {endpoint: len(times) for endpoint, times in held.items()}
    log.info("chaos_run", seed=seed, faults=dict(troubled.faults), ticks=ticks, ticks_held_for_lack_of_evidence=lacking)
    most = troubled.faults.total() * (TAKE_OVER_S + REBUILT_S) // TICK_S
    assert len(_ticks_of_partitions(held, line.partitions)) <= most
    return troubled.faults


def _ticks_of_partitions(held: Mapping[str, Iterable[int]], partitions: int) -> set[tuple[int, int]]:
    """A fault strikes a partition, with all its endpoints; a sum over faults of what each costs an endpoint would be
    more than all the ticks that there are."""
    return {(partition_of(endpoint, partitions), at_s) for endpoint, times in held.items() for at_s in times}


async def _values(line: WideLine, topic: str) -> list[bytes]:
    return [message.value or b"" for message in await read_topic(line.bootstrap, line.prefix + topic)]


def _identity(value: bytes) -> tuple[str, int, int]:
    sample = json.loads(value)
    return sample["endpoint"], sample["at_s"], sample["seq"]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1])
async def test_a_few_troubles_change_nothing(broker_factory: BrokerFactory, tmp_path: Path, seed: int) -> None:
    broker = await asyncio.to_thread(broker_factory)
    async with Children(tmp_path / "logs") as children:
        line = QuickLine(broker.bootstrap, "", tmp_path / "line", children)
        chaos = Chaos(faults=7, seconds=0.0, pause_s=5.0, calm_s=1.0)
        faults = await run(line, broker, 24, chaos, seed)
    assert faults.total() >= 7


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [6])
async def test_twenty_minutes_of_troubles_change_nothing(
    broker_factory: BrokerFactory, tmp_path: Path, seed: int
) -> None:
    broker = await asyncio.to_thread(broker_factory)
    async with Children(tmp_path / "logs") as children:
        line = WideLine(broker.bootstrap, "", tmp_path / "line", children)
        chaos = Chaos(faults=50, seconds=1200.0, pause_s=20.0, calm_s=24.0)
        faults = await run(line, broker, 200, chaos, seed)
    assert faults.total() >= 50
