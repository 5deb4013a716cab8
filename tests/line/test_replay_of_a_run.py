"""A run of one worker, of three, and of three of which one is killed: its export replays to the same decisions."""

import asyncio
import random
from pathlib import Path

import pytest

from headrace.children import Child
from tests.line.audit import check_ticks, read_decisions
from tests.line.conftest import MakeLine
from tests.line.deployment import Line
from tests.line.traffic import ENDPOINTS, POLICY, Load, replayed

SPEED = 6.0
SECONDS = 75
REPLAYED = ENDPOINTS[::2]
"""Each takes two commands, and most of their time is that of starting."""


async def produce(line: Line, workers: list[Child], dice: random.Random, *, is_killed: bool) -> list[Child]:
    """Traffic for SECONDS of the line's time; in the middle one worker may be killed. Those that are left."""
    load = Load(line, dice)
    loading = asyncio.create_task(load.run())
    await line.clock.sleep(SECONDS / 2)
    left = list(workers)
    if is_killed:
        await line.kill(left.pop(dice.randrange(len(left))))
    await line.clock.sleep(SECONDS / 2)
    load.stop.set()
    await loading
    await line.clock.sleep(10)  # the last ticks fall due five seconds after their time
    await line.settle(*left, timeout_s=120)
    return left


@pytest.mark.kafka
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("count", "is_killed"), [(1, False), (3, True)])
async def test_an_export_replays_to_the_workers_own_decisions(
    make_line: MakeLine, count: int, *, is_killed: bool
) -> None:
    line = make_line(speed=SPEED)
    policies = await line.create([POLICY.format(name=name) for name in ENDPOINTS])
    workers = [await line.start("worker", is_ready=False) for _ in range(count)]
    await line.settle(*workers)
    for worker in await produce(line, workers, random.Random(count), is_killed=is_killed):
        await line.drain(worker)

    decisions = await read_decisions(line.bootstrap, line.prefix)
    assert set(decisions) == set(ENDPOINTS)
    for first, last in check_ticks(decisions).values():
        assert last - first >= SECONDS - 15
    assert {decision["action"] for chain in decisions.values() for decision in chain} >= {"hold", "scale_up"}
    for endpoint in REPLAYED:
        assert await replayed(line, endpoint, policies) == decisions[endpoint], endpoint
    await assert_same_bytes(line, policies, ENDPOINTS[0])


async def assert_same_bytes(line: Line, policies: Path, endpoint: str) -> None:
    """Two more processes, with other hash seeds, write what the first one wrote."""
    outs = [line.folder / f"{endpoint}.out.jsonl"]
    for seed in ("1", "4242"):
        outs.append(line.folder / f"{endpoint}.{seed}.jsonl")
        where = ["--telemetry", str(line.folder / f"{endpoint}.jsonl"), "--out", str(outs[-1])]
        await line.run("replay", "--policies", str(policies), *where, environment={"PYTHONHASHSEED": seed})
    assert len({out.read_bytes() for out in outs}) == 1
    assert outs[0].stat().st_size > 0
