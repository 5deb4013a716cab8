"""Processes that Kafka turns away, at their start and in the middle of their work."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from headrace.exit_codes import ExitCode
from records.enums import Source
from records.telemetry import RequestSample
from tests.security.counting_proxy import CountingProxy
from tests.security.kafka_admin import Acl, allow, withdraw
from tests.security.rights import told_of, without
from tests.security.secured_kafka import SecuredKafka, environment_of, user
from tests.security.secured_line import NAMES, PREFIX, Line
from wire.acls import Operation, Resource, Right, Role
from wire.producer import TelemetryProducer

pytestmark = pytest.mark.kafka

ACTUATOR = ("actuator", "fleet", "--api", "http://127.0.0.1:9")
REFUSED = [
    (
        Role.WORKER,
        ("worker",),
        Right(resource=Resource.TOPIC, name=NAMES.real("controllers"), operation=Operation.READ),
    ),
    (Role.SINK, ("sink",), Right(resource=Resource.TOPIC, name=NAMES.real("signals"), operation=Operation.READ)),
    (Role.ACTUATOR, ACTUATOR, Right(resource=Resource.TOPIC, name=NAMES.real("outcomes"), operation=Operation.WRITE)),
]


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(("role", "command", "right"), REFUSED, ids=[role.value for role, _, _ in REFUSED])
async def test_a_process_without_a_right_ends_with_one_line_and_tries_nothing_again(
    secured: SecuredKafka, line: Line, role: Role, command: Sequence[str], right: Right
) -> None:
    access = secured.scram(role)
    async with CountingProxy(access.bootstrap) as proxy, without(secured, role, right):
        status, errors = await line.ended(role, command, {"HEADRACE_BOOTSTRAP": proxy.bootstrap})
    assert status == ExitCode.REFUSED, errors
    told = [text for text in errors.splitlines() if "does not allow" in text]
    assert len(told) == 1, errors
    assert re.search(told_of(right, role), told[0])
    assert proxy.connections == 1
    assert "Traceback" not in errors
    assert str(access.sasl_password) not in errors


@pytest.mark.usefixtures("topics")
async def test_a_wrong_password_ends_a_process_at_once(secured: SecuredKafka, line: Line) -> None:
    access = replace(secured.scram(Role.COLLECTOR), sasl_password="not-this-one")
    settings = {**environment_of(access), "HEADRACE_SASL_PASSWORD_FILE": ""}
    command = ("collect", "--endpoint", "e", "--replica", "http://user:hidden-too@127.0.0.1:9", "--log-level", "debug")
    async with CountingProxy(access.bootstrap) as proxy:
        status, errors = await line.ended(Role.COLLECTOR, command, {**settings, "HEADRACE_BOOTSTRAP": proxy.bootstrap})
    assert status == ExitCode.REFUSED, errors
    assert errors.count("does not let User:headrace-collector in: wrong user or password") == 1
    assert proxy.connections == 1
    assert "Traceback" not in errors
    assert "not-this-one" not in errors
    assert "hidden-too" not in errors


async def test_topics_that_may_not_be_made_are_named(secured: SecuredKafka, line: Line) -> None:
    settings = {"HEADRACE_TOPIC_PREFIX": "elsewhere."}
    status, errors = await line.ended(Role.TOPICS, ("topics", "create"), settings)
    assert status == ExitCode.REFUSED, errors
    assert errors.count("does not allow User:headrace-topics: Create on topic elsewhere.controllers; ") == 1
    assert len(errors.splitlines()) == 1


WITHDRAWN = [
    Right(resource=Resource.TOPIC, name=NAMES.real("telemetry.requests"), operation=Operation.READ),
    Right(resource=Resource.TOPIC, name=NAMES.real("signals"), operation=Operation.WRITE),
    Right(
        resource=Resource.TRANSACTIONAL_ID, name=f"{PREFIX}headrace-worker-", operation=Operation.WRITE, is_prefix=True
    ),
    Right(resource=Resource.GROUP, name=f"{PREFIX}headrace-worker", operation=Operation.READ),
]


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    "right",
    [
        pytest.param(right, id=str(right), marks=() if number < 2 else pytest.mark.slow)
        for number, right in enumerate(WITHDRAWN)
    ],
)
async def test_a_right_that_is_taken_from_a_running_worker_ends_it(
    secured: SecuredKafka, line: Line, right: Right
) -> None:
    """With the right to describe still there, so that nothing but the work itself shows it."""
    describe = Acl(f"User:{user(Role.WORKER)}", replace(right, operation=Operation.DESCRIBE))
    await line.publish_policy()
    line.start(Role.WORKER, "worker")
    (worker,) = line.children.running
    await line.children.wait_ready(worker)
    await allow(secured.administrator, [describe])
    async with without(secured, Role.WORKER, right):
        producer = TelemetryProducer(secured.administrator, NAMES, clock=line.clock.now_s)
        await producer.start()
        while worker.process.poll() is None:
            at_s = int(line.clock.now_s())
            producer.send(RequestSample(endpoint="chat", replica="r", at_s=at_s, source=Source.ENGINE, arrivals=1))
            await asyncio.sleep(0.1)
        await producer.stop()
    await withdraw(secured.administrator, [describe])
    log = worker.log_path.read_text()
    assert worker.process.returncode == ExitCode.REFUSED, log
    assert len([text for text in log.splitlines() if re.search(told_of(right, Role.WORKER), text)]) == 1, log
    assert "Traceback" not in log
