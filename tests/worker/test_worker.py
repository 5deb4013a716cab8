"""Whole workers with the real controller on a real Kafka, disturbed in every way: what they decide must equal what
one undisturbed controller decides from the same log."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.clock import Clock
from records.decisions import ScalingDecision
from records.enums import MetricName
from records.policy import EndpointPolicy, Metric, ScaleTargetRef
from streams.shell.fault_points import FaultPoint
from tests.worker.pipeline import Pipeline, WorkerProcess, broken_links, running, samples, targets
from tests.worker.undisturbed import undisturbed_decisions
from tests.worker.worker_process import WorkerSpec

pytestmark = pytest.mark.kafka

ENDPOINTS = [f"e{number}" for number in range(12)]
NOW_S = Clock().now_s()
FIRST_S = int(NOW_S) // 5 * 5 - 900
"""Recent, since Kafka deletes what is older than its retention, by the senders' stamps."""
BEHIND = Clock(shown_s=FIRST_S - 3600.0, real_s=NOW_S)
"""An hour before the first sample: here the samples alone let time pass, so a test can say what is decided."""

NewWorker = Callable[..., WorkerProcess]


def policy(endpoint: str) -> EndpointPolicy:
    return EndpointPolicy(
        endpoint=endpoint,
        min_replicas=1,
        max_replicas=20,
        metrics=(
            Metric(name=MetricName.INFLIGHT_REQUESTS, target=3.0),
            Metric(name=MetricName.QUEUE_DEPTH, target=2.0),
        ),
        scale_target_ref=ScaleTargetRef(kind="Deployment", name=endpoint),
    )


class Feed:
    """Sends the next seconds of every endpoint's samples; `sent_s` is where the next ones begin."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.sent_s = FIRST_S

    async def send(self, seconds: int) -> None:
        await self._pipeline.send(samples(ENDPOINTS, self.sent_s, seconds))
        self.sent_s += seconds

    async def send_unread(self, seconds: int) -> None:
        """With the scale targets of the same seconds, while no worker reads: one that takes topics as they come, and
        not in the order of time, knows these targets too early."""
        await self._pipeline.send(targets(ENDPOINTS, self.sent_s, seconds))
        await self.send(seconds)

    @property
    def last_tick_s(self) -> int:
        """The newest tick that these samples complete: two seconds are left for late ones."""
        return (self.sent_s - 2) // 5 * 5


@pytest.fixture
async def feed(pipeline: Pipeline) -> Feed:
    await pipeline.send([policy(endpoint) for endpoint in ENDPOINTS], stamped_s=FIRST_S)
    return Feed(pipeline)


@pytest.fixture
def new_worker(pipeline: Pipeline, tmp_path: Path) -> NewWorker:
    return worker_maker(pipeline, tmp_path)


def worker_maker(pipeline: Pipeline, folder: Path) -> NewWorker:
    def make(name: str, clock: Clock = BEHIND, **spec: object) -> WorkerProcess:
        made = WorkerSpec(
            bootstrap=pipeline.access.bootstrap,
            prefix=pipeline.prefix,
            partitions=pipeline.partitions,
            **spec,  # type: ignore[arg-type]  # the test's own fields
        )
        return WorkerProcess(made, folder / f"{name}.log", clock)

    return make


async def assert_undisturbed(pipeline: Pipeline, last_tick_s: int) -> None:
    """Every tick up to the last one is there once, in one chain, as the undisturbed controller decides it."""
    await pipeline.until_decided(ENDPOINTS, last_tick_s)
    decided, expected = await pipeline.decisions(), await undisturbed_decisions(pipeline)
    assert set(decided) == set(ENDPOINTS)
    for endpoint in ENDPOINTS:
        assert ticks(decided[endpoint]) == list(range(FIRST_S + 5, last_tick_s + 1, 5))
        assert broken_links(decided[endpoint]) == []
        assert decided[endpoint] == expected[endpoint]


def ticks(decisions: list[ScalingDecision]) -> list[int]:
    return [decision.at_s for decision in decisions]


async def test_killed_inside_transactions_and_restarted(pipeline: Pipeline, feed: Feed, new_worker: NewWorker) -> None:
    for number, point in enumerate([FaultPoint.RECORDS_SENT, FaultPoint.RECORDS_ACKNOWLEDGED, FaultPoint.COMMITTED]):
        await feed.send_unread(40)
        worker = new_worker(point.value, fault_at=point, fault_after=number + 1)
        async with running(worker):
            assert await worker.ended() == -signal.SIGKILL, worker.said
    await feed.send_unread(12)
    async with running(new_worker("last")):
        await assert_undisturbed(pipeline, feed.last_tick_s)


@pytest.mark.parametrize(
    ("asleep_s", "session_timeout_s"),
    [(0.0, 2.0), pytest.param(20.0, 6.0, marks=[pytest.mark.slow, pytest.mark.timeout(300)])],
)
async def test_worker_that_slept_inside_a_transaction_is_fenced(
    pipeline: Pipeline, feed: Feed, new_worker: NewWorker, asleep_s: float, session_timeout_s: float
) -> None:
    """It sleeps until others have decided in its place, and `asleep_s` longer; then it is one of them again."""
    sleeper = new_worker(
        "sleeper",
        fault_at=FaultPoint.RECORDS_ACKNOWLEDGED,
        fault_after=2,
        fault_signal=signal.SIGSTOP,
        session_timeout_s=session_timeout_s,
    )
    other = new_worker("other", session_timeout_s=session_timeout_s)
    await feed.send(30)
    async with running(sleeper):
        await sleeper.stopped()
        async with running(other):
            await feed.send(30)
            await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
            await asyncio.sleep(asleep_s)
            sleeper.send_signal(signal.SIGCONT)
            await feed.send(30)
            await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
            other.kill()
            await feed.send(32)
            await assert_undisturbed(pipeline, feed.last_tick_s)
    # Fenced, or given up for the time that it took: what it had written before it slept is not there.
    assert "partitions_revoked" in sleeper.said


async def test_ticks_missed_in_a_long_outage_are_skipped_in_one_decision(
    pipeline: Pipeline, feed: Feed, new_worker: NewWorker
) -> None:
    await feed.send(30)
    before = new_worker("before")
    async with running(before):
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        last_before_s = feed.last_tick_s
    await feed.send(202)
    # The worker comes back when these samples are just sent; from then on its clock runs on.
    back_s = feed.sent_s + 1
    after = new_worker("after", Clock(shown_s=float(back_s), real_s=Clock().now_s()))
    async with running(after):
        await pipeline.until_decided(ENDPOINTS, back_s + 5)
    decided, signalled = await pipeline.decisions(), await pipeline.signal_ticks()
    for endpoint in ENDPOINTS:
        decisions = decided[endpoint]
        skips = [decision.skipped for decision in decisions if decision.skipped is not None]
        assert len(skips) == 1, "one hold for the whole outage"
        assert skips[0].first_tick == last_before_s + 5
        assert skips[0].last_tick >= back_s - 60
        covered = list(range(skips[0].first_tick, skips[0].last_tick + 1, 5))
        plain = [decision.at_s for decision in decisions if decision.skipped is None]
        assert sorted(plain + covered) == list(range(FIRST_S + 5, max(plain) + 1, 5))
        assert broken_links(decisions) == []
        assert signalled[endpoint] == list(range(FIRST_S + 5, signalled[endpoint][-1] + 1, 5))
