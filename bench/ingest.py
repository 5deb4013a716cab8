"""Messages per CPU-second of one worker, and of Kafka Streams beside it: single JSON samples, two windows."""

import asyncio
from dataclasses import dataclass
from statistics import median

import aiokafka
import faust

from bench import kafka_streams
from bench.exact_sums import ExactSums
from bench.registry import Result
from bench.worker_line import (
    ENDPOINTS,
    PARTITIONS,
    SEED,
    Fleet,
    Line,
    WorkerProcess,
    decisions_of_tick,
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
    """Lean samples beside Kafka Streams, in turns, then full ones alone. The worker starts with all of them in the log,
    so polls are as large as they get; what it takes to start is measured alone, on the empty log, and taken off."""
    lean_s, full_s, pairs = (60, 20, 1) if short else (300, 100, 3)
    leans = [asyncio.run(_measure_pair(lean_s, peer_first=number % 2 == 1)) for number in range(pairs)]
    full = asyncio.run(_measure_full(full_s))
    return Result(
        figures={
            "messages_per_cpu_s": median(lean["messages_per_cpu_s"] for lean in leans),
            "messages_per_cpu_s_full": full["messages_per_cpu_s"],
            "ratio_kafka_streams": median(
                lean["messages_per_cpu_s"] / lean["peer_messages_per_cpu_s"] for lean in leans
            ),
        },
        context={
            "lean": leans,
            "full": full,
            "kafka_streams": kafka_streams.SETTINGS,
            "endpoints": len(ENDPOINTS),
            "replicas": REPLICAS * len(ENDPOINTS),
            "partitions": PARTITIONS,
            "seed": SEED,
            "faust": faust.__version__,
            "aiokafka": aiokafka.__version__,
        },
    )


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """What is sent: `seconds` of it from `first_s` on, behind which the line's clock stands."""

    first_s: int
    seconds: int
    clock: Clock

    @classmethod
    def of(cls, seconds: int) -> "Telemetry":
        now_s = Clock().now_s()
        first_s = tick_at_or_before(now_s) - 1800
        # Behind the samples, so that they alone let time pass: the ticks are those of a worker that keeps up.
        return cls(first_s=first_s, seconds=seconds, clock=Clock(shown_s=first_s - 3600.0, real_s=now_s))

    @property
    def last_tick_s(self) -> int:
        return tick_at_or_before(self.first_s + self.seconds - LATENESS_S)


async def _measure_full(seconds: int) -> dict[str, float]:
    telemetry = Telemetry.of(seconds)
    async with line(policies_stamped_s=telemetry.first_s) as kafka:
        startup_s = await startup_cpu_s(kafka, telemetry.clock)
        sent = await send_all(kafka.access, Fleet().samples(telemetry.first_s, seconds, REPLICAS, full=True))
        return await measure_worker(kafka, telemetry, sent, startup_s)


async def _measure_pair(seconds: int, *, peer_first: bool) -> dict[str, float]:
    """Worker and peer over the same topic, one after the other; both have to come to the same sums."""
    telemetry = Telemetry.of(seconds)
    sums = ExactSums(telemetry.first_s, seconds)
    async with line(policies_stamped_s=telemetry.first_s) as kafka:
        startup_s = await startup_cpu_s(kafka, telemetry.clock)
        samples = Fleet().samples(telemetry.first_s, seconds, REPLICAS, full=False)
        sent = await send_all(kafka.access, sums.counted(samples))
        if peer_first:
            peer = await _measure_peer(kafka, sent[0], sums)
            ours = await measure_worker(kafka, telemetry, sent, startup_s)
        else:
            ours = await measure_worker(kafka, telemetry, sent, startup_s)
            peer = await _measure_peer(kafka, sent[0], sums)
        values = sums.check_decisions(await decisions_of_tick(kafka.access, telemetry.last_tick_s, WITHIN_S))
    return {**ours, **peer, "equal_values": values}


async def _measure_peer(kafka: Line, messages: int, sums: ExactSums) -> dict[str, float]:
    peer = await kafka_streams.run_peer(kafka.access.bootstrap, "telemetry.requests", messages, kafka.folder)
    return {
        "peer_messages_per_cpu_s": peer.messages_per_cpu_s,
        "peer_cpu_s": peer.cpu_s,
        "peer_equal_windows": sums.check_windows(peer.sums, kafka_streams.SIZES_S),
    }


async def measure_worker(
    kafka: Line, telemetry: Telemetry, sent: tuple[int, int], startup_s: float
) -> dict[str, float]:
    """What the worker needs for the messages (their number, and their bytes) that are in the log; `startup_s` of CPU
    time it needs without any."""
    messages, size = sent
    worker = WorkerProcess(kafka, telemetry.clock)
    try:
        decisions = await until_decided(kafka.access, telemetry.last_tick_s, WITHIN_S, kafka.partitions)
        cpu_s, resident_mb = worker.cpu_s - startup_s, worker.resident_mb
    finally:
        worker.end()
    return {
        "messages_per_cpu_s": messages / cpu_s,
        "messages": messages,
        "bytes_per_message": size / messages,
        "cpu_s": cpu_s,
        "startup_cpu_s": startup_s,
        "decisions": decisions,
        "resident_mb": resident_mb,
    }


async def startup_cpu_s(kafka: Line, clock: Clock) -> float:
    """CPU time of a worker until it is ready, on the empty log."""
    worker = WorkerProcess(kafka, clock)
    try:
        await worker.until_ready()
        return worker.cpu_s
    finally:
        worker.end()
