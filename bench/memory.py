"""Resident memory of a worker with a large fleet, of one with nothing to do, and of the embedded broker."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiokafka
import faust
import numpy as np
import pyarrow as pa

from bench.fleet_frames import FleetFrames
from bench.registry import Result
from bench.worker_line import ENDPOINTS, NAMES, PARTITIONS, SEED, Line, WorkerProcess, line, resident_mb, until_decided
from headrace.clock import Clock
from streams.endpoints.ticks import LATENESS_S, TICK_S, tick_at_or_before
from streams.windows.columns import HISTOGRAM_FIELDS, SampleColumns
from streams.windows.windows import SPAN_S, Windows
from wire.frames import ARROW_CONTENT_TYPE, CONTENT_TYPE_HEADER, decode_frame
from wire.kafka import open_producer

REPLICAS = 100
"""Of each endpoint: 10,000 in all."""
REPLICAS_SHORT = 20
SECONDS = tick_at_or_before(SPAN_S) + 2 * TICK_S
"""Of telemetry: until every ring went round once."""
IDLE_S = 10.0
WITHIN_S = 400.0
TOPIC = "telemetry.requests"


def run(*, short: bool) -> Result:
    """One worker, first without telemetry, then with that of a fleet that arrives as fast as the broker takes it."""
    replicas = REPLICAS_SHORT if short else REPLICAS
    measured, window_bytes = asyncio.run(_measure(replicas))
    fleet = replicas * len(ENDPOINTS)
    return Result(
        figures={
            "resident_mb": measured["resident_mb"],
            "idle_mb": measured["idle_mb"],
            "bytes_per_replica_second": window_bytes / (fleet * SPAN_S),
            "broker_mb": measured["broker_mb"],
        },
        context={
            "replicas": fleet,
            "endpoints": len(ENDPOINTS),
            "span_s": SPAN_S,
            "seconds": SECONDS,
            "histograms": list(HISTOGRAM_FIELDS),
            "partitions": PARTITIONS,
            "resident_peak_mb": measured["peak_mb"],
            "worker_cpu_s": measured["worker_cpu_s"],
            "frame_bytes": measured["frame_bytes"],
            "bytes_per_replica_second": "the kernel alone, one a partition: the same frames, the arrays it uses",
            "note": "nothing is extrapolated: resident_mb is that of the stated number of replicas",
            "seed": SEED,
            "faust": faust.__version__,
            "aiokafka": aiokafka.__version__,
            "pyarrow": pa.__version__,
        },
    )


async def _measure(replicas: int) -> tuple[dict[str, float], int]:
    """Figures and sizes by name, and the bytes of all windows."""
    now_s = Clock().now_s()
    first_s = tick_at_or_before(now_s) - 1800
    # Behind the samples, so that they alone let time pass: the ticks are those of a worker that keeps up.
    clock = Clock(shown_s=first_s - 3600.0, real_s=now_s)
    async with line(policies_stamped_s=first_s) as kafka:
        worker = WorkerProcess(kafka, clock)
        try:
            await worker.until_ready()
            frames, _ = await asyncio.gather(asyncio.to_thread(FleetFrames, replicas), asyncio.sleep(IDLE_S))
            measured = {"idle_mb": worker.resident_mb}
            async with _highest(worker) as seen_mb:
                measured["frame_bytes"] = await _send(kafka, frames, first_s)
                await until_decided(kafka.access, tick_at_or_before(first_s + SECONDS - LATENESS_S), WITHIN_S)
            measured |= {"resident_mb": worker.resident_mb, "peak_mb": max(seen_mb), "worker_cpu_s": worker.cpu_s}
        finally:
            worker.end()
        measured["broker_mb"] = resident_mb(kafka.broker_pid)
    return measured, sum(_window_bytes(frames, first_s))


async def _send(kafka: Line, frames: FleetFrames, first_s: int) -> float:
    """Write all frames, second by second; the bytes of one, on average."""
    count = size = 0
    headers = [(CONTENT_TYPE_HEADER, ARROW_CONTENT_TYPE)]
    async with open_producer(kafka.access) as producer:
        for at_s in range(first_s, first_s + SECONDS):
            for partition in frames.partitions:
                for key, value in frames.of_second(partition, at_s):
                    stamp_ms = (at_s + 1) * 1000
                    await producer.send(NAMES.real(TOPIC), value, key.encode(), partition, stamp_ms, headers)
                    count, size = count + 1, size + len(value)
    return size / count


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
