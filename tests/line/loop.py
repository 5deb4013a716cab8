"""The closed loop for one test: broker, workers, sink, a simulated fleet, actuators; each killed or stopped at will.

Processes run as a user runs them, or, where a test wants a fault at a named point, as the modules of the tests that
know these points. Whoever ended for want of a broker is started again, as a supervisor would.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import psutil
from ruamel.yaml import YAML

from actuators.fault_points import FaultPoint as ActuatorPoint
from headrace.broker import EmbeddedBroker
from headrace.children import Child, Children
from headrace.exit_codes import ExitCode
from sinks.faults import Point as SinkPoint
from streams.shell.fault_points import FaultPoint as WorkerPoint
from tests.actuators.actuator_process import ActuatorSpec
from tests.line.deployment import PARTITIONS, Line
from tests.sinks.sink_process import SinkSpec
from tests.worker.worker_process import WorkerSpec

Role = Literal["worker", "sink", "actuator"]
Named = WorkerPoint | SinkPoint | ActuatorPoint
"""A point at which a process can be made to kill or to stop itself."""

TOPICS = (
    *("telemetry.requests", "telemetry.gpus", "telemetry.replicas", "telemetry.targets", "policies"),
    *("signals", "decisions.scaling", "controllers", "outcomes"),
)
ENDPOINTS = {"chat": 2, "code": 1, "swell": 3}
"""With their partitions: on three of four, so that each of two workers has one, and often only one."""
WAVE_S, HIGH_S = 100, 40
LOW_RATE, HIGH_RATE = 1.0, 16.0
WAVES = 60
POLICY = """
endpoint: {name}
scaleTargetRef: {{kind: Deployment, name: {name}}}
mode: act
minReplicas: 1
maxReplicas: 9
model: {{name: llama-3.1-8b, hardware: H100, startupSeconds: 10}}
metrics: [{{name: inflight_requests, target: 8}}]
scaleDown: {{windowSeconds: 30}}
"""
RESTARTED = (ExitCode.UNAVAILABLE, ExitCode.STUCK)
"""What a supervisor starts again."""
MISSED_S = 3.0
"""Real seconds for which one is stopped, so that its group misses it: sessions are two."""
_TOLD_S = 120.0


def role_of(point: Named) -> Role:
    match point:
        case WorkerPoint():
            return "worker"
        case SinkPoint():
            return "sink"
        case ActuatorPoint():
            return "actuator"


def scenario() -> dict[str, object]:
    """Load that rises and falls, of each endpoint at another time."""
    return {"seed": 5, "endpoints": [_endpoint(name, place * WAVE_S // 3) for place, name in enumerate(ENDPOINTS)]}


def _endpoint(name: str, later_s: int) -> dict[str, object]:
    points: list[tuple[int, float]] = [(0, LOW_RATE)]
    for wave in range(WAVES):
        begin_s = 20 + later_s + wave * WAVE_S
        end_s = begin_s + HIGH_S
        points += [(begin_s, LOW_RATE), (begin_s + 2, HIGH_RATE), (end_s, HIGH_RATE), (end_s + 2, LOW_RATE)]
    return {
        "endpoint": name,
        "engine": {"model": "llama-3.1-8b", "hardware": "H100", "maxNumSeqs": 16, "waitingMax": 64},
        "startup": {"medianSeconds": 4, "spread": 0.2},
        "replicas": 1,
        "maxReplicas": 9,
        "traffic": {
            "lengths": {"like": "conversation"},
            "rate": [{"second": second, "requestsPerSecond": rate} for second, rate in points],
        },
    }


class Loop:
    """`line` runs on a broker of its own. `troubles` counts the kills and stops so far, by who suffered them."""

    def __init__(self, broker: EmbeddedBroker, folder: Path, children: Children, speed: float) -> None:
        self.line = Line(broker.bootstrap, "", folder / "line", children, speed)
        self.journal = folder / "journal.jsonl"
        self.troubles: Counter[str] = Counter()
        self.policies = folder
        self.running: dict[Role, list[Child]] = {"worker": [], "sink": [], "actuator": []}
        self._broker = broker
        self._folder = folder
        self._children = children
        self._fleet: Child | None = None
        self.api = ""
        self._started = 0

    async def start(self, first: Mapping[Role, Sequence[Named | None]]) -> None:
        """Start everything; of each role as many processes as `first` has points, None for one without a fault."""
        self.policies = await self.line.create([POLICY.format(name=name) for name in ENDPOINTS])
        await self._start_fleet()
        for role, points in first.items():
            for point in points:
                self.running[role].append(await self._plain(role) if point is None else self._faulty(point))

    async def _start_fleet(self) -> None:
        file, api_file = self._folder / "fleet.yaml", self._folder / "fleet.api"
        with file.open("w") as text:
            YAML().dump(scenario(), text)
        flags = ["--scenario", str(file), "--api-file", str(api_file), "--journal", str(self.journal)]
        self._fleet = await self.line.start("fleet", *flags, is_ready=False)
        async with asyncio.timeout(_TOLD_S):
            while not api_file.exists():
                self._children.raise_ended()
                await asyncio.sleep(0.05)
        self.api = api_file.read_text().strip()

    async def _plain(self, role: Role) -> Child:
        flags = ["fleet", "--api", self.api] if role == "actuator" else []
        return await self.line.start(role, *flags, is_ready=False)

    def _faulty(self, point: Named, how: signal.Signals = signal.SIGKILL, passing: int = 1) -> Child:
        """A process that sends itself a signal at this point."""
        module, spec = self._spec(point, how, passing)
        return self.start_module(module, msgspec.json.encode(spec).decode(), role_of(point))

    def _spec(self, point: Named, how: signal.Signals, passing: int) -> tuple[str, msgspec.Struct]:
        line = self.line
        match point:
            case WorkerPoint():
                return "tests.worker.worker_process", WorkerSpec(
                    bootstrap=line.bootstrap,
                    prefix=line.prefix,
                    partitions=PARTITIONS,
                    fault_at=point,
                    fault_after=passing,
                    fault_signal=how,
                )
            case SinkPoint():
                return "tests.sinks.sink_process", SinkSpec(
                    bootstrap=line.bootstrap,
                    prefix=line.prefix,
                    folder=str(line.tables),
                    group=f"{line.prefix}sink",
                    topics=TOPICS,
                    signal_at=point,
                    signal=how.name,
                    passing=passing,
                )
            case ActuatorPoint():
                return "tests.actuators.actuator_process", ActuatorSpec(
                    bootstrap=line.bootstrap,
                    prefix=line.prefix,
                    api=self.api,
                    fault_at=point,
                    fault_after=passing,
                    fault_signal=how.name,
                    session_timeout_s=2.0,
                )

    def start_module(self, module: str, argument: str, name: str) -> Child:
        """A module of the tests as a process; it ends with its standard input, and so with this process."""
        self._started += 1
        name = f"faulty-{name}-{self._started}"
        log_path = self._folder / "logs" / f"{name}.log"
        log_path.parent.mkdir(exist_ok=True)
        with log_path.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", module, argument],
                env={**os.environ, **self.line.environment},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
            )
        return self._children.adopt(name, process, log_path)

    async def await_death(self, child: Child) -> None:
        """A process that kills itself has done so, and another one takes its place."""
        status = await asyncio.wait_for(asyncio.to_thread(child.process.wait), _TOLD_S)
        assert status == -signal.SIGKILL, child.ended_message()
        role = self._role(child)
        self.troubles[role] += 1
        await self._replace(child, await self._plain(role))

    async def die_at(self, point: Named, passing: int = 1) -> None:
        """One is killed anywhere; the one in its place kills itself at `point`."""
        victim = self.running[role_of(point)][0]
        await self.line.kill(victim)
        self.troubles[role_of(point)] += 1
        dying = self._faulty(point, passing=passing)
        self._put_for(victim, dying)
        await self.await_death(dying)

    async def stop_at(self, point: Named, passing: int = 1) -> None:
        """One stops itself at `point`, is missed, and wakes up; it goes on being one of them."""
        victim = self.running[role_of(point)][0]
        await self.line.kill(victim)
        sleeper = self._faulty(point, signal.SIGSTOP, passing)
        self._put_for(victim, sleeper)
        await self.until_stopped(sleeper)
        await asyncio.sleep(MISSED_S)  # nothing to await: that it is missed is the event
        sleeper.process.send_signal(signal.SIGCONT)
        self.troubles[role_of(point)] += 2

    async def until_stopped(self, child: Child) -> None:
        async with asyncio.timeout(_TOLD_S):
            while psutil.Process(child.pid).status() != psutil.STATUS_STOPPED:
                assert child.process.poll() is None, child.ended_message()
                await asyncio.sleep(0.02)

    async def kill_broker(self) -> None:
        self._broker.kill()
        await asyncio.to_thread(self._broker.start)
        self.troubles["broker"] += 1

    async def stop_broker(self) -> None:
        """No connection breaks, and nothing answers for a while."""
        self._broker.freeze()
        await asyncio.sleep(MISSED_S)  # as above
        self._broker.thaw()
        self.troubles["broker"] += 1

    async def revive(self) -> None:
        """Start again those that ended since Kafka was away."""
        for role, children in self.running.items():
            for child in children:
                if (status := child.process.poll()) is not None:
                    assert status in RESTARTED, child.ended_message()
                    await self._replace(child, await self._plain(role))

    def _role(self, child: Child) -> Role:
        return next(role for role, children in self.running.items() if child in children)

    def _put_for(self, old: Child, new: Child) -> None:
        children = self.running[self._role(old)]
        children[children.index(old)] = new

    async def _replace(self, old: Child, new: Child) -> None:
        self._put_for(old, new)
        await self.line.kill(old)

    async def drain(self, role: Role) -> None:
        """SIGTERM to all of a role; each must end well."""
        for child in self.running[role]:
            await self.line.drain(child)
        self.running[role] = []

    async def drain_fleet(self) -> None:
        assert self._fleet is not None
        await self.line.drain(self._fleet)
