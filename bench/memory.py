"""Resident memory of a worker with a large fleet, of one with nothing to do, and of the embedded broker."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiokafka
import faust
import numpy as np
import pyarrow as pa
from aiokafka import AIOKafkaConsumer

from bench.fleet_frames import TOPIC, FleetFrames
from bench.registry import Result
from bench.worker_line import (
    ENDPOINTS,
    PARTITIONS,
    SEED,
    Line,
    WorkerProcess,
    decisions_from_the_start,
    line,
    resident_mb,
    until_each_decided,
)
from headrace.clock import Clock
from streams.endpoints.ticks import LATENESS_S, TICK_S, tick_at_or_before
from streams.windows.columns import HISTOGRAM_FIELDS, SampleColumns
from streams.windows.windows import SPAN_S, Windows
from wire.frames import decode_frame
from wire.kafka import open_producer

REPLICAS = 100
"""Of each endpoint: 10,000 in all."""
REPLICAS_SHORT = 20
SECONDS = tick_at_or_before(SPAN_S) + 2 * TICK_S
"""Of telemetry: until every ring went round once."""
IDLE_S = 10.0
WITHIN_S = 60.0
QUIET_S = 5.0
QUIET_CPU_SHARE = 0.06
"""A worker with nothing to do needs less of a core, one that reads needs all that it gets."""


def run(*, short: bool) -> Result:
    """One worker, first without telemetry, then with a fleet's that arrives as fast as it decides.

    The long form also kills it and has another one read everything again, as after a takeover: that is in the context.
    """
    replicas = REPLICAS_SHORT if short else REPLICAS
    measured, window_bytes = asyncio.run(_measure(replicas, rebuilt=not short))
    fleet = replicas * len(ENDPOINTS)
    figures = {name: measured[name] for name in ("resident_mb", "idle_mb", "broker_mb")}
    figures["bytes_per_replica_second"] = window_bytes / (fleet * SPAN_S)
    return Result(
        figures=figures,
        context={
            "replicas": fleet,
            "endpoints": len(ENDPOINTS),
            "span_s": SPAN_S,
            "seconds": SECONDS,
            "histograms": list(HISTOGRAM_FIELDS),
            "partitions": PARTITIONS,
            **{name: value for name, value in measured.items() if name not in figures},
            "bytes_per_replica_second": "arrays of the kernel alone, one a partition, fed with the same frames",
            "note": "nothing is extrapolated: resident_mb is that of the stated number of replicas",
            "seed": SEED,
            "faust": faust.__version__,
            "aiokafka": aiokafka.__version__,
            "pyarrow": pa.__version__,
        },
    )


async def _measure(replicas: int, *, rebuilt: bool) -> tuple[dict[str, float], int]:
    """Figures and sizes by name, and the bytes of all windows."""
    now_s = Clock().now_s()
    first_s = tick_at_or_before(now_s) - 1800
    # Behind the samples, so that they alone let time pass: the ticks are those of a worker that keeps up.
    clock = Clock(shown_s=first_s - 3600.0, real_s=now_s)
    async with line(policies_stamped_s=first_s) as kafka:
        with _worker(kafka, clock) as worker:
            await worker.until_ready()
            frames, _ = await asyncio.gather(asyncio.to_thread(FleetFrames, replicas, full=True), asyncio.sleep(IDLE_S))
            measured = {"idle_mb": worker.resident_mb}
            async with _highest(worker) as seen_mb:
                await _send(kafka, frames, first_s)
            measured |= {"resident_mb": worker.resident_mb, "resident_peak_mb": max(seen_mb)}
            measured["worker_cpu_s"] = worker.cpu_s
        measured["broker_mb"] = resident_mb(kafka.broker_pid)
        if rebuilt:
            with _worker(kafka, clock) as successor:
                await successor.until_ready()
                async with _highest(successor) as seen_mb:
                    await _until_quiet(successor)
                measured["resident_rebuilt_mb"] = max(seen_mb)
    return measured, sum(_window_bytes(frames, first_s))


@contextmanager
def _worker(kafka: Line, clock: Clock) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(kafka, clock)
    try:
        yield worker
    finally:
        worker.end()


async def _send(kafka: Line, frames: FleetFrames, first_s: int) -> None:
    """Write the telemetry of one tick after the other, while the worker decides on the one before; return when it has
    decided on the last. A fleet's telemetry comes at its own pace too, and leaves no backlog."""
    decided_s = dict.fromkeys(ENDPOINTS, first_s)
    async with open_producer(kafka.access) as producer, decisions_from_the_start(kafka.access) as decisions:
        for at_s in range(first_s, first_s + SECONDS):
            await frames.send(producer, at_s, (at_s + 1) * 1000)
            completed_s = at_s + 1 - LATENESS_S
            if completed_s % TICK_S == 0:
                await _until_decided(decisions, decided_s, completed_s - TICK_S)
        await producer.flush()
        await _until_decided(decisions, decided_s, tick_at_or_before(first_s + SECONDS - LATENESS_S))


async def _until_decided(decisions: AIOKafkaConsumer, decided_s: dict[str, int], tick_s: int) -> None:
    """Wait for every endpoint's decision of a tick; `decided_s` has each one's newest tick. Raises TimeoutError."""
    async with asyncio.timeout(WITHIN_S):
        await until_each_decided(decisions, decided_s, tick_s)


async def _until_quiet(worker: WorkerProcess) -> None:
    """Wait until it has read everything. It is called ready long before, as its clock is behind the samples."""
    while True:
        before_s = worker.cpu_s
        await asyncio.sleep(QUIET_S)
        if worker.cpu_s - before_s < QUIET_CPU_SHARE * QUIET_S:
            return


@asynccontextmanager
async def _highest(worker: WorkerProcess) -> AsyncIterator[list[float]]:
    """The worker's resident memory at every moment of this context."""
    seen_mb: list[float] = []

    async def look() -> None:
        while True:
            seen_mb.append(worker.resident_mb)
            await asyncio.sleep(0.2)

    looking = asyncio.create_task(look())
    try:
        yield seen_mb
    finally:
        looking.cancel()


def _window_bytes(frames: FleetFrames, first_s: int) -> Iterator[int]:
    """Bytes of each partition's windows after the same telemetry; floors move as ticks move them."""
    for partition in frames.partitions:
        windows = Windows()
        for at_s in range(first_s, first_s + SECONDS):
            for _, value in frames.of_second(partition, at_s):
                batch = decode_frame(TOPIC, value).batch
                windows.add(SampleColumns.from_arrow(batch, np.full(batch.num_rows, at_s + 1.0)))
            tick_s = at_s + 1 - LATENESS_S
            if tick_s % TICK_S == 0:
                for endpoint in windows.endpoints:
                    windows.keep_from(endpoint, tick_s + TICK_S + LATENESS_S - SPAN_S)
        yield windows.nbytes
