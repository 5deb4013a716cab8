"""Milliseconds from the send of the sample that completes a tick to its decision being readable, read committed."""

import asyncio
import random
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer

from bench.registry import Result
from bench.worker_line import (
    ENDPOINTS,
    PARTITIONS,
    SEED,
    Line,
    WorkerProcess,
    decisions_from_the_start,
    line,
    read_decisions,
    sample,
)
from headrace.clock import Clock, monotonic_s
from streams.ticks import LATENESS_S, TICK_S
from wire.codec import encode
from wire.kafka import open_producer, partition_of

REPLICAS = 10
"""Of each endpoint: 1,000 samples a second in all."""
WARM_UP_TICKS = 2


def run(*, short: bool) -> Result:
    """Samples are sent in real time, each some time within half a second of the end of its second."""
    seconds = 30 if short else 120
    latencies_ms = sorted(asyncio.run(_measure(seconds)))
    return Result(
        figures={"p50_ms": _quantile(latencies_ms, 0.5), "p99_ms": _quantile(latencies_ms, 0.99)},
        context={
            "ticks": len(latencies_ms),
            "seconds": seconds,
            "samples_per_s": REPLICAS * len(ENDPOINTS),
            "partitions": PARTITIONS,
            "max_ms": latencies_ms[-1],
            "seed": SEED,
        },
    )


@dataclass
class Book:
    """When ticks were completed by a sample, and when their decision could be read; monotonic seconds."""

    completed: dict[tuple[str, int], float] = field(default_factory=dict)
    readable: dict[tuple[str, int], float] = field(default_factory=dict)

    def latencies_ms(self) -> list[float]:
        first_s = min(tick_s for _, tick_s in self.completed) + WARM_UP_TICKS * TICK_S
        counted = [tick for tick in self.completed if tick[1] >= first_s and tick in self.readable]
        return [(self.readable[tick] - self.completed[tick]) * 1000 for tick in counted]


async def _measure(seconds: int) -> list[float]:
    book = Book()
    async with line() as kafka:
        worker = WorkerProcess(kafka)
        try:
            await worker.until_ready()
            async with decisions_from_the_start(kafka.access) as consumer:
                reading = asyncio.create_task(_read(consumer, book))
                await _send(kafka, seconds, book)
                await asyncio.sleep(3)
                reading.cancel()
                await asyncio.wait([reading])
        finally:
            worker.end()
    return book.latencies_ms()


async def _read(consumer: AIOKafkaConsumer, book: Book) -> None:
    while True:
        for decision, readable_s in await read_decisions(consumer):
            book.readable[decision.endpoint, decision.at_s] = readable_s


async def _send(kafka: Line, seconds: int, book: Book) -> None:
    """Each second's samples, spread over the half second after its end, in an order that differs each time."""
    chance, clock = random.Random(SEED), Clock()
    pairs = [(endpoint, f"{endpoint}-{replica:03d}") for endpoint in ENDPOINTS for replica in range(REPLICAS)]
    first_s = int(clock.now_s()) + 1
    async with open_producer(kafka.access) as producer:
        for at_s in range(first_s, first_s + seconds):
            chance.shuffle(pairs)
            for number, (endpoint, replica) in enumerate(pairs):
                due_s = at_s + 1 + 0.5 * number / len(pairs)
                if number % 10 == 0:
                    await clock.sleep(due_s - clock.now_s())
                each = sample(endpoint, replica, at_s, chance, full=False)
                tick = (endpoint, at_s + 1 - LATENESS_S)
                if tick[1] % TICK_S == 0:
                    book.completed.setdefault(tick, monotonic_s())
                partition = partition_of(endpoint, PARTITIONS)
                await producer.send("telemetry.requests", encode(each), endpoint.encode(), partition)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
