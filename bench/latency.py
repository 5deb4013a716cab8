"""Milliseconds from the send of the sample that completes a tick to its decision being readable, read committed."""

import asyncio
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer

from bench.registry import Result
from bench.worker_line import (
    ENDPOINTS,
    PARTITIONS,
    SEED,
    Fleet,
    Line,
    WorkerProcess,
    decisions_from_the_start,
    line,
    read_decisions,
)
from headrace.clock import Clock, monotonic_s
from streams.endpoints.ticks import LATENESS_S, TICK_S
from wire.codec import encode
from wire.kafka import open_producer, partition_of

REPLICAS = 10
"""Of each endpoint: 1,000 samples a second in all."""
WARM_UP_TICKS = 2
READABLE_WITHIN_S = 30.0
"""A decision that is not readable this long after the last sample fails the bench: it must not flatter the p99."""


def run(*, short: bool) -> Result:
    """Samples are sent in real time, each some time within half a second of the end of its second."""
    seconds = 25 if short else 120
    book = asyncio.run(_measure(seconds))
    latencies_ms = sorted(book.latencies_ms())
    return Result(
        figures={"p50_ms": _quantile(latencies_ms, 0.5), "p99_ms": _quantile(latencies_ms, 0.99)},
        context={
            "ticks": len(latencies_ms),
            "seconds": seconds,
            "samples_per_s": REPLICAS * len(ENDPOINTS),
            "sender_late_ms": round(book.late_max_s * 1000, 1),
            "partitions": PARTITIONS,
            "max_ms": latencies_ms[-1],
            "seed": SEED,
        },
    )


@dataclass
class Book:
    """When ticks were completed by a sample, and when their decision could be read; monotonic seconds.

    `late_max_s` is how far the sender fell behind its own plan, at most: the machine was too busy where it is large.
    """

    completed: dict[tuple[str, int], float] = field(default_factory=dict)
    readable: dict[tuple[str, int], float] = field(default_factory=dict)
    late_max_s: float = 0.0

    @property
    def counted(self) -> list[tuple[str, int]]:
        """Endpoint and tick of those after the warm-up."""
        first_s = min(tick_s for _, tick_s in self.completed) + WARM_UP_TICKS * TICK_S
        return [tick for tick in self.completed if tick[1] >= first_s]

    @property
    def is_complete(self) -> bool:
        return all(tick in self.readable for tick in self.counted)

    def latencies_ms(self) -> list[float]:
        return [(self.readable[tick] - self.completed[tick]) * 1000 for tick in self.counted]


async def _measure(seconds: int) -> Book:
    book = Book()
    async with line() as kafka:
        worker = WorkerProcess(kafka)
        try:
            await worker.until_ready()
            async with decisions_from_the_start(kafka.access) as consumer:
                sending = asyncio.create_task(_send(kafka, seconds, book))
                await _read(consumer, book, sending)
        finally:
            worker.end()
    return book


async def _read(consumer: AIOKafkaConsumer, book: Book, sending: asyncio.Task[None]) -> None:
    """Until every tick's decision was read. Raises TimeoutError where one does not come."""
    sent_s = None
    while not (sending.done() and book.is_complete):
        if sending.done():
            sending.result()
            sent_s = sent_s or monotonic_s()
            if monotonic_s() - sent_s > READABLE_WITHIN_S:
                raise TimeoutError(f"{sum(tick not in book.readable for tick in book.counted)} decisions are missing")
        for decision, readable_s in await read_decisions(consumer):
            book.readable[decision.endpoint, decision.at_s] = readable_s


async def _send(kafka: Line, seconds: int, book: Book) -> None:
    """Each second's samples, spread over the half second after its end, in an order that differs each time."""
    fleet, clock = Fleet(), Clock()
    pairs = [(endpoint, f"{endpoint}-{replica:03d}") for endpoint in ENDPOINTS for replica in range(REPLICAS)]
    first_s = int(clock.now_s()) + 1
    async with open_producer(kafka.access) as producer:
        for at_s in range(first_s, first_s + seconds):
            fleet.chance.shuffle(pairs)
            for number, (endpoint, replica) in enumerate(pairs):
                due_s = at_s + 1 + 0.5 * number / len(pairs)
                if number % 10 == 0:
                    await clock.sleep(due_s - clock.now_s())
                    book.late_max_s = max(book.late_max_s, clock.now_s() - due_s)
                each = fleet.sample(endpoint, replica, at_s, full=False)
                tick = (endpoint, at_s + 1 - LATENESS_S)
                if tick[1] % TICK_S == 0:
                    book.completed.setdefault(tick, monotonic_s())
                partition = partition_of(endpoint, PARTITIONS)
                await producer.send("telemetry.requests", encode(each), endpoint.encode(), partition)


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
