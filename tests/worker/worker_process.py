"""A worker as a process of its own, which fails where the test wants: `python -m tests.worker.worker_process`.

The one argument is a WorkerSpec as JSON.
"""

import asyncio
import os
import signal
import sys
from functools import partial

import msgspec

from headrace.clock import Clock, monotonic_s
from streams.shell.controller_source import ControllerSource
from streams.shell.fault_points import FaultPoint, FaultPoints, NoFaults
from streams.shell.faust_app import GroupOptions
from streams.shell.worker import Worker, WorkerOptions
from streams.shell.worker_metrics import WorkerMetrics
from tests.worker.counting_source import CountingSource
from wire.kafka import KafkaAccess
from wire.topics import TopicNames


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`partitions`: of the topics, for the real controller; null: the counting source.

    `fault_at`: the point at which the process sends itself `fault_signal`, at its `fault_after`-th passing.
    """

    bootstrap: str
    prefix: str
    partitions: int | None = None
    fault_at: FaultPoint | None = None
    fault_after: int = 1
    fault_signal: int = signal.SIGKILL
    session_timeout_s: float = 2.0
    assignment_timeout_s: float = 60.0


class SignalSelf:
    """SIGKILL or SIGSTOP at a named point: no handler can tidy before it."""

    def __init__(self, point: FaultPoint, passings: int, number: int) -> None:
        self._point = point
        self._left = passings
        self._number = number

    async def reached(self, point: FaultPoint, partition: int) -> None:
        if point is not self._point:
            return
        self._left -= 1
        if self._left == 0:
            # What was sent may be on its way: give it the time to be in the log, uncommitted.
            await asyncio.sleep(0.05)
            os.kill(os.getpid(), self._number)


def _faults(spec: WorkerSpec) -> FaultPoints:
    if spec.fault_at is None:
        return NoFaults()
    return SignalSelf(spec.fault_at, spec.fault_after, spec.fault_signal)


def worker_of(spec: WorkerSpec) -> Worker:
    faults: FaultPoints = _faults(spec)
    options = WorkerOptions(
        access=KafkaAccess(bootstrap=spec.bootstrap),
        names=TopicNames(spec.prefix),
        group=GroupOptions(
            app=spec.prefix + "worker",
            session_timeout_s=spec.session_timeout_s,
            assignment_timeout_s=spec.assignment_timeout_s,
        ),
        clock=Clock.from_environment().now_s,
        monotonic_s=monotonic_s,
        faults=faults,
    )
    metrics = WorkerMetrics()
    if spec.partitions is None:
        return Worker(options, CountingSource, metrics)
    return Worker(options, partial(_controller_source, spec.partitions, metrics), metrics)


def _controller_source(partitions: int, metrics: WorkerMetrics, partition: int) -> ControllerSource:
    return ControllerSource(partition, partitions, metrics)


async def _main(spec: WorkerSpec) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await worker_of(spec).run(stop)


if __name__ == "__main__":
    asyncio.run(_main(msgspec.json.decode(sys.argv[1], type=WorkerSpec)))
