"""Samples per CPU-second of one worker that reads Arrow frames: two windows, ticking, transactions on."""

import asyncio
from dataclasses import dataclass
from typing import Any

import aiokafka
import faust
import pyarrow as pa

from bench.fleet_frames import FleetFrames
from bench.ingest import Telemetry, measure_worker, startup_cpu_s
from bench.registry import Result
from bench.worker_line import ENDPOINTS, PARTITIONS, SEED, Line, line
from wire.frames import ROWS_DEFAULT
from wire.kafka import open_producer


@dataclass(frozen=True, kw_only=True)
class Form:
    """A fleet of `replicas` replicas of each endpoint, for `seconds`, on a topic of `partitions`."""

    replicas: int
    partitions: int
    seconds: int
    full: bool

    @property
    def samples(self) -> int:
        return self.replicas * len(ENDPOINTS) * self.seconds


def run(*, short: bool) -> Result:
    """1,000 replicas in one partition, so that each second of them is two frames of 500. The long form has the same in
    12 partitions, with smaller frames, and ten times as many replicas to so many ticks, in its context.

    A worker's start takes as much CPU as 100,000 samples, and never the same: so many seconds hide that it was measured
    by another worker.
    """
    lean = asyncio.run(_measure(Form(replicas=10, partitions=1, seconds=300 if short else 600, full=False)))
    full = asyncio.run(_measure(Form(replicas=10, partitions=1, seconds=150 if short else 300, full=True)))
    others = [] if short else [asyncio.run(_measure(form)) for form in OTHERS]
    return Result(
        figures={
            "samples_per_cpu_s": lean["samples_per_cpu_s"],
            "samples_per_cpu_s_full": full["samples_per_cpu_s"],
        },
        context={
            "lean": lean,
            "full": full,
            "others": others,
            "endpoints": len(ENDPOINTS),
            "frame_rows_max": ROWS_DEFAULT,
            "seed": SEED,
            "faust": faust.__version__,
            "aiokafka": aiokafka.__version__,
            "pyarrow": pa.__version__,
        },
    )


OTHERS = (
    Form(replicas=10, partitions=PARTITIONS, seconds=100, full=False),
    Form(replicas=100, partitions=PARTITIONS, seconds=100, full=False),
    Form(replicas=100, partitions=PARTITIONS, seconds=60, full=True),
)


async def _measure(form: Form) -> dict[str, Any]:
    telemetry = Telemetry.of(form.seconds)
    frames = FleetFrames(form.replicas, full=form.full, partitions=form.partitions)
    async with line(telemetry.first_s, form.partitions) as kafka:
        startup_s = await startup_cpu_s(kafka, telemetry.clock)
        sent = await _send(kafka, frames, telemetry)
        measured = await measure_worker(kafka, telemetry, sent, startup_s)
    del measured["messages_per_cpu_s"]
    return {
        "samples_per_cpu_s": form.samples / measured["cpu_s"],
        "samples": form.samples,
        "samples_per_frame": form.samples / measured["messages"],
        "replicas": form.replicas * len(ENDPOINTS),
        "partitions": form.partitions,
        "full": form.full,
        "us_per_tick_if_ticks_were_all": measured["cpu_s"] / measured["decisions"] * 1e6,
        **measured,
    }


async def _send(kafka: Line, frames: FleetFrames, telemetry: Telemetry) -> tuple[int, int]:
    """Write all frames, stamped as received; how many, and their bytes."""
    count = size = 0
    async with open_producer(kafka.access) as producer:
        for at_s in range(telemetry.first_s, telemetry.first_s + telemetry.seconds):
            messages, sent = await frames.send(producer, at_s, at_s * 1000 + 1500)
            count, size = count + messages, size + sent
    return count, size
