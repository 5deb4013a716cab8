"""Workers, sink and broker killed again and again under load: no tick is missing or doubled, no row either.

What every run of the tests does of it is in test_closed_loop.py; here there are bad messages too. Afterwards the run is
exported and replayed: the workers' own decisions come out again, ids included.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from headrace.broker import EmbeddedBroker
from headrace.children import Child, Children
from headrace.exit_codes import ExitCode
from sinks.faults import Point
from streams.shell.fault_points import FaultPoint
from tests.conftest import BrokerFactory
from tests.line.audit import check_ticks, count_everything, read_decisions, until_decided, until_kept
from tests.line.deployment import PARTITIONS, Line
from tests.line.traffic import ENDPOINTS, POLICY, Load, replayed
from tests.sinks.sink_process import SinkSpec
from tests.worker.worker_process import WorkerSpec

SPEED = 4.0
TOPICS = [
    "telemetry.requests",
    "telemetry.replicas",
    "telemetry.targets",
    "policies",
    "signals",
    "decisions.scaling",
    "controllers",
]
IN_TRANSACTION = [FaultPoint.TRANSACTION_BEGUN, FaultPoint.RECORDS_SENT, FaultPoint.RECORDS_ACKNOWLEDGED]
IN_FLUSH = [Point.AFTER_DEAD_LETTERS, Point.BEFORE_COMMIT, Point.AFTER_COMMIT, Point.AFTER_OFFSETS]


class Troubled:
    """A line whose processes are killed, each started again before the next is."""

    def __init__(self, line: Line, broker: EmbeddedBroker, workers: int, dice: random.Random) -> None:
        self.line = line
        self.broker = broker
        self.kills = 0
        self._dice = dice
        self._count = workers
        self.workers: list[Child] = []
        self.sink: Child | None = None

    async def start(self) -> None:
        self.sink, *self.workers = await self.line.start_all("sink", *["worker"] * self._count)

    async def kill_worker(self) -> None:
        victim = self.workers.pop(self._dice.randrange(len(self.workers)))
        await self.line.kill(victim)
        self.workers.append(await self.line.start("worker", is_ready=False))

    async def kill_sink(self) -> None:
        assert self.sink is not None
        await self.line.kill(self.sink)
        self.sink = await self.line.start("sink", is_ready=False)

    async def kill_broker(self) -> None:
        self.broker.kill()
        await asyncio.to_thread(self.broker.start)

    async def die_in_transaction(self) -> None:
        """A worker takes the place of all plain ones and kills itself inside a transaction."""
        for worker in self.workers:
            await self.line.kill(worker)
            self.kills += 1
        line = self.line
        spec = WorkerSpec(
            bootstrap=line.bootstrap,
            prefix=line.prefix,
            partitions=PARTITIONS,
            fault_at=self._dice.choice(IN_TRANSACTION),
            fault_after=self._dice.randint(1, 3),
        )
        await line.run_to_its_death("tests.worker.worker_process", msgspec.json.encode(spec).decode())
        self.workers = [await line.start("worker", is_ready=False) for _ in range(self._count)]

    async def die_in_flush(self) -> None:
        """A sink takes the plain one's place and kills itself between two steps of a flush."""
        assert self.sink is not None
        line = self.line
        await line.kill(self.sink)
        spec = SinkSpec(
            bootstrap=line.bootstrap,
            prefix=line.prefix,
            folder=str(line.tables),
            group=f"{line.prefix}sink",
            topics=tuple(TOPICS),
            signal_at=self._dice.choice(IN_FLUSH),
            passing=self._dice.randint(1, 2),
        )
        await line.run_to_its_death("tests.sinks.sink_process", msgspec.json.encode(spec).decode())
        self.kills += 1
        self.sink = await line.start("sink", is_ready=False)

    async def disturb(self, action: Callable[[], Awaitable[None]]) -> None:
        await self.line.clock.sleep(self._dice.uniform(0.0, 8.0))  # kills come at any moment
        await action()
        self.kills += 1
        await self._revive()

    async def _revive(self) -> None:
        """Start again, as whoever supervises them would, those that ended since Kafka was away when they started."""
        assert self.sink is not None
        for child in [*self.workers, self.sink]:
            status = child.process.poll()
            if status is None:
                continue
            assert status == ExitCode.UNAVAILABLE, child.ended_message()
            await self.line.kill(child)
            again = await self.line.start("sink" if child is self.sink else "worker", is_ready=False)
            if child is self.sink:
                self.sink = again
            else:
                self.workers[self.workers.index(child)] = again

    async def end(self, last_tick_s: int) -> None:
        """Let everything be decided and kept, then end in order."""
        await self._revive()
        await self.line.settle(*self.workers)
        await until_decided(self.line.bootstrap, self.line.prefix, ENDPOINTS, last_tick_s)
        for worker in self.workers:
            await self.line.drain(worker)
        assert self.sink is not None
        await self.line.settle(self.sink)
        await until_kept(self.line.bootstrap, self.line.prefix, self.line.tables, TOPICS)
        await self.line.drain(self.sink)


async def check(line: Line, load: Load, policies: Path, replays: int) -> None:
    """`replays`: of how many endpoints the export is replayed too."""
    counts = await count_everything(line.bootstrap, line.prefix, line.tables, TOPICS)
    requests = counts["telemetry.requests"]
    assert requests.kept + requests.dead == load.sent
    decisions = await read_decisions(line.bootstrap, line.prefix)
    assert set(decisions) == set(ENDPOINTS)
    check_ticks(decisions)
    again = await asyncio.gather(*(replayed(line, endpoint, policies) for endpoint in ENDPOINTS[:replays]))
    for endpoint, replay in zip(ENDPOINTS, again, strict=False):
        assert replay == decisions[endpoint], endpoint


async def run(broker: EmbeddedBroker, folder: Path, *, workers: int, rounds: int, seed: int) -> int:
    dice = random.Random(seed)
    async with Children(folder / "logs") as children:
        line = Line(broker.bootstrap, "", folder / "line", children, SPEED)
        policies = await line.create([POLICY.format(name=name) for name in ENDPOINTS])
        troubled, load = Troubled(line, broker, workers, dice), Load(line, dice)
        await troubled.start()
        kinds = [
            troubled.kill_worker,
            troubled.kill_sink,
            troubled.kill_broker,
            troubled.die_in_transaction,
            troubled.die_in_flush,
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            for _ in range(rounds):
                dice.shuffle(kinds)
                for action in kinds:
                    await troubled.disturb(action)
            load.stop.set()
        await troubled.end(load.last_tick_s)
        await check(line, load, policies, replays=len(ENDPOINTS) if rounds > 1 else 2)
    return troubled.kills


@pytest.fixture
def killable_broker(broker_factory: BrokerFactory) -> EmbeddedBroker:
    return broker_factory()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_each_process_is_killed_once(killable_broker: EmbeddedBroker, tmp_path: Path) -> None:
    assert await run(killable_broker, tmp_path, workers=2, rounds=1, seed=1) >= 5


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("seed", [2, 3])
async def test_killed_twenty_times(killable_broker: EmbeddedBroker, tmp_path: Path, seed: int) -> None:
    assert await run(killable_broker, tmp_path, workers=3, rounds=4, seed=seed) >= 20
