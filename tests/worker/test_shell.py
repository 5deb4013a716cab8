"""The shell, killed over and over at every point of a transaction, with a small source of ticks."""

import signal
from pathlib import Path

import pytest

from headrace.clock import Clock
from streams.shell.fault_points import FaultPoint
from tests.worker.pipeline import Pipeline, WorkerProcess, broken_links, running, samples
from tests.worker.worker_process import WorkerSpec

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

ENDPOINTS = [f"e{number}" for number in range(12)]
FIRST_S = int(Clock().now_s()) // 5 * 5 - 900
"""Recent, since Kafka deletes what is older than its retention, by the senders' stamps."""
ROUND_S = 40
KILLS = [(point, passing) for passing in (1, 2, 3, 4) for point in FaultPoint if point is not FaultPoint.SKIPPED]
"""Without overload nothing is skipped."""


async def test_every_tick_is_decided_once_over_two_dozen_kills(pipeline: Pipeline, tmp_path: Path) -> None:
    sound = WorkerSpec(bootstrap=pipeline.access.bootstrap, prefix=pipeline.prefix)
    for number, (point, passing) in enumerate(KILLS):
        await pipeline.send(samples(ENDPOINTS, FIRST_S + number * ROUND_S, ROUND_S))
        spec = WorkerSpec(
            bootstrap=pipeline.access.bootstrap, prefix=pipeline.prefix, fault_at=point, fault_after=passing
        )
        worker = WorkerProcess(spec, tmp_path / f"{number}.log")
        async with running(worker):
            assert await worker.ended() == -signal.SIGKILL, worker.said
    end_s = FIRST_S + len(KILLS) * ROUND_S
    await pipeline.send(samples(ENDPOINTS, end_s, 6))
    last = WorkerProcess(sound, tmp_path / "last.log")
    async with running(last):
        await pipeline.until_decided(ENDPOINTS, end_s + 5)
    decisions = await pipeline.decisions()
    expected = list(range(FIRST_S + 5, end_s + 6, 5))
    for endpoint in ENDPOINTS:
        assert [decision.at_s for decision in decisions[endpoint]] == expected
        assert broken_links(decisions[endpoint]) == []
        totals = [decision.desired for decision in decisions[endpoint]]
        assert totals == [arrivals_before(endpoint, tick_s) for tick_s in expected]


def arrivals_before(endpoint: str, tick_s: int) -> int:
    """In the 20 s before a tick, as the counting source sums them."""
    first_s = max(FIRST_S, tick_s - 20)
    found = [sample for sample in samples(ENDPOINTS, first_s, tick_s - first_s) if sample.endpoint == endpoint]
    return sum(sample.arrivals or 0 for sample in found)
