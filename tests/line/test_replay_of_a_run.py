"""A run of one worker, of three, and of the two left of them: its export replays to the same decisions."""

import asyncio
import random
from pathlib import Path

import pytest

from headrace.children import Child
from tests.line.audit import check_ticks, read_decisions, until_decided
from tests.line.conftest import MakeLine
from tests.line.deployment import Line
from tests.line.traffic import ENDPOINTS, POLICY, Load, replayed

SPEED = 8.0
SECONDS = 80
REPLAYED = ENDPOINTS[::2]
"""Each takes two commands, and most of their time is that of starting."""


async def produce(line: Line, dice: random.Random) -> list[Child]:
    """Traffic while one worker becomes three, and one of them, whichever, is killed. Those that are left."""
    load, workers = Load(line, dice), [await line.start("worker")]
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        await load.until_sent(SECONDS // 4)
        more = [await line.start("worker", is_ready=False) for _ in range(2)]
        await line.settle(*more)
        await load.until_sent(SECONDS // 2)
        workers += more
        await line.kill(workers.pop(dice.randrange(len(workers))))
        await load.until_sent(SECONDS)
        load.stop.set()
    await until_decided(line.bootstrap, line.prefix, ENDPOINTS, load.last_tick_s)
    return workers


@pytest.mark.kafka
@pytest.mark.timeout(240)
async def test_an_export_replays_to_the_workers_own_decisions(make_line: MakeLine) -> None:
    line = make_line(speed=SPEED)
    policies = await line.create([POLICY.format(name=name) for name in ENDPOINTS])
    for worker in await produce(line, random.Random(3)):
        await line.drain(worker)

    decisions = await read_decisions(line.bootstrap, line.prefix)
    assert set(decisions) == set(ENDPOINTS)
    for first, last in check_ticks(decisions).values():
        assert last - first >= SECONDS - 15
    for endpoint in ENDPOINTS:
        assert {decision["action"] for decision in decisions[endpoint]} >= {"hold", "scale_up"}, endpoint
    replays = await asyncio.gather(*(replayed(line, endpoint, policies) for endpoint in REPLAYED))
    for endpoint, replay in zip(REPLAYED, replays, strict=True):
        assert replay == decisions[endpoint], endpoint
    await assert_same_bytes(line, policies, ENDPOINTS[0])


async def assert_same_bytes(line: Line, policies: Path, endpoint: str) -> None:
    """Two more processes, with other hash seeds, write what the first one wrote."""

    async def again(seed: str) -> Path:
        out = line.folder / f"{endpoint}.{seed}.jsonl"
        where = ["--telemetry", str(line.folder / f"{endpoint}.jsonl"), "--out", str(out)]
        await line.run("replay", "--policies", str(policies), *where, environment={"PYTHONHASHSEED": seed})
        return out

    outs = [line.folder / f"{endpoint}.out.jsonl", *await asyncio.gather(again("1"), again("4242"))]
    assert len({out.read_bytes() for out in outs}) == 1
    assert outs[0].stat().st_size > 0
