"""What the worker's tests share: topics with a prefix, samples in, what was decided out, worker processes to kill."""

import asyncio
import contextlib
import os
import subprocess
import sys
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
from aiokafka import ConsumerRecord, TopicPartition

from headrace.clock import Clock
from records.decisions import ScalingDecision
from records.enums import Source
from records.signals import EndpointSignal
from records.telemetry import RequestSample, TargetObserved
from tests.worker.worker_process import WorkerSpec
from wire.admin import TopicSettings, create_topics
from wire.codec import encode
from wire.kafka import KafkaAccess, open_consumer, open_producer, partition_of
from wire.topics import TopicNames, topic_of

REPOSITORY = Path(__file__).parents[2]


class Pipeline:
    """The topics of one test. Timestamps are the senders', so that a test chooses when its samples were sent."""

    def __init__(self, bootstrap: str, prefix: str, partitions: int = 4) -> None:
        self.access = KafkaAccess(bootstrap=bootstrap)
        self.prefix = prefix
        self.names = TopicNames(prefix)
        self.partitions = partitions

    @classmethod
    def unique(cls, bootstrap: str, partitions: int = 4) -> "Pipeline":
        return cls(bootstrap, f"t{uuid.uuid4().hex[:10]}.", partitions)

    async def create(self) -> None:
        await create_topics(
            self.access, self.names, TopicSettings(partitions=self.partitions, producer_timestamps=True)
        )

    async def send(self, records: Iterable[Any], stamped_s: float | None = None) -> None:
        """Each to its endpoint's partition, stamped with this UNIX time, else as received, else now."""
        async with open_producer(self.access) as producer:
            futures = [
                await producer.send(
                    self.names.real(topic_of(record)),
                    encode(record),
                    record.endpoint.encode(),
                    partition_of(record.endpoint, self.partitions),
                    timestamp_ms=_stamp_ms(stamped_s if stamped_s is not None else _received_s(record)),
                )
                for record in records
            ]
            await asyncio.gather(*futures)

    async def read(self, topic: str, isolation: str = "read_committed") -> list[ConsumerRecord]:
        """All messages of a topic (logical name), partition by partition in order."""
        async with open_consumer(self.access, isolation_level=isolation) as consumer:
            tps = [TopicPartition(self.names.real(topic), number) for number in range(self.partitions)]
            consumer.assign(tps)
            ends = await consumer.end_offsets(tps)
            messages = []
            while any([await consumer.position(tp) < ends[tp] for tp in tps]):
                for polled in (await consumer.getmany(timeout_ms=50)).values():
                    messages.extend(polled)
            return messages

    async def decisions(self) -> dict[str, list[ScalingDecision]]:
        """By endpoint, in the order of the log."""
        found: defaultdict[str, list[ScalingDecision]] = defaultdict(list)
        for message in await self.read("decisions.scaling"):
            decision = msgspec.json.decode(message.value, type=ScalingDecision)
            found[decision.endpoint].append(decision)
        return dict(found)

    async def signal_ticks(self) -> dict[str, list[int]]:
        """By endpoint the ticks that have a signal, in the order of the log."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for message in await self.read("signals"):
            signal = msgspec.json.decode(message.value, type=EndpointSignal)
            found[signal.endpoint].append(signal.at_s)
        return dict(found)

    async def until_decided(self, endpoints: Iterable[str], tick_s: int, within_s: float = 90.0) -> None:
        """Wait until every endpoint has a decision of this tick (or a later one)."""
        wanted = set(endpoints)
        async with asyncio.timeout(within_s), open_consumer(self.access) as consumer:
            consumer.assign(
                [TopicPartition(self.names.real("decisions.scaling"), number) for number in range(self.partitions)]
            )
            await consumer.seek_to_beginning()
            while wanted:
                for polled in (await consumer.getmany(timeout_ms=200)).values():
                    decided = [msgspec.json.decode(message.value, type=ScalingDecision) for message in polled]
                    wanted -= {decision.endpoint for decision in decided if decision.at_s >= tick_s}


def _received_s(record: Any) -> float | None:
    return getattr(record, "received_s", None)


def _stamp_ms(time_s: float | None) -> int | None:
    return None if time_s is None else int(time_s * 1000)


def samples(endpoints: Sequence[str], first_s: int, seconds: int) -> Iterator[RequestSample]:
    """One replica a second for each endpoint, in the order of time; received 0.2 s after the second's end."""
    for at_s in range(first_s, first_s + seconds):
        for number, endpoint in enumerate(endpoints):
            count = (at_s * 7 + number * 3) % 11
            yield RequestSample(
                endpoint=endpoint,
                replica="r0",
                epoch="1",
                source=Source.ENGINE,
                at_s=at_s,
                received_s=at_s + 1.2,
                arrivals=count,
                completions=count,
                errors=0,
                aborted=0,
                running=float(number % 5),
                waiting=0.0,
            )


def targets(endpoints: Sequence[str], first_s: int, seconds: int) -> Iterator[TargetObserved]:
    """What the scale targets have, every 10 s another; received at once, between two ticks."""
    for at_s in range(first_s, first_s + seconds):
        if at_s % 10 == 0:
            for number, endpoint in enumerate(endpoints):
                spec = 1 + (at_s // 10 + number) % 4
                yield TargetObserved(endpoint=endpoint, at_s=at_s, received_s=at_s + 0.1, spec_replicas=spec)


def broken_links(decisions: Sequence[ScalingDecision]) -> list[int]:
    """The ticks whose `previous_id` is not the id of the decision before; a sound chain has none."""
    before = [None, *(decision.decision_id for decision in decisions)]
    return [
        decision.at_s for previous, decision in zip(before, decisions, strict=False) if decision.previous_id != previous
    ]


class WorkerProcess:
    """One worker as a child process; what it says goes to `log`."""

    def __init__(self, spec: WorkerSpec, log: Path, clock: Clock | None = None) -> None:
        self._spec = spec
        self._log = log
        self._environment = os.environ | ({} if clock is None else clock.to_environment())

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.worker.worker_process", msgspec.json.encode(self._spec).decode()],
                cwd=REPOSITORY,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def stopped(self, within_s: float = 90.0) -> None:
        """Wait until it has been stopped by SIGSTOP."""
        async with asyncio.timeout(within_s):
            while psutil.Process(self.pid).status() != psutil.STATUS_STOPPED:
                assert self._process.poll() is None, self.said
                await asyncio.sleep(0.05)

    async def ended(self, within_s: float = 90.0) -> int:
        """Wait for its end; the exit status, negative for a signal."""
        return await asyncio.to_thread(self._process.wait, within_s)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def said(self) -> str:
        return self._log.read_text()


@contextlib.asynccontextmanager
async def running(*workers: WorkerProcess) -> AsyncIterator[None]:
    """Start the workers; whatever happens, none is left."""
    try:
        for worker in workers:
            worker.start()
        yield
    finally:
        for worker in workers:
            worker.kill()
