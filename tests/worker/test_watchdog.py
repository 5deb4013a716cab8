"""A worker that makes no progress ends itself, and says where; one that was asleep, or without a Kafka, does not."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, cast

import pytest
from aiokafka.errors import KafkaConnectionError
from faust.types import TP

from headrace.clock import Clock, monotonic_s
from streams.shell.assignment import Assignments
from streams.shell.consumer_thread import ConsumerThread
from streams.shell.fault_points import FaultPoint, FaultPoints, NoFaults
from streams.shell.faust_app import GroupOptions
from streams.shell.log_offsets import LogOffsets
from streams.shell.owner_ports import OwnerState
from streams.shell.watchdog import LOOKS, Watchdog, WorkerStuckError
from streams.shell.worker import Worker, WorkerOptions
from streams.shell.worker_metrics import WorkerMetrics
from tests.worker.counting_source import CountingSource
from tests.worker.pipeline import Pipeline, samples

STALL_S = 0.06
INPUT = TP("telemetry.requests", 0)


def _worker(pipeline: Pipeline, stall_s: float, faults: FaultPoints) -> Worker:
    options = WorkerOptions(
        access=pipeline.access,
        names=pipeline.names,
        group=GroupOptions(app=pipeline.prefix + "worker", session_timeout_s=2.0),
        clock=Clock().steady(),
        monotonic_s=monotonic_s,
        stall_s=stall_s,
        faults=faults,
    )
    return Worker(options, CountingSource, WorkerMetrics())


@pytest.mark.kafka
async def test_a_consumer_that_hands_over_nothing_ends_the_worker(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heartbeats go on, and the broker answers everybody else."""

    async def nothing(*_: object, **__: object) -> dict[TP, list[Any]]:
        await asyncio.sleep(0.05)
        return {}

    monkeypatch.setattr(ConsumerThread, "_fetch_records", nothing)
    await pipeline.send(samples(["stuck"], 1000, 5))
    with pytest.raises(WorkerStuckError, match=r"no progress on \S*telemetry\.requests/\d"):
        # Long enough to take all partitions over, on any machine.
        await asyncio.wait_for(_worker(pipeline, 8.0, NoFaults()).run(asyncio.Event()), 90)


class _Never:
    """A partition's start that does not come to its end."""

    async def reached(self, point: FaultPoint, partition: int) -> None:
        if point is FaultPoint.PRODUCER_STARTED and partition == 2:
            await asyncio.Event().wait()


@pytest.mark.kafka
async def test_a_partition_that_is_never_taken_over_ends_the_worker(pipeline: Pipeline) -> None:
    with pytest.raises(WorkerStuckError, match=r"partitions \[[\d, ]*2[\d, ]*\] are assigned and not worked on"):
        await asyncio.wait_for(_worker(pipeline, 2.0, _Never()).run(asyncio.Event()), 90)


class _Stuck:
    """A worker's partition that stands still below an end that moves."""

    state = OwnerState.WORKING
    is_assigned = True
    processed_s: float | None = None

    def __init__(self) -> None:
        self.owners = {0: self}
        self.looks = 0
        self.is_away: Sequence[int] = ()
        self.counts: dict[str, int] = {}

    def read_positions(self) -> dict[TP, int]:
        return {INPUT: 7}

    async def partition_counts(self, _: object) -> dict[str, int]:
        self.looks += 1
        if self.looks in self.is_away:
            raise KafkaConnectionError("away")
        return self.counts

    async def ends(self, _: object) -> dict[TP, int]:
        return {INPUT: 7 + self.looks}


async def _looks_until_stuck(
    stuck: _Stuck, steps_s: Iterator[float], partitions: Mapping[str, int] = MappingProxyType({})
) -> int:
    """How often the watchdog looks before it ends the worker, when so much time passes between looks."""
    now_s = 0.0

    def clock() -> float:
        nonlocal now_s
        now_s += next(steps_s)
        return now_s

    watchdog = Watchdog(cast(Assignments, stuck), cast(LogOffsets, stuck), partitions, STALL_S, clock)
    with pytest.raises(WorkerStuckError, match=r"no progress on telemetry\.requests/0"):
        await asyncio.wait_for(watchdog.watch(), 60)
    return stuck.looks


def _every(*leaps: int) -> Iterator[float]:
    """A look's time between looks; before these ones an hour."""
    look = 0
    while True:
        yield 3600.0 if look in leaps else STALL_S / LOOKS * 1.001
        look += 1


async def test_a_stall_is_seen_after_its_time() -> None:
    assert await _looks_until_stuck(_Stuck(), _every()) == LOOKS + 1


async def test_a_process_that_was_asleep_is_not_stuck() -> None:
    """Its hour of sleep says nothing; it is given the whole time again."""
    assert await _looks_until_stuck(_Stuck(), _every(4)) == 3 + LOOKS + 1


async def test_a_kafka_that_was_away_is_no_stall() -> None:
    stuck = _Stuck()
    stuck.is_away = (5,)
    assert await _looks_until_stuck(stuck, _every()) == 5 + LOOKS + 1


async def test_topics_that_nobody_told_of_at_the_start_have_not_changed() -> None:
    """Metadata of topics that were made a moment ago comes late."""
    stuck = _Stuck()
    stuck.counts = {INPUT.topic: 12}
    assert await _looks_until_stuck(stuck, _every(), {INPUT.topic: 0}) == LOOKS + 1


async def test_a_worker_that_skips_a_long_backlog_tick_by_tick_is_not_stuck() -> None:
    """It is, once time has stood still for as long as a stall."""
    skipping = _Skipping(moves=3 * LOOKS)
    watchdog = Watchdog(cast(Assignments, skipping), cast(LogOffsets, skipping), {}, STALL_S, _ticking())
    with pytest.raises(WorkerStuckError, match=r"partitions \[0\] are assigned and not worked on"):
        await asyncio.wait_for(watchdog.watch(), 60)
    assert skipping.looks == 3 * LOOKS + LOOKS + 1


class _Skipping(_Stuck):
    """Time passes for it at each of the first looks."""

    state = OwnerState.SKIPPING

    def __init__(self, moves: int) -> None:
        super().__init__()
        self._moves = moves

    async def partition_counts(self, topics: object) -> dict[str, int]:
        self.processed_s = 60.0 * min(self.looks, self._moves)
        return await super().partition_counts(topics)


def _ticking() -> Callable[[], float]:
    steps_s = accumulate(_every())
    return lambda: next(steps_s)


@pytest.mark.kafka
async def test_a_worker_that_cannot_ask_for_the_topics_leaves_no_client_behind(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[LogOffsets] = []

    async def away(*_: object) -> dict[str, int]:
        raise KafkaConnectionError("away")

    async def stop(offsets: LogOffsets) -> None:
        stopped.append(offsets)
        await ended(offsets)

    ended = LogOffsets.stop
    monkeypatch.setattr(LogOffsets, "partition_counts", away)
    monkeypatch.setattr(LogOffsets, "stop", stop)
    with pytest.raises(KafkaConnectionError):
        await _worker(pipeline, 8.0, NoFaults()).run(asyncio.Event())
    assert len(stopped) == 1
