"""A sink as a process of its own, which ends or freezes itself where the test wants.

`python -m tests.sinks.sink_process SPEC`, a SinkSpec as JSON. The process says `caught up` on stdout once it has read
everything, and ends in order by SIGTERM, or when its stdin is closed.
"""

import asyncio
import os
import signal
import sys
import threading

import msgspec

from headrace.clock import monotonic_s
from sinks.buffers import FlushRules
from sinks.faults import Faults, NoFaults, Point
from sinks.root import TableRoot
from sinks.sink import DeltaSink, SinkPlan
from wire.kafka import KafkaAccess
from wire.topics import TopicNames


class SinkSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`signal_at`: the point at which the process sends itself `signal`, at its `passing`-th passing of table `table`,
    and `delay_s` later (in the middle of a write, for example)."""

    bootstrap: str
    prefix: str
    folder: str
    group: str
    topics: tuple[str, ...] = ("telemetry.requests",)
    age_max_s: float = 0.2
    signal_at: Point | None = None
    signal: str = "SIGKILL"
    table: str = "telemetry_requests"
    passing: int = 1
    delay_s: float = 0.0


class SignalSelf:
    """What a signal at a named point leaves, no handler can tidy."""

    def __init__(self, spec: SinkSpec) -> None:
        self._spec = spec
        self._left = spec.passing

    def reached(self, point: Point, table: str) -> None:
        if point is not self._spec.signal_at or table != self._spec.table:
            return
        self._left -= 1
        if self._left == 0 and self._spec.delay_s:
            threading.Timer(self._spec.delay_s, self._send).start()
        elif self._left == 0:
            self._send()

    def _send(self) -> None:
        os.kill(os.getpid(), signal.Signals[self._spec.signal])


def plan_of(spec: SinkSpec) -> SinkPlan:
    faults: Faults = NoFaults() if spec.signal_at is None else SignalSelf(spec)
    return SinkPlan(
        access=KafkaAccess(bootstrap=spec.bootstrap),
        root=TableRoot(address=spec.folder),
        monotonic_s=monotonic_s,
        names=TopicNames(spec.prefix),
        topics=spec.topics,
        group=spec.group,
        rules=FlushRules(age_max_s=spec.age_max_s, messages_max=400),
        session_s=2.0,
        faults=faults,
    )


async def run(spec: SinkSpec) -> None:
    stop, sink = asyncio.Event(), DeltaSink(plan_of(spec))
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    task = asyncio.create_task(sink.run(stop))
    while sink.lag != 0 and not task.done():
        await asyncio.wait({task}, timeout=0.02)
    print("caught up", flush=True)  # noqa: T201  # the test reads it
    await task


if __name__ == "__main__":
    asyncio.run(run(msgspec.json.decode(sys.argv[1], type=SinkSpec)))
