"""Bugs of ours end the worker: one that goes on without a partition hides them."""

import asyncio
from collections.abc import Sequence

import pytest
from aiokafka import ConsumerRecord
from faust.types import TP

from headrace.clock import Clock
from streams.assignment import Assignments, SplitAssignmentError
from streams.faust_app import GroupOptions
from streams.inputs import INPUT_TOPICS
from streams.partition_owner import PartitionOwner
from streams.watchdog import WorkerStuckError
from streams.worker import Worker, WorkerOptions
from streams.worker_metrics import WorkerMetrics
from tests.worker.counting_source import CountedTick, CountingSource
from tests.worker.pipeline import Pipeline, samples
from wire.topics import TopicNames


class BrokenSource(CountingSource):
    def feed(self, topic: str, messages: Sequence[ConsumerRecord], now_s: float) -> list[CountedTick]:
        raise ZeroDivisionError("a bug")


@pytest.mark.kafka
async def test_an_exception_while_feeding_ends_the_worker(pipeline: Pipeline) -> None:
    options = WorkerOptions(
        access=pipeline.access,
        names=pipeline.names,
        group=GroupOptions(app=pipeline.prefix + "worker", session_timeout_s=2.0),
        clock=Clock().now_s,
    )
    await pipeline.send(samples(["e"], int(Clock().now_s()) - 10, 5))
    async with asyncio.timeout(60):
        with pytest.raises(ZeroDivisionError):
            await Worker(options, BrokenSource, WorkerMetrics()).run(asyncio.Event())


def test_a_partition_without_all_its_topics_is_refused() -> None:
    failures: list[BaseException] = []
    names = TopicNames("t.")

    def make_owner(partition: int) -> PartitionOwner:
        raise AssertionError("no owner may start")

    assignments = Assignments(names, make_owner, failures.append)
    assignments.announce()
    assignments.partitions_assigned(
        frozenset(TP(names.real(topic), 3) for topic in INPUT_TOPICS if topic != "policies")
    )
    assert [str(failure) for failure in failures] == ["partition 3 came without t.policies"]
    assert isinstance(failures[0], SplitAssignmentError)


@pytest.mark.kafka
async def test_a_group_that_refuses_the_worker_ends_it(pipeline: Pipeline) -> None:
    options = WorkerOptions(
        access=pipeline.access,
        names=pipeline.names,
        group=GroupOptions(app=pipeline.prefix + "worker", session_timeout_s=0.5),
        clock=Clock().now_s,
        stall_s=1.0,
    )
    async with asyncio.timeout(60):
        with pytest.raises(WorkerStuckError, match="session timeout"):
            await Worker(options, CountingSource, WorkerMetrics()).run(asyncio.Event())
