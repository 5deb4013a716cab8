"""What worker and sink say and do while Kafka is away, as processes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from headrace.broker import EmbeddedBroker
from headrace.children import Child, Children
from headrace.kafka_reach import SILENCE_MAX_S, KafkaReach
from headrace.local_stack import headrace_command
from tests.conftest import BrokerFactory, Kafka
from wire.admin import TopicSettings, create_topics
from wire.kafka import KafkaAccess
from wire.topics import TopicNames

pytestmark = pytest.mark.kafka

LINES_MAX = 60
"""Each library's kinds of lines, once or twice; without a filter a worker writes as many in a second."""


@pytest.fixture
async def broker(broker_factory: BrokerFactory) -> EmbeddedBroker:
    broker = broker_factory(properties={"group.min.session.timeout.ms": "1000"})
    await create_topics(KafkaAccess(bootstrap=broker.bootstrap), TopicNames(), TopicSettings(partitions=2))
    return broker


@pytest.fixture
async def children(tmp_path: Path) -> AsyncIterator[Children]:
    async with Children(tmp_path) as children:
        yield children


async def until(child: Child, what: str, holds: Callable[[int, str], bool]) -> None:
    """Ask /WHAT until status and text are as wanted; the test's time is the limit."""
    async with aiohttp.ClientSession() as session:
        while True:
            assert child.process.poll() is None, child.last_lines()
            async with session.get(f"http://{child.health_address}/{what}") as answer:
                if holds(answer.status, await answer.text()):
                    return
            await asyncio.sleep(0.1)


async def test_not_ready_while_kafka_is_away_ready_again_and_gone_when_asked(
    broker: EmbeddedBroker, children: Children, tmp_path: Path
) -> None:
    (tmp_path / "tables").mkdir()
    settings = {"HEADRACE_BOOTSTRAP": broker.bootstrap, "HEADRACE_TABLES": str(tmp_path / "tables")}
    both = [children.start(command, headrace_command(command), settings) for command in ("worker", "sink")]
    for child in both:
        await children.wait_ready(child)
    for is_last in (False, True):
        lines = [len(child.log_path.read_bytes().splitlines()) for child in both]
        broker.kill()
        for child, before in zip(both, lines, strict=True):
            await until(child, "readyz", lambda status, text: status == 503 and "no answer from" in text)
            await until(child, "healthz", lambda status, _: status == 200)
            assert len(child.log_path.read_bytes().splitlines()) - before < LINES_MAX
        if not is_last:
            await asyncio.to_thread(broker.start)
            for child in both:
                await children.wait_ready(child)
    for child in both:
        assert await children.end(child) == 0
        assert "Traceback" not in child.log_path.read_text()


async def test_a_kafka_that_answers_is_not_missed(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer counts anew: it is never long ago."""
    monkeypatch.setattr("headrace.kafka_reach.ASK_EVERY_S", 0.02)
    passed_s = 0.0
    reach = KafkaReach(KafkaAccess(bootstrap=kafka.bootstrap), "policies", lambda: passed_s)
    watching = asyncio.create_task(reach.watch())
    async with asyncio.timeout(60):
        for _ in range(2 * int(SILENCE_MAX_S)):
            passed_s += 1.0
            assert reach.why_not() is None
            while reach._silence.look() > 0.0:  # noqa: ASYNC110  # nothing else tells of an answer
                await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.wait([watching])
