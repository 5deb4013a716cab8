"""Seconds from the SIGKILL of one of three workers to the first tick of each of its partitions elsewhere."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from statistics import median

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.registry import Result
from bench.worker_line import ENDPOINTS, PARTITIONS, SEED, Fleet, Line, WorkerProcess, line, read_decisions
from headrace.clock import Clock, monotonic_s
from streams.endpoints.ticks import LATENESS_S, TICK_S
from wire.codec import encode
from wire.kafka import open_consumer, open_producer, partition_of

WORKERS = 3
SESSION_S = 6
"""The least that Kafka takes by default."""
KILLS, KILLS_SHORT = 3, 1
CALM_S = 7.0
"""Before each kill: until every endpoint has ticked under the owners that it has now."""
IN_FLIGHT_S = 0.25
"""What a killed process had sent may still be on its way into the log."""
WITHIN_S = 60.0
TOPIC = "decisions.scaling"


def run(*, short: bool) -> Result:
    """Telemetry goes on in real time all the while; a killed worker is replaced before the next is killed."""
    kills = KILLS_SHORT if short else KILLS
    seconds, ticks = asyncio.run(_measure(kills))
    missing, double = _faults(ticks)
    return Result(
        figures={"seconds": median(seconds), "ticks_missing": missing, "ticks_double": double},
        context={
            "kills": kills,
            "seconds_each": [round(each, 2) for each in seconds],
            "ticks": sum(map(len, ticks.values())),
            "workers": WORKERS,
            "partitions": PARTITIONS,
            "endpoints": len(ENDPOINTS),
            "session_s": SESSION_S,
            "seed": SEED,
        },
    )


Ticks = dict[str, list[int]]
"""By endpoint those that were decided, in the order of the log."""


async def _measure(kills: int) -> tuple[list[float], Ticks]:
    seconds = []
    async with line() as kafka:
        workers = [_worker(kafka, number) for number in range(WORKERS)]
        sending = asyncio.create_task(_send(kafka))
        try:
            for kill in range(kills):
                await asyncio.gather(*(worker.until_ready() for worker in workers))
                await asyncio.sleep(CALM_S)
                seconds.append(await _take_over(kafka, workers.pop(0)))
                workers.append(_worker(kafka, WORKERS + kill))
            sending.cancel()
            return seconds, await _ticks(kafka)
        finally:
            sending.cancel()
            for worker in workers:
                worker.end()


def _worker(kafka: Line, number: int) -> WorkerProcess:
    flags = ["--session-timeout-seconds", str(SESSION_S)]
    return WorkerProcess(kafka, name=f"worker-{number}", flags=flags)


async def _send(kafka: Line) -> None:
    """A sample of one replica of each endpoint, once its second is over; for ever."""
    fleet, clock = Fleet(), Clock()
    at_s = int(clock.now_s())
    async with open_producer(kafka.access) as producer:
        while True:
            await clock.sleep(at_s + 1 - clock.now_s())
            for endpoint in ENDPOINTS:
                each = fleet.sample(endpoint, f"{endpoint}-0", at_s, full=False)
                partition = partition_of(endpoint, PARTITIONS)
                await producer.send("telemetry.requests", encode(each), endpoint.encode(), partition)
            at_s += 1


async def _take_over(kafka: Line, victim: WorkerProcess) -> float:
    """Kill it; the seconds until each of its partitions has a decision that was not in the log before."""
    tps = [TopicPartition(TOPIC, number) for number in victim.logged("partitions_assigned")[-1]["partitions"]]
    async with open_consumer(kafka.access, fetch_max_wait_ms=100) as consumer:
        consumer.assign(tps)
        killed_s = monotonic_s()
        victim.end()
        await asyncio.sleep(IN_FLIGHT_S)
        await _seek_to_uncommitted_end(kafka, consumer, tps)
        waiting = set(tps)
        async with asyncio.timeout(WITHIN_S):
            while waiting:
                waiting -= (await consumer.getmany(timeout_ms=200)).keys()
        return monotonic_s() - killed_s


async def _seek_to_uncommitted_end(kafka: Line, consumer: AIOKafkaConsumer, tps: Collection[TopicPartition]) -> None:
    """Behind all that the victim wrote, committed or not."""
    async with open_consumer(kafka.access, isolation_level="read_uncommitted") as uncommitted:
        for tp, end in (await uncommitted.end_offsets(tps)).items():
            consumer.seek(tp, end)


async def _ticks(kafka: Line) -> Ticks:
    """All that were decided so far, once those of the samples sent before now are."""
    last_tick_s = int(Clock().now_s() - LATENESS_S) // TICK_S * TICK_S - TICK_S
    found: defaultdict[str, list[int]] = defaultdict(list)
    async with asyncio.timeout(WITHIN_S), open_consumer(kafka.access, fetch_max_wait_ms=100) as consumer:
        consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        await consumer.seek_to_beginning()
        while any(last_tick_s not in found[endpoint] for endpoint in ENDPOINTS):
            for decision, _ in await read_decisions(consumer):
                found[decision.endpoint].append(decision.at_s)
    return dict(found)


def _faults(ticks: dict[str, list[int]]) -> tuple[int, int]:
    """How many ticks between each endpoint's first and last one are not there, and how many once too often."""
    missing = double = 0
    for of_endpoint in ticks.values():
        due: Sequence[int] = range(min(of_endpoint), max(of_endpoint) + 1, TICK_S)
        missing += len(set(due) - set(of_endpoint))
        double += len(of_endpoint) - len(set(of_endpoint))
    return missing, double
