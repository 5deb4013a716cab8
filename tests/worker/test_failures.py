"""Bugs of ours end the worker: one that goes on without a partition hides them."""

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from aiokafka import ConsumerRecord
from aiokafka.errors import InvalidSessionTimeoutError
from faust.types import TP

from headrace.clock import Clock, monotonic_s
from streams.shell.assignment import Assignments, SplitAssignmentError
from streams.shell.faust_app import GroupOptions
from streams.shell.inputs import INPUT_TOPICS
from streams.shell.owner_ports import OwnerState
from streams.shell.partition_owner import PartitionOwner
from streams.shell.worker import Worker, WorkerOptions
from streams.shell.worker_metrics import WorkerMetrics
from tests.repository.markdown import ROOT
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
        monotonic_s=monotonic_s,
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
    (failure,) = failures
    assert isinstance(failure, SplitAssignmentError)
    assert str(failure).startswith("partition 3 came without t.policies, which was deleted")


def test_only_a_few_of_the_partitions_that_are_not_ready_are_named() -> None:
    def make_owner(partition: int) -> PartitionOwner:
        raise AssertionError("no owner may start")

    assignments = Assignments(TopicNames("t."), make_owner, lambda _: None)
    assignments.announce()
    for partition in range(12):
        state = OwnerState.WORKING if partition % 2 else OwnerState.TAKING_OVER
        rebuilds = partition == 3
        owner = SimpleNamespace(partition=partition, state=state, lag_s=1.0, is_caught_up=False, is_rebuilding=rebuilds)
        assignments.owners[partition] = cast(PartitionOwner, owner)
    assert assignments.why_not_ready(10.0) == (
        "7 of 12: partition 0 is taking_over; partition 2 is taking_over; "
        "partition 3 is rebuilding its windows; and so on"
    )


def test_the_page_tells_the_reasons_of_a_worker_that_is_not_ready() -> None:
    def make_owner(partition: int) -> PartitionOwner:
        raise AssertionError("no owner may start")

    assignments = Assignments(TopicNames("t."), make_owner, lambda _: None)
    reasons = [assignments.why_not_ready(10.0)]
    assignments.announce()
    for partition in range(12):
        owner = SimpleNamespace(
            partition=partition, state=OwnerState.WORKING, lag_s=None, is_caught_up=False, is_rebuilding=False
        )
        assignments.owners[partition] = cast(PartitionOwner, owner)
    reasons.append(assignments.why_not_ready(10.0))
    page = (ROOT / "docs" / "health.md").read_text()
    answers = [json.loads(line) for line in page.splitlines() if line.startswith('{"process": "worker"')]
    assert [answer["problems"].get("partitions") for answer in answers] == [*reasons, None]


@pytest.mark.kafka
async def test_a_group_that_refuses_the_worker_ends_it(pipeline: Pipeline) -> None:
    options = WorkerOptions(
        access=pipeline.access,
        names=pipeline.names,
        group=GroupOptions(app=pipeline.prefix + "worker", session_timeout_s=0.5),
        clock=Clock().now_s,
        monotonic_s=monotonic_s,
    )
    async with asyncio.timeout(60):
        with pytest.raises(InvalidSessionTimeoutError):
            await Worker(options, CountingSource, WorkerMetrics()).run(asyncio.Event())
