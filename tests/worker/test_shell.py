"""The shell around the ticks' source, on a real Kafka: with a source that is small enough to see through."""

import signal
from pathlib import Path

import pytest

from headrace.clock import Clock
from streams.fault_points import FaultPoint
from tests.worker.pipeline import Pipeline, WorkerProcess, broken_links, running, samples
from tests.worker.worker_process import WorkerSpec

pytestmark = pytest.mark.kafka

ENDPOINTS = [f"e{number}" for number in range(12)]
FIRST_S = int(Clock().now_s()) // 5 * 5 - 900
"""Recent, since Kafka deletes what is older than its retention, by the senders' stamps."""


async def test_every_tick_is_decided_once_over_restarts_in_the_middle_of_transactions(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    points = [FaultPoint.PRODUCER_STARTED, FaultPoint.REWOUND, FaultPoint.RECORDS_SENT]
    points += [FaultPoint.RECORDS_ACKNOWLEDGED, FaultPoint.COMMITTED]
    for number, point in enumerate(points):
        await pipeline.send(samples(ENDPOINTS, FIRST_S + number * 60, 60))
        spec = WorkerSpec(bootstrap=pipeline.access.bootstrap, prefix=pipeline.prefix, die_at=point, die_after=2)
        worker = WorkerProcess(spec, tmp_path / f"{point}.log")
        async with running(worker):
            assert await worker.ended() == -signal.SIGKILL, worker.said
    await pipeline.send(samples(ENDPOINTS, FIRST_S + len(points) * 60, 6))
    last = WorkerProcess(WorkerSpec(bootstrap=pipeline.access.bootstrap, prefix=pipeline.prefix), tmp_path / "last.log")
    async with running(last):
        await pipeline.until_decided(ENDPOINTS, FIRST_S + len(points) * 60 + 5)
        last.send_signal(signal.SIGTERM)
        assert await last.ended() == 0, last.said
    decisions = await pipeline.decisions()
    assert set(decisions) == set(ENDPOINTS)
    expected = list(range(FIRST_S + 5, FIRST_S + len(points) * 60 + 6, 5))
    for endpoint in ENDPOINTS:
        assert [decision.at_s for decision in decisions[endpoint]] == expected
        assert broken_links(decisions[endpoint]) == []
        assert [decision.desired for decision in decisions[endpoint]] == [
            _arrivals(endpoint, at_s) for at_s in expected
        ]


def _arrivals(endpoint: str, tick_s: int) -> int:
    return sum(
        sample.arrivals or 0
        for sample in samples(ENDPOINTS, FIRST_S, tick_s - FIRST_S)
        if sample.endpoint == endpoint and sample.at_s >= tick_s - 20
    )
