"""What the benches of the worker share: a real broker, topics, policies, samples, and one `headrace worker`."""

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil
from aiokafka import AIOKafkaConsumer, TopicPartition

from headrace.broker import EmbeddedBroker
from headrace.clock import Clock, monotonic_s
from records.decisions import ScalingDecision
from records.enums import MetricName, Source
from records.histogram import Histogram
from records.policy import EndpointPolicy, Metric, ScaleTargetRef
from records.telemetry import RequestSample
from simulation.vllm_bounds import VLLM_BOUNDS_MS
from wire.admin import TopicSettings, create_topics
from wire.codec import encode
from wire.kafka import KafkaAccess, open_consumer, open_producer, partition_of
from wire.topics import TopicNames

PARTITIONS = 12
ENDPOINTS = tuple(f"endpoint-{number:03d}" for number in range(100))
NAMES = TopicNames()
SEED = 20_240_601


@dataclass(frozen=True)
class Line:
    access: KafkaAccess
    folder: Path
    broker_pid: int
    partitions: int = PARTITIONS


@contextlib.asynccontextmanager
async def line(policies_stamped_s: float | None = None, partitions: int = PARTITIONS) -> AsyncIterator[Line]:
    """A broker with all topics, and a policy for each endpoint."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        broker = EmbeddedBroker(Path(folder) / "broker")
        await asyncio.to_thread(broker.start)
        try:
            access = KafkaAccess(bootstrap=broker.bootstrap)
            settings = TopicSettings(partitions=partitions, producer_timestamps=policies_stamped_s is not None)
            await create_topics(access, NAMES, settings)
            await _publish(access, policies_stamped_s, partitions)
            yield Line(access, Path(folder), broker.pid, partitions)
        finally:
            broker.kill()


async def _publish(access: KafkaAccess, stamped_s: float | None, partitions: int) -> None:
    stamp_ms = None if stamped_s is None else int(stamped_s * 1000)
    async with open_producer(access) as producer:
        for endpoint in ENDPOINTS:
            partition = partition_of(endpoint, partitions)
            await producer.send("policies", encode(_policy(endpoint)), endpoint.encode(), partition, stamp_ms)


def _policy(endpoint: str) -> EndpointPolicy:
    metrics = (Metric(name=MetricName.INFLIGHT_REQUESTS), Metric(name=MetricName.QUEUE_DEPTH, target=4.0))
    return EndpointPolicy(
        endpoint=endpoint,
        min_replicas=1,
        max_replicas=100,
        metrics=metrics,
        scale_target_ref=ScaleTargetRef(kind="Deployment", name=endpoint),
    )


class Fleet:
    """Replicas whose samples add up: what is inside is what was there, and what came, less what left.

    A fleet that does not conserve its requests would have all its values suspect, and nothing be decided on them.
    """

    def __init__(self, seed: int = SEED) -> None:
        self.chance = random.Random(seed)
        self._inside: dict[str, int] = {}

    def samples(self, first_s: int, seconds: int, replicas: int, *, full: bool) -> Iterator[RequestSample]:
        """Every replica of every endpoint once a second; no two alike. `full`: with four histograms."""
        for at_s in range(first_s, first_s + seconds):
            for endpoint in ENDPOINTS:
                for replica in range(replicas):
                    received_s = at_s + 1 + round(self.chance.random() * 0.5, 3)
                    found = self.sample(endpoint, f"{endpoint}-{replica:03d}", at_s, full=full)
                    yield msgspec.structs.replace(found, received_s=received_s)

    def sample(self, endpoint: str, replica: str, at_s: int, *, full: bool) -> RequestSample:
        """The replica's next second, as an engine reports it once it is over; when it came is left to Kafka."""
        chance = self.chance
        arrivals = chance.randrange(20)
        there = self._inside.get(replica, 0) + arrivals
        completions = round(there * (0.4 + 0.3 * chance.random()))
        inside = self._inside[replica] = there - completions
        waiting = round(inside * 0.3 * chance.random(), 2)
        running = inside - waiting
        return RequestSample(
            endpoint=endpoint,
            replica=replica,
            epoch="6f1c2b34-9d5e-4a70-8f21/0",
            source=Source.ENGINE,
            at_s=at_s,
            seq=at_s,
            arrivals=arrivals,
            completions=completions,
            errors=0,
            rejections=0,
            aborted=0,
            running=round(running, 2),
            running_max=round(running + 1, 2),
            waiting=waiting,
            deferred=0.0,
            input_tokens=arrivals * chance.randrange(200, 2000),
            cached_tokens=arrivals * chance.randrange(100),
            output_tokens=chance.randrange(4000),
            images=0,
            steps=chance.randrange(20, 60),
            arrived_input_tokens=arrivals * 900,
            arrived_output_tokens_estimate=arrivals * 210.0,
            kv_cache_usage=round(chance.random(), 4),
            preemptions=0,
            concurrency_limit=64.0,
            active_sessions=round(running * 2, 1),
            cpu=round(chance.random(), 3),
            streamed_fraction=1.0,
            ttft_ms=_histogram(chance, "ttft_ms") if full else None,
            tpot_ms=_histogram(chance, "tpot_ms") if full else None,
            e2e_ms=_histogram(chance, "e2e_ms") if full else None,
            queue_ms=_histogram(chance, "queue_ms") if full else None,
        )


def _histogram(chance: random.Random, field: str) -> Histogram:
    bounds = VLLM_BOUNDS_MS[field]
    counts = [0] * (len(bounds) + 1)
    for _ in range(8):
        counts[chance.randrange(4, 14)] += 1
    return Histogram(explicit_bounds=bounds, bucket_counts=tuple(counts), sum=round(chance.random() * 3000, 1))


async def send_all(access: KafkaAccess, found: Iterable[RequestSample]) -> tuple[int, int]:
    """Write samples as single JSON messages, stamped as received; how many, and their bytes."""
    count = size = 0
    async with open_producer(access) as producer:
        for each in found:
            value = encode(each)
            stamp_ms = int((each.received_s or 0) * 1000)
            partition = partition_of(each.endpoint, PARTITIONS)
            await producer.send("telemetry.requests", value, each.endpoint.encode(), partition, stamp_ms)
            count, size = count + 1, size + len(value)
    return count, size


def resident_mb(pid: int) -> float:
    """Resident memory of a process, MiB, with what it maps of files."""
    return float(psutil.Process(pid).memory_info().rss / 2**20)


class WorkerProcess:
    """One `headrace worker`, with flags of its own; `name` is that of its log. `cpu_s` is its user and system time so
    far."""

    def __init__(self, line: Line, clock: Clock | None = None, name: str = "worker", flags: Sequence[str] = ()) -> None:
        self._health_file = line.folder / f"{name}.health"
        self._health_file.unlink(missing_ok=True)
        self._log = line.folder / f"{name}.log"
        arguments = ["worker", "--bootstrap", line.access.bootstrap, "--health-file", str(self._health_file), *flags]
        environment = os.environ | ({} if clock is None else clock.to_environment())
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace.main", *arguments], env=environment, stdout=output, stderr=output
            )
        self._measured = psutil.Process(self.process.pid)

    @property
    def cpu_s(self) -> float:
        times = self._measured.cpu_times()
        return float(times.user + times.system)

    @property
    def resident_mb(self) -> float:
        return resident_mb(self.process.pid)

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Its log's lines of an event, oldest first."""
        lines = (line for line in self._log.read_text().splitlines() if f'"event": "{event}"' in line)
        return [json.loads(line) for line in lines]

    def last_lines(self, count: int = 20) -> str:
        """Whether it still runs, and the end of its log: what a bench says that failed."""
        code = self.process.poll()
        state = "still runs" if code is None else f"ended with {code}"
        return "\n".join([f"the worker {state}; its log ends:", *self._log.read_text().splitlines()[-count:]])

    async def until_ready(self) -> None:
        """Raises TimeoutError after a minute."""
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while True:
                if self._health_file.exists():
                    address = self._health_file.read_text().strip()
                    async with session.get(f"http://{address}/readyz") as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.05)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.asynccontextmanager
async def decisions_from_the_start(
    access: KafkaAccess, partitions: int = PARTITIONS
) -> AsyncIterator[AIOKafkaConsumer]:
    async with open_consumer(access, fetch_max_wait_ms=100) as consumer:
        consumer.assign([TopicPartition("decisions.scaling", number) for number in range(partitions)])
        await consumer.seek_to_beginning()
        yield consumer


async def read_decisions(consumer: AIOKafkaConsumer) -> list[tuple[ScalingDecision, float]]:
    """The next decisions, with the monotonic second at which they became readable."""
    polled = await consumer.getmany(timeout_ms=200)
    now_s = monotonic_s()
    messages = [message for found in polled.values() for message in found]
    return [(msgspec.json.decode(message.value, type=ScalingDecision), now_s) for message in messages]


async def until_decided(access: KafkaAccess, last_tick_s: int, within_s: float, partitions: int = PARTITIONS) -> int:
    """Wait for the last tick of every endpoint; how many decisions there are. Raises TimeoutError."""
    waiting, count = set(ENDPOINTS), 0
    async with asyncio.timeout(within_s), decisions_from_the_start(access, partitions) as consumer:
        while waiting:
            found = await read_decisions(consumer)
            count += len(found)
            waiting -= {decision.endpoint for decision, _ in found if decision.at_s >= last_tick_s}
    return count


async def until_each_decided(consumer: AIOKafkaConsumer, decided_s: dict[str, int], tick_s: int) -> None:
    """Wait for every endpoint's decision of a tick or a later one; `decided_s` has each one's newest tick, and is kept
    up to date."""
    while min(decided_s.values()) < tick_s:
        decided_s |= {found.endpoint: found.at_s for found, _ in await read_decisions(consumer)}


async def decisions_of_tick(access: KafkaAccess, tick_s: int, within_s: float) -> list[ScalingDecision]:
    """The decisions of one tick, one for each endpoint. Raises TimeoutError."""
    decisions: dict[str, ScalingDecision] = {}
    async with asyncio.timeout(within_s), decisions_from_the_start(access) as consumer:
        while len(decisions) < len(ENDPOINTS):
            found = await read_decisions(consumer)
            decisions |= {decision.endpoint: decision for decision, _ in found if decision.at_s == tick_s}
    return list(decisions.values())
