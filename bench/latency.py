"""Milliseconds from the send of the sample that completes a tick to its decision being readable, read committed."""

import asyncio
import sys
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field
from statistics import median

import msgspec
from aiokafka import AIOKafkaConsumer

from bench.registry import Result
from bench.sample_sender import SPREAD_S, Sent
from bench.worker_line import (
    ENDPOINTS,
    PARTITIONS,
    SEED,
    Line,
    WorkerProcess,
    decisions_from_the_start,
    line,
    read_decisions,
)
from headrace.clock import monotonic_s
from streams.endpoints.ticks import TICK_S

REPLICAS = 100
"""Of each endpoint: 10,000 samples a second in all."""
WARM_UP_TICKS = 2
READABLE_WITHIN_S = 30.0
"""A decision that is not readable this long after the last sample fails the bench: it must not flatter the p99."""

MISSING_TOLD = 5
"""Decisions that are named where many are missing."""


def run(*, short: bool) -> Result:
    """Single JSON samples are sent in real time by another process, each some time within half a second of the end of
    its second."""
    seconds = 25 if short else 120
    book = asyncio.run(_measure(seconds))
    latencies_ms = sorted(book.latencies_ms())
    sent = book.sent
    return Result(
        figures={"p50_ms": _quantile(latencies_ms, 0.5), "p99_ms": _quantile(latencies_ms, 0.99)},
        context={
            "ticks": len(latencies_ms),
            "seconds": seconds,
            "samples_per_s": REPLICAS * len(ENDPOINTS),
            "sender_late_ms": round(median(sent.late_s) * 1000, 1),
            "sender_late_max_ms": round(max(sent.late_s) * 1000, 1),
            "sender_busy_fraction": round(sent.cpu_s / seconds, 3),
            "worker_busy_fraction": round(book.worker_cpu_s / seconds, 3),
            "spread_s": SPREAD_S,
            "partitions": PARTITIONS,
            "max_ms": latencies_ms[-1],
            "seed": SEED,
        },
    )


@dataclass
class Book:
    """When decisions could be read, by endpoint and tick, in monotonic seconds; and what the sender did."""

    sent: Sent
    worker_cpu_s: float
    readable: dict[tuple[str, int], float] = field(default_factory=dict)

    def latencies_ms(self) -> list[float]:
        """Of each tick after the warm-up."""
        first_s = min(tick_s for _, tick_s, _ in self.sent.completed) + WARM_UP_TICKS * TICK_S
        return [
            (self.readable[endpoint, tick_s] - sent_s) * 1000
            for endpoint, tick_s, sent_s in self.sent.completed
            if tick_s >= first_s
        ]


async def _measure(seconds: int) -> Book:
    async with line() as kafka:
        worker = WorkerProcess(kafka)
        try:
            await worker.until_ready()
            cpu_s = worker.cpu_s
            async with decisions_from_the_start(kafka.access) as consumer:
                sending = asyncio.create_task(_send(kafka, seconds))
                readable: dict[tuple[str, int], float] = {}
                while not sending.done():
                    await _read(consumer, readable)
                book = Book(sending.result(), worker.cpu_s - cpu_s, readable)
                await _read_rest(consumer, book)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{worker.last_lines()}") from error
        finally:
            worker.end()
    return book


async def _send(kafka: Line, seconds: int) -> Sent:
    arguments = ["-m", "bench.sample_sender", kafka.access.bootstrap, str(REPLICAS), str(seconds)]
    sender = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    output, _ = await sender.communicate()
    if sender.returncode:
        raise RuntimeError(f"the sender ended with {sender.returncode}")
    return msgspec.json.decode(output, type=Sent)


async def _read(consumer: AIOKafkaConsumer, readable: dict[tuple[str, int], float]) -> None:
    for decision, readable_s in await read_decisions(consumer):
        readable.setdefault((decision.endpoint, decision.at_s), readable_s)


async def _read_rest(consumer: AIOKafkaConsumer, book: Book) -> None:
    """Until every tick's decision was read. Raises TimeoutError where one does not come."""
    wanted = {(endpoint, tick_s) for endpoint, tick_s, _ in book.sent.completed}
    started_s = monotonic_s()
    while missing := wanted - book.readable.keys():
        if monotonic_s() - started_s > READABLE_WITHIN_S:
            raise TimeoutError(_told(missing))
        await _read(consumer, book.readable)


def _told(missing: Set[tuple[str, int]]) -> str:
    ticks = Counter(tick_s for _, tick_s in missing)
    some = ", ".join(f"{endpoint} {tick_s}" for endpoint, tick_s in sorted(missing)[:MISSING_TOLD])
    return f"{len(missing)} decisions are missing, by tick {dict(sorted(ticks.items()))}: {some}"


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
