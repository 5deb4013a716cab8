"""A worker that takes samples more slowly than they come: what it leaves unread, what it says, and how it comes back.

Time is the test's: it passes by a second with every second of samples that is sent, so nothing depends on how fast this
machine is. The worker may read one message for each two that are sent, until it has skipped.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

import msgspec
import pytest
from aiokafka import AIOKafkaProducer

from headrace.clock import monotonic_s
from headrace.export import Exporter, find_recording
from headrace.export_logs import EndpointLogs
from headrace.replay import Replay
from records.decisions import ScalingDecision
from records.enums import ScalingAction, ValueState
from records.signals import EndpointSignal
from streams.shell.batching_consumer import PolledBatch
from streams.shell.controller_source import ControllerSource
from streams.shell.fault_points import FaultPoint
from streams.shell.faust_app import GroupOptions
from streams.shell.fetched import PollLimits
from streams.shell.partition_owner import PartitionOwner
from streams.shell.worker import Worker, WorkerOptions
from streams.shell.worker_metrics import WorkerMetrics
from tests.conftest import Kafka
from tests.worker.pipeline import Pipeline, broken_links, samples
from tests.worker.test_worker import FIRST_S, policy
from wire.codec import encode
from wire.kafka import open_consumer, open_producer

pytestmark = pytest.mark.kafka

ENDPOINT = "busy"
REQUESTS = "telemetry.requests"
RUNNING = 2.0
Take = Callable[[PartitionOwner, str, PolledBatch], Awaitable[None]]


class Load:
    """Sends samples second by second, and lets the worker take as many batches of them as it gives permits."""

    def __init__(self, pipeline: Pipeline, producer: AIOKafkaProducer) -> None:
        self._topic = pipeline.names.real(REQUESTS)
        self._producer = producer
        self.counted = 0
        self.now_s = float(FIRST_S)
        self._permits = asyncio.Semaphore(0)
        self._taken = asyncio.Semaphore(0)
        self._skipped = asyncio.Event()

    def clock(self) -> float:
        return self.now_s

    def add(self, messages: int, labels: Mapping[str, str]) -> None:
        self.counted += messages
        assert labels == {"topic": REQUESTS}

    async def reached(self, point: FaultPoint, partition: int) -> None:
        if point is FaultPoint.SKIPPED:
            self._skipped.set()

    async def send_second(self) -> None:
        (idle,) = samples([ENDPOINT], int(self.now_s), 1)
        value = encode(msgspec.structs.replace(idle, running=RUNNING))
        stamp_ms = int(self.now_s + 1) * 1000
        await self._producer.send_and_wait(self._topic, value, ENDPOINT.encode(), timestamp_ms=stamp_ms)
        self.now_s += 1

    async def overload(self) -> None:
        """Two seconds for each that the worker takes, until it leaves some unread; then as many as there are."""
        while not self._skipped.is_set():
            for _ in range(2):
                await self.send_second()
            self._permits.release()
            waiting = [asyncio.create_task(self._taken.acquire()), asyncio.create_task(self._skipped.wait())]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()

    def slow(self, take: Take) -> Take:
        """An owner's `take` that needs a permit for samples until some were skipped; a batch is a message here."""

        async def slowly(owner: PartitionOwner, topic: str, batch: PolledBatch) -> None:
            if topic == REQUESTS and not self._skipped.is_set():
                permit = asyncio.create_task(self._permits.acquire())
                skipped = asyncio.create_task(self._skipped.wait())
                await asyncio.wait({permit, skipped}, return_when=asyncio.FIRST_COMPLETED)
                permit.cancel()
                skipped.cancel()
            await take(owner, topic, batch)
            if topic == REQUESTS:
                self._taken.release()

        return slowly


@contextlib.asynccontextmanager
async def working(pipeline: Pipeline, load: Load) -> AsyncIterator[Worker]:
    options = WorkerOptions(
        access=pipeline.access,
        names=pipeline.names,
        group=GroupOptions(app=pipeline.prefix + "worker", session_timeout_s=2.0),
        clock=load.clock,
        monotonic_s=monotonic_s,
        faults=load,
    )
    metrics = WorkerMetrics()
    metrics.skipped = load  # type: ignore[assignment]  # it counts, as the instrument does
    worker = Worker(options, partial(_source, metrics), metrics)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        await running


def _source(metrics: WorkerMetrics, partition: int) -> ControllerSource:
    return ControllerSource(partition, 1, metrics)


async def test_a_worker_leaves_unread_what_it_cannot_catch_up_and_comes_back(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline.unique(kafka.bootstrap, partitions=1)
    await pipeline.create()
    await pipeline.send([policy(ENDPOINT)], stamped_s=FIRST_S)
    take = PartitionOwner.take
    monkeypatch.setattr("streams.shell.consumer_thread.POLL_LIMITS", PollLimits(messages=1, size=1))
    async with asyncio.timeout(60), open_producer(pipeline.access) as producer:
        load = Load(pipeline, producer)
        monkeypatch.setattr(PartitionOwner, "take", load.slow(take))
        async with working(pipeline, load) as worker:
            await load.overload()
            skipped_s = load.now_s
            while load.now_s < skipped_s + 60:
                await load.send_second()
            await pipeline.until_decided([ENDPOINT], int(load.now_s) // 5 * 5 - 5)
            assert worker.why_not_ready() is None
    decisions = (await pipeline.decisions())[ENDPOINT]
    signals = [msgspec.json.decode(message.value, type=EndpointSignal) for message in await pipeline.read("signals")]
    assert_told(signals, skipped_s)
    assert load.counted == sum(one.end_offset - one.first_offset for tick in signals for one in tick.skipped_records)
    assert_held(decisions, signals)
    assert await replayed(pipeline) == decisions


def assert_told(signals: list[EndpointSignal], skipped_s: float) -> None:
    """Each tick has its signal; one of them tells of all that was left unread; what is missing is never a zero."""
    ticks = [signal.at_s for signal in signals]
    assert ticks == list(range(ticks[0], ticks[-1] + 1, 5))
    (skipped,) = [one for signal in signals for one in signal.skipped_records]
    assert skipped.topic == REQUESTS
    assert skipped_s - 30 < skipped.until_s <= skipped_s
    assert 60 <= skipped.end_offset - skipped.first_offset <= 90
    found = {signal.at_s: signal.windows["20"]["inflight_requests"] for signal in signals}
    assert {value.value for value in found.values()} == {RUNNING, None}
    first_lost_s, last_lost_s = FIRST_S + skipped.first_offset, FIRST_S + skipped.end_offset
    assert {found[at_s].state for at_s in ticks if first_lost_s + 20 <= at_s <= last_lost_s} == {ValueState.STALE}
    assert found[ticks[-1]].state is ValueState.FRESH
    assert signals[-1].windows["300"]["inflight_requests"].state is ValueState.PARTIAL


def assert_held(decisions: list[ScalingDecision], signals: list[EndpointSignal]) -> None:
    """Each tick is decided or told as skipped, in one chain, and nothing moves on what is past."""
    assert broken_links(decisions) == []
    covered = [decision.at_s for decision in decisions if decision.skipped is None]
    (gap,) = [decision.skipped for decision in decisions if decision.skipped is not None]
    assert sorted([*covered, *range(gap.first_tick, gap.last_tick + 1, 5)]) == [signal.at_s for signal in signals]
    assert gap.last_tick - gap.first_tick >= 50
    stale = {one.at_s for one in signals if one.windows["20"]["inflight_requests"].state is ValueState.STALE}
    assert {decision.action for decision in decisions if decision.at_s in stale} <= {ScalingAction.HOLD}


async def replayed(pipeline: Pipeline) -> list[ScalingDecision]:
    """The decisions of an export's replay."""
    found: list[ScalingDecision] = []

    def write(topic: str, record: msgspec.Struct) -> None:
        if isinstance(record, ScalingDecision):
            found.append(record)

    logs = EndpointLogs(ENDPOINT, pipeline.names, lambda: open_consumer(pipeline.access))
    try:
        recording = await find_recording(logs, 0, 2**40)
        replay = Replay((), write, source="file:export")
        async for line in Exporter(logs, recording).lines():
            replay.take(line.rstrip(b"\n"))
        replay.finish()
    finally:
        await logs.close()
    return found
