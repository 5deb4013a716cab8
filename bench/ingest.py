"""Messages per CPU-second of one worker: single JSON samples, two windows, ticking, transactions on."""

import asyncio

import aiokafka
import faust

from bench.registry import Result
from bench.worker_line import (
    ENDPOINTS,
    PARTITIONS,
    SEED,
    Fleet,
    Line,
    WorkerProcess,
    line,
    send_all,
    until_decided,
)
from headrace.clock import Clock
from streams.endpoints.ticks import LATENESS_S, tick_at_or_before

REPLICAS = 10
"""Of each endpoint: 1,000 in all."""
WITHIN_S = 240.0


def run(*, short: bool) -> Result:
    """Lean samples, then full ones. The worker starts with all of them in the log, so polls are as large as they get;
    what it takes to start is measured alone, on the empty log, and taken off."""
    lean_s, full_s = (60, 20) if short else (300, 100)
    lean = asyncio.run(_measure(lean_s, full=False))
    full = asyncio.run(_measure(full_s, full=True))
    return Result(
        figures={
            "messages_per_cpu_s": lean["messages_per_cpu_s"],
            "messages_per_cpu_s_full": full["messages_per_cpu_s"],
        },
        context={
            "lean": lean,
            "full": full,
            "endpoints": len(ENDPOINTS),
            "replicas": REPLICAS * len(ENDPOINTS),
            "partitions": PARTITIONS,
            "seed": SEED,
            "faust": faust.__version__,
            "aiokafka": aiokafka.__version__,
        },
    )


async def _measure(seconds: int, *, full: bool) -> dict[str, float]:
    now_s = Clock().now_s()
    first_s = tick_at_or_before(now_s) - 1800
    # Behind the samples, so that they alone let time pass: the ticks are those of a worker that keeps up.
    clock = Clock(shown_s=first_s - 3600.0, real_s=now_s)
    async with line(policies_stamped_s=first_s) as kafka:
        startup_cpu_s = await _startup_cpu_s(kafka, clock)
        sent, size = await send_all(kafka.access, Fleet().samples(first_s, seconds, REPLICAS, full=full))
        worker = WorkerProcess(kafka, clock)
        try:
            decisions = await until_decided(kafka.access, tick_at_or_before(first_s + seconds - LATENESS_S), WITHIN_S)
            cpu_s, resident_mb = worker.cpu_s - startup_cpu_s, worker.resident_mb
        finally:
            worker.end()
    return {
        "messages_per_cpu_s": sent / cpu_s,
        "messages": sent,
        "bytes_per_message": size / sent,
        "cpu_s": cpu_s,
        "startup_cpu_s": startup_cpu_s,
        "decisions": decisions,
        "resident_mb": resident_mb,
    }


async def _startup_cpu_s(kafka: Line, clock: Clock) -> float:
    worker = WorkerProcess(kafka, clock)
    try:
        await worker.until_ready()
        return worker.cpu_s
    finally:
        worker.end()
