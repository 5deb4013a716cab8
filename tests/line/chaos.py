"""Workers and broker killed, paused and restarted at random under steady traffic of many endpoints."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from headrace.broker import EmbeddedBroker
from headrace.children import Child
from headrace.exit_codes import ExitCode
from streams.shell.fault_points import FaultPoint
from tests.line.audit import TICK_S
from tests.line.deployment import Line, Sender
from tests.worker.worker_process import WorkerSpec

WORKERS = 3
POLICY = """
endpoint: {name}
scaleTargetRef: {{kind: Deployment, name: {name}}}
minReplicas: 1
maxReplicas: 30
metrics: [{{name: inflight_requests, target: 4}}, {{name: queue_depth, target: 2}}]
scaleDown: {{windowSeconds: {window_s}}}
"""
SUPPLY_EVERY_S = 10
RESTARTED = (ExitCode.UNAVAILABLE, ExitCode.STUCK)
"""What a supervisor starts again."""
ON_TIME_S = 0.3
PASSED_OFTEN = [point for point in FaultPoint if point is not FaultPoint.SKIPPED]
"""Points that every worker comes by within seconds."""


class WideLine(Line):
    """As many partitions as in the contract's examples, and Kafka's own least session."""

    partitions = 12
    worker_session_s = 6.0


@dataclass(frozen=True, kw_only=True)
class Chaos:
    """`faults` at least, over `seconds` at least, with pauses of up to `pause_s`, and up to `calm_s` between two."""

    faults: int
    seconds: float
    pause_s: float
    calm_s: float


class Traffic:
    """One replica an endpoint, a sample a second: loads that rise and fall, and now and then a sample is replaced.

    A second is sent once the one before is in the log. Supply is told in the middle between two ticks, and not at all
    while samples are behind: the order among topics matters only around a tick.
    """

    def __init__(self, line: Line, endpoints: list[str], dice: random.Random) -> None:
        self._line = line
        self._endpoints = endpoints
        self._dice = dice
        self._waiting = dict.fromkeys(endpoints, 0)
        self.stop = asyncio.Event()
        self.sent: Counter[tuple[str, int, int]] = Counter()
        """Endpoint, `at_s` and `seq` of each sample."""
        self._second = 0

    @property
    def last_tick_s(self) -> int:
        """The newest tick that the samples complete: two seconds are left for late ones."""
        return (self._second - 2) // TICK_S * TICK_S

    async def run(self) -> None:
        clock = self._line.clock
        begin_s = self._second = int(clock.now_s())
        async with self._line.sender() as sender:
            while not self.stop.is_set():
                await clock.sleep(self._second + 1 - clock.now_s())
                await self._send_second(sender, self._second, self._second - begin_s)
                await sender.flush()
                self._second += 1
                if self._second % TICK_S == TICK_S - 1 and clock.now_s() < self._second + ON_TIME_S:
                    await clock.sleep(0.5)
                    await self._tell_supply(sender, self._second)

    async def _send_second(self, sender: Sender, at_s: int, since_s: int) -> None:
        for number, endpoint in enumerate(self._endpoints):
            is_busy = (since_s + 7 * number) // 40 % 2 == 1
            await self._send(sender, endpoint, at_s, 0, self._dice.randrange(4) + (14 if is_busy else 2))
            if self._dice.random() < 0.02 and since_s > 4:
                await self._send(sender, endpoint, at_s - self._dice.randrange(1, 4), at_s, self._dice.randrange(8))

    async def _send(self, sender: Sender, endpoint: str, at_s: int, seq: int, running: int) -> None:
        """`seq` above 0 replaces a sample that was sent before."""
        arrivals = self._dice.randrange(6)
        fields = {"replica": "r1", "epoch": "1", "source": "engine", "at_s": at_s, "seq": seq, "running": running}
        counts = {"arrivals": arrivals, "waiting": self._dice.randrange(3), "rejections": 0}
        await sender.send_record("telemetry.requests", endpoint=endpoint, **fields, **counts)
        self.sent[endpoint, at_s, seq] += 1

    async def _tell_supply(self, sender: Sender, at_s: int) -> None:
        for number, endpoint in enumerate(self._endpoints):
            if (at_s // TICK_S + number) % (SUPPLY_EVERY_S // TICK_S):
                continue
            fields = {"replica": "r1", "epoch": "1", "state": "ready", "seq": at_s}
            await sender.send_record("telemetry.replicas", endpoint=endpoint, at_s=at_s, **fields)
            spec = 2 + (at_s // 60 + number) % 5
            await sender.send_record("telemetry.targets", endpoint=endpoint, at_s=at_s, seq=at_s, spec_replicas=spec)


class Troubled:
    """Three workers and their broker; `faults` counts what was done to them, each trouble once."""

    def __init__(self, line: Line, broker: EmbeddedBroker, chaos: Chaos, dice: random.Random) -> None:
        self.line = line
        self.faults: Counter[str] = Counter()
        self._broker = broker
        self._chaos = chaos
        self._dice = dice
        self._workers: list[Child] = []

    async def start(self) -> None:
        self._workers = await self.line.start_all(*["worker"] * WORKERS)

    async def go_through(self) -> None:
        """Each kind in turn, in an order that the dice draw anew each round, and to workers that live."""
        clock, ends_s = self.line.clock, self.line.clock.now_s() + self._chaos.seconds
        kinds: list[Callable[[], Awaitable[None]]] = [
            *(self._kill, self._kill, self._pause, self._pause, self._die_in_transaction),
            *(self._restart_broker, self._freeze_broker),
        ]
        while self.faults.total() < self._chaos.faults or clock.now_s() < ends_s:
            self._dice.shuffle(kinds)
            for kind in kinds:
                await clock.sleep(self._dice.uniform(0.0, self._chaos.calm_s))  # troubles come at any moment
                await self._revive()
                await kind()
                await self._revive()

    async def settle(self) -> None:
        await self._revive()
        await self.line.settle(*self._workers)

    async def end(self) -> None:
        for worker in self._workers:
            await self.line.drain(worker)

    def _victim(self) -> Child:
        return self._dice.choice(self._workers)

    async def _kill(self) -> None:
        self.faults["worker killed"] += 1
        await self._replace(self._victim())

    async def _pause(self) -> None:
        """It is fenced when it is missed, and comes back as a member."""
        self.faults["worker paused"] += 1
        await self._stop_for_a_while(self._victim())

    async def _stop_for_a_while(self, child: Child) -> None:
        child.process.send_signal(signal.SIGSTOP)
        await self.line.clock.sleep(self._dice.uniform(0.5, self._chaos.pause_s))  # that it is missed is the event
        child.process.send_signal(signal.SIGCONT)

    async def _die_in_transaction(self) -> None:
        """One is killed; the one in its place kills itself inside a transaction, or when it takes over."""
        self.faults["worker killed at a named point"] += 1
        victim = self._victim()
        await self.line.kill(victim)
        line = self.line
        spec = WorkerSpec(
            bootstrap=line.bootstrap,
            prefix=line.prefix,
            partitions=line.partitions,
            session_timeout_s=line.worker_session_s,
            fault_at=self._dice.choice(PASSED_OFTEN),
            fault_after=self._dice.randint(1, 4),
        )
        await line.run_to_its_death("tests.worker.worker_process", msgspec.json.encode(spec).decode())
        self._workers[self._workers.index(victim)] = await line.start("worker", is_ready=False)

    async def _restart_broker(self) -> None:
        self.faults["broker killed"] += 1
        self._broker.kill()
        await asyncio.to_thread(self._broker.start)

    async def _freeze_broker(self) -> None:
        """No connection breaks, and nothing answers for a while."""
        self.faults["broker paused"] += 1
        self._broker.freeze()
        await self.line.clock.sleep(self._dice.uniform(0.5, self._chaos.pause_s / 2))  # as above
        self._broker.thaw()

    async def _revive(self) -> None:
        """Start again those that ended since Kafka was away, or since they found themselves stuck."""
        for worker in list(self._workers):
            if (status := worker.process.poll()) is not None:
                assert status in RESTARTED, worker.ended_message()
                await self._replace(worker)

    async def _replace(self, worker: Child) -> None:
        await self.line.kill(worker)
        self._workers[self._workers.index(worker)] = await self.line.start("worker", is_ready=False)
