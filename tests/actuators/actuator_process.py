"""An actuator of the fleet as a process of its own, which ends or stops itself where a test wants.

`python -m tests.actuators.actuator_process SPEC`, an ActuatorSpec as JSON. It says `ready` on stdout once it is, and
ends as by SIGTERM when its stdin is closed. Its clock is that of the environment.
"""

import asyncio
import os
import signal
import sys

import msgspec
import numpy as np
import structlog

from actuators.actuator import Actuator, ActuatorOptions
from actuators.fault_points import FaultPoint, FaultPoints, NoFaults
from actuators.fleet_api import FleetApi
from actuators.verdicts import Limits
from headrace.clock import Clock, monotonic_s
from wire.kafka import KafkaAccess
from wire.topics import TopicNames


class ActuatorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`fault_at`: the point at which the process sends itself `fault_signal`, at its `fault_after`-th passing.

    `endpoint`: passings of this endpoint alone count; null: of any.
    """

    bootstrap: str
    prefix: str
    api: str
    name: str = "fleet"
    dry_run: bool = False
    fault_at: FaultPoint | None = None
    fault_after: int = 1
    fault_signal: str = "SIGKILL"
    endpoint: str | None = None
    session_timeout_s: float = 1.0
    call_timeout_s: float = 5.0

    def encoded(self) -> str:
        """The process's argument."""
        return msgspec.json.encode(self).decode()


class SignalSelf:
    """SIGKILL or SIGSTOP at a named point: no handler can tidy before it."""

    def __init__(self, spec: ActuatorSpec) -> None:
        self._spec = spec
        self._left = spec.fault_after

    async def reached(self, point: FaultPoint, endpoint: str) -> None:
        if point is not self._spec.fault_at or self._spec.endpoint not in (None, endpoint):
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.Signals[self._spec.fault_signal])


def options_of(spec: ActuatorSpec) -> ActuatorOptions:
    faults: FaultPoints = NoFaults() if spec.fault_at is None else SignalSelf(spec)
    clock = Clock.from_environment()
    return ActuatorOptions(
        access=KafkaAccess(bootstrap=spec.bootstrap),
        name=spec.name,
        clock=clock.now_s,
        monotonic_s=monotonic_s,
        rng=np.random.default_rng(os.getpid()),
        names=TopicNames(spec.prefix),
        limits=Limits(dry_run=spec.dry_run),
        session_s=spec.session_timeout_s,
        timestamp_s=None if clock.is_real else clock.now_s,
        faults=faults,
    )


async def run(spec: ActuatorSpec) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    async with FleetApi(spec.api, spec.call_timeout_s) as api:
        actuator = Actuator(options_of(spec), api)
        task = asyncio.create_task(actuator.run(stop))
        while actuator.why_not_ready() is not None and not task.done():
            await asyncio.wait({task}, timeout=0.02)
        print("ready", flush=True)  # noqa: T201  # the test reads it
        await task


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(run(msgspec.json.decode(sys.argv[1], type=ActuatorSpec)))
