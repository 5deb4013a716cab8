"""Workers behind a network that delays, holds back, resets and loses: what they decide stays undisturbed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.broker_files import free_port
from tests.conftest import BrokerFactory
from tests.worker.pipeline import Pipeline, WorkerProcess, running
from tests.worker.proxy import Proxy, Weather
from tests.worker.test_worker import BEHIND, ENDPOINTS, FIRST_S, Feed, assert_undisturbed, policy
from tests.worker.worker_process import WorkerSpec

pytestmark = pytest.mark.kafka

MISSED_S = 4.0
"""Longer than a session of 2 s, and the rest of a rebalance."""
LOST_S = 45.0
"""Longer than clients wait for an answer: only then do they give such a connection up."""


@dataclass(frozen=True)
class Network:
    """The worker knows the broker behind the proxy alone; `pipeline` goes past it."""

    pipeline: Pipeline
    proxy: Proxy
    feed: Feed


@pytest.fixture
async def network(broker_factory: BrokerFactory) -> AsyncIterator[Network]:
    direct, behind, controller, proxied = (free_port() for _ in range(4))
    names = ("PLAINTEXT", "PROXIED", "CONTROLLER")
    ports = {"PLAINTEXT": direct, "PROXIED": behind, "CONTROLLER": controller}
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{direct},PROXIED://127.0.0.1:{proxied}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
    }
    broker = await asyncio.to_thread(broker_factory, None, direct, properties)
    pipeline = Pipeline.unique(broker.bootstrap)
    await pipeline.create()
    await pipeline.send([policy(endpoint) for endpoint in ENDPOINTS], stamped_s=FIRST_S)
    async with Proxy(proxied, behind) as proxy:
        yield Network(pipeline, proxy, Feed(pipeline))


@pytest.fixture
def behind(network: Network, tmp_path: Path) -> Callable[[str], WorkerProcess]:
    """A worker that reaches the broker through the proxy alone."""

    def make(name: str) -> WorkerProcess:
        pipeline = network.pipeline
        bootstrap = f"127.0.0.1:{network.proxy.port}"
        spec = WorkerSpec(bootstrap=bootstrap, prefix=pipeline.prefix, partitions=pipeline.partitions)
        return WorkerProcess(spec, tmp_path / f"{name}.log", BEHIND)

    return make


async def test_delays_silence_and_resets_change_nothing(
    network: Network, behind: Callable[[str], WorkerProcess]
) -> None:
    pipeline, proxy, feed = network.pipeline, network.proxy, network.feed
    await feed.send(20)
    async with running(behind("first"), behind("second")):
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        proxy.turn(Weather.SLOW)
        await feed.send(20)
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        proxy.turn(Weather.SILENT)
        await feed.send(20)
        await asyncio.sleep(MISSED_S)  # nothing to await: that the group misses them is the event
        proxy.turn(Weather.FAIR)
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        for _ in range(3):
            await feed.send(10)
            proxy.reset_all()
        await feed.send(12)
        await assert_undisturbed(pipeline, feed.last_tick_s)


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_connections_whose_other_side_is_gone_change_nothing(
    network: Network, behind: Callable[[str], WorkerProcess]
) -> None:
    pipeline, proxy, feed = network.pipeline, network.proxy, network.feed
    await feed.send(20)
    async with running(behind("first"), behind("second")):
        await pipeline.until_decided(ENDPOINTS, feed.last_tick_s)
        for _ in range(2):
            proxy.turn(Weather.LOST)
            await feed.send(20)
            await asyncio.sleep(LOST_S)  # as above
            proxy.turn(Weather.FAIR)
            await feed.send(12)
            await pipeline.until_decided(ENDPOINTS, feed.last_tick_s, within_s=180)
        await assert_undisturbed(pipeline, feed.last_tick_s)
