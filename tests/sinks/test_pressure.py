"""A sink whose writes are slow, whose partitions move meanwhile, or whose broker dies."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import sinks.reader
import sinks.sink
from sinks.buffers import FlushRules
from sinks.faults import Point
from tests.conftest import BrokerFactory
from tests.sinks.deployment import Deployment, keep_everything, request_samples, running
from tests.sinks.readers import count, identities

REQUESTS = "telemetry_requests"


class Gate:
    """Holds writes of one table until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.reached_it = threading.Event()

    def reached(self, point: Point, table: str) -> None:
        if point is Point.BEFORE_COMMIT and table == REQUESTS:
            self.reached_it.set()
            self.opened.wait(60)


async def assert_everything_once(deployment: Deployment) -> None:
    sent = await deployment.messages("telemetry.requests")
    assert sent
    kept = identities(deployment.folder, REQUESTS)
    assert set(kept.values()) == {1}
    assert set(kept) == {(message.partition, message.offset, 0) for message in sent}


async def test_memory_is_bounded_while_writes_wait(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks.reader, "POLL_RECORDS_MAX", 50)
    rules = FlushRules(age_max_s=0.1, bytes_max=100_000, memory_bytes_max=300_000)
    gate = Gate()
    most = 0
    await deployment.send(request_samples(2_000))
    with capture_logs() as told:
        async with running(deployment.plan(rules=rules, faults=gate)) as made:
            await made.until(lambda: "reading_paused" in [line["event"] for line in told])
            paused_at = made.sink.buffered_bytes
            for _ in range(20):
                await asyncio.wait({made.task}, timeout=0.02)
                most = max(most, made.sink.buffered_bytes)
            assert paused_at == most
            gate.opened.set()
            await made.caught_up()
    assert 300_000 <= most < 300_000 + 50 * 2_000
    assert "reading_resumed" in [line["event"] for line in told]
    await assert_everything_once(deployment)


async def test_a_write_that_outlives_its_partitions(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebalance does not wait for ever: the old owner's write and the new owner's meet in the table."""
    monkeypatch.setattr(sinks.sink, "REVOKE_PATIENCE_S", 0.1)
    gate = Gate()
    await deployment.send(request_samples(300))
    async with running(deployment.plan(faults=gate)) as old:
        await old.until(gate.reached_it.is_set)
        async with running(deployment.plan()) as new:
            await new.caught_up()
            gate.opened.set()
            await deployment.send(request_samples(300, first=300))
            await new.until(lambda: count(deployment.folder, REQUESTS) >= 600)
    await assert_everything_once(deployment)


@pytest.mark.slow
async def test_a_broker_that_dies_and_comes_back(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = broker_factory()
    folder = tmp_path / "tables"
    folder.mkdir()
    deployment = await Deployment.create(broker.bootstrap, folder)
    async with running(deployment.plan()) as made:
        await deployment.send(request_samples(100))
        await made.until(lambda: count(folder, REQUESTS) > 0)
        await deployment.send(request_samples(100, first=100))
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.restart)
        await deployment.send(request_samples(100, first=200))
        await made.until(lambda: count(folder, REQUESTS) >= 300)
        await asyncio.to_thread(broker.kill)
        made.stop.set()
        await asyncio.wait_for(made.task, 60)
    await asyncio.to_thread(broker.restart)
    await assert_everything_once(deployment)
    await keep_everything(replace(deployment.plan(), group="another"))
    await assert_everything_once(deployment)
