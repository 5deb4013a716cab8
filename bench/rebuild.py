"""Seconds a new owner needs to read 300 s of a large fleet again, until the first tick of every endpoint is decided."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from statistics import median

import faust
import pyarrow as pa

from bench.fleet_frames import FleetFrames
from bench.registry import Result
from bench.worker_line import (
    ENDPOINTS,
    PARTITIONS,
    SEED,
    Line,
    WorkerProcess,
    decisions_from_the_start,
    line,
    until_each_decided,
)
from headrace.clock import Clock
from streams.endpoints.ticks import AHEAD_MAX_S, LATENESS_S, TICK_S, tick_at_or_before
from streams.windows.windows import SPAN_S
from wire.kafka import open_producer

REPLICAS, REPLICAS_SHORT = 100, 10
"""Of each endpoint: 10,000 in all."""
OWNERS, OWNERS_SHORT = 3, 1
"""That take over, each from the one before."""
SECONDS = tick_at_or_before(SPAN_S + AHEAD_MAX_S) + 3 * TICK_S
"""Of telemetry before the first one is killed: more than a take-over reads again."""
WITHIN_S = 200.0


def run(*, short: bool) -> Result:
    """An owner is killed with everything decided; the samples of its next tick are in the log when the next one
    begins. Samples alone let time pass, so that the machine's speed decides nothing. The long form has four histograms
    a sample too, in the context."""
    replicas = REPLICAS_SHORT if short else REPLICAS
    lean = asyncio.run(_measure(replicas, OWNERS_SHORT if short else OWNERS, full=False))
    full = [] if short else asyncio.run(_measure(replicas, 1, full=True))
    return Result(
        figures={"seconds": median(owner["seconds"] for owner in lean)},
        context={
            "replicas": replicas * len(ENDPOINTS),
            "endpoints": len(ENDPOINTS),
            "partitions": PARTITIONS,
            "span_s": SPAN_S,
            "samples": "lean, in frames of 500",
            "owners": lean,
            "owners_full": full,
            "seconds": "from the assignment of all partitions to the last endpoint's decision, read committed",
            "seed": SEED,
            "faust": faust.__version__,
            "pyarrow": pa.__version__,
        },
    )


async def _measure(replicas: int, owners: int, *, full: bool) -> list[dict[str, float]]:
    real_s = Clock().now_s()
    first_s = tick_at_or_before(real_s) - 1800
    clock = Clock(shown_s=first_s - 3600.0, real_s=real_s)
    frames = FleetFrames(replicas, full=full)
    async with line(policies_stamped_s=first_s) as kafka:
        async with _worker(kafka, clock, 0) as first:
            await first.until_ready()
            await _send(kafka, frames, range(first_s, first_s + SECONDS))
            await _until_decided(kafka, tick_at_or_before(first_s + SECONDS - LATENESS_S))
        found = []
        for number in range(owners):
            sent_s = first_s + SECONDS + number * TICK_S
            await _send(kafka, frames, range(sent_s, sent_s + TICK_S))
            async with _worker(kafka, clock, number + 1) as owner:
                await _until_decided(kafka, tick_at_or_before(sent_s + TICK_S - LATENESS_S))
                decided_s = Clock().now_s()
                assigned = datetime.fromisoformat(owner.logged("partitions_assigned")[-1]["timestamp"])
                taken_over = max(told["seconds"] for told in owner.logged("partition_taken_over"))
                found.append(
                    {
                        "seconds": round(decided_s - assigned.timestamp(), 2),
                        "memory_read_s": taken_over,
                        "worker_cpu_s": round(owner.cpu_s, 2),
                    }
                )
        return found


@asynccontextmanager
async def _worker(kafka: Line, clock: Clock, number: int) -> AsyncIterator[WorkerProcess]:
    """Killed in the end."""
    worker = WorkerProcess(kafka, clock, name=f"worker-{number}", flags=["--session-timeout-seconds", "6"])
    try:
        yield worker
    finally:
        worker.end()


async def _send(kafka: Line, frames: FleetFrames, seconds: range) -> None:
    """Whole seconds of every replica, stamped at their ends."""
    async with open_producer(kafka.access) as producer:
        for at_s in seconds:
            await frames.send(producer, at_s, (at_s + 1) * 1000)


async def _until_decided(kafka: Line, tick_s: int) -> None:
    """Wait for every endpoint's decision of a tick or a later one. Raises TimeoutError."""
    async with asyncio.timeout(WITHIN_S), decisions_from_the_start(kafka.access) as decisions:
        await until_each_decided(decisions, dict.fromkeys(ENDPOINTS, 0), tick_s)
