"""A worker on a machine whose wall clock is set an hour forwards, then back: nothing it does follows."""

import asyncio
import time
from functools import partial
from types import SimpleNamespace

import pytest

from headrace.clock import Clock, monotonic_s
from streams.shell.controller_source import ControllerSource
from streams.shell.faust_app import GroupOptions
from streams.shell.worker import Worker, WorkerOptions
from streams.shell.worker_metrics import WorkerMetrics
from tests.worker.pipeline import Pipeline, broken_links, samples
from tests.worker.test_worker import policy

pytestmark = pytest.mark.kafka

SPEED = 20.0


class Wall:
    """The machine's clock, which somebody sets."""

    def __init__(self) -> None:
        self.off_s = 0.0

    def time(self) -> float:
        return time.time() + self.off_s


async def test_a_wall_clock_that_leaps_changes_no_tick(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Wall()
    monkeypatch.setattr("headrace.clock.time", SimpleNamespace(time=wall.time, monotonic=time.monotonic))
    began_s = time.time()
    clock = Clock(shown_s=began_s, real_s=began_s, speed=SPEED).steady()
    metrics = WorkerMetrics()
    options = WorkerOptions(
        access=pipeline.access,
        names=pipeline.names,
        group=GroupOptions(app=pipeline.prefix + "worker", session_timeout_s=2.0),
        clock=clock,
        monotonic_s=monotonic_s,
    )
    worker = Worker(options, partial(_source, pipeline.partitions, metrics), metrics)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        now_s = int(clock())
        await pipeline.send([policy("live")], stamped_s=now_s)
        await pipeline.send(samples(["live"], now_s - 5, 5))
        # No more samples come: time alone lets the ticks fall due.
        await pipeline.until_decided(["live"], now_s + 10)
        for off_s in (3600.0, -3600.0):
            wall.off_s = off_s
            leapt_s = int(clock())
            await pipeline.until_decided(["live"], leapt_s + 15)
            assert worker.why_not_ready() is None
        decisions = (await pipeline.decisions())["live"]
        assert clock() - decisions[-1].at_s >= 5
    finally:
        stop.set()
        await running
    ticks = [decision.at_s for decision in decisions]
    assert ticks == list(range(ticks[0], ticks[-1] + 1, 5))
    assert [decision.skipped for decision in decisions if decision.skipped is not None] == []
    assert broken_links(decisions) == []


def _source(partitions: int, metrics: WorkerMetrics, partition: int) -> ControllerSource:
    return ControllerSource(partition, partitions, metrics)
