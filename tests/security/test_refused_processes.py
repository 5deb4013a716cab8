"""Processes that Kafka turns away, at their start and in the middle of their work."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from headrace.exit_codes import ExitCode
from headrace.kafka_reach import KafkaReach
from records.enums import Source
from records.telemetry import RequestSample
from tests.security.counting_proxy import CountingProxy
from tests.security.kafka_admin import Acl, allow, withdraw
from tests.security.rights import told_of, without
from tests.security.secured_kafka import SecuredKafka, environment_of, user
from tests.security.secured_line import NAMES, PREFIX, Line
from wire.acls import Operation, Resource, Right, Role, rights_of
from wire.admission import RefusedError
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


def group_right(role: Role) -> Right:
    (right,) = (right for right in rights_of(role, NAMES) if right.resource is Resource.GROUP)
    return right


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
    Right(resource=Resource.TOPIC, name=NAMES.real("signals"), operation=Operation.WRITE),
    Right(resource=Resource.TOPIC, name=NAMES.real("telemetry.requests"), operation=Operation.READ),
    Right(
        resource=Resource.TRANSACTIONAL_ID, name=f"{PREFIX}headrace-worker-", operation=Operation.WRITE, is_prefix=True
    ),
    Right(resource=Resource.GROUP, name=f"{PREFIX}headrace-worker", operation=Operation.READ),
]


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    "right",
    [
        pytest.param(right, id=str(right), marks=() if number < 1 else pytest.mark.slow)
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


SINK = ("sink",)
FETCHING = [
    (Role.SINK, SINK, Right(resource=Resource.TOPIC, name=NAMES.real("signals"), operation=Operation.READ)),
    (Role.SINK, SINK, group_right(Role.SINK)),
    (
        Role.ACTUATOR,
        ACTUATOR,
        Right(resource=Resource.TOPIC, name=NAMES.real("decisions.scaling"), operation=Operation.READ),
    ),
    (Role.ACTUATOR, ACTUATOR, group_right(Role.ACTUATOR)),
]


@pytest.mark.slow
@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    ("role", "command", "right"), FETCHING, ids=[f"{role.value}-{right}" for role, _, right in FETCHING]
)
async def test_a_right_to_read_that_is_taken_from_a_running_process_ends_it(
    secured: SecuredKafka, line: Line, role: Role, command: Sequence[str], right: Right
) -> None:
    describe = Acl(f"User:{user(role)}", replace(right, operation=Operation.DESCRIBE))
    line.start(role, *command)
    (process,) = line.children.running
    while "partitions_assigned" not in process.log_path.read_text():  # noqa: ASYNC110  # as above
        await asyncio.sleep(0.05)
    await allow(secured.administrator, [describe])
    async with without(secured, role, right):
        await asyncio.to_thread(process.process.wait, 60)
    await withdraw(secured.administrator, [describe])
    log = process.log_path.read_text()
    assert process.process.returncode == ExitCode.REFUSED, log
    (told,) = (text for text in log.splitlines() if "does not allow" in text)
    assert told.startswith(f"Kafka at {secured.scram(role).bootstrap} does not allow User:{user(role)}: ")
    assert f"{right.operation.value} on {right.resource.value} {right.name}" in told
    assert "Traceback" not in log


async def test_a_producer_in_a_pod_says_why_it_cannot_send_and_tries_seldom(secured: SecuredKafka) -> None:
    access = replace(secured.scram(Role.PRODUCER), sasl_password="not-this-one")
    async with CountingProxy(access.bootstrap) as proxy:
        producer = TelemetryProducer(replace(access, bootstrap=proxy.bootstrap), NAMES)
        producer.send(RequestSample(endpoint="chat", replica="r", at_s=1, source=Source.ENGINE))
        await producer.start()
        while not isinstance(producer.last_error, RefusedError):  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.05)
        told, connections = str(producer.last_error), proxy.connections
        await producer.stop(0)
    assert "does not let User:headrace-producer in: wrong user or password" in told
    assert connections <= 4


async def test_readyz_says_why_kafka_does_not_answer(secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.kafka_reach.SILENCE_MAX_S", 1.0)
    reach = KafkaReach(replace(secured.scram(Role.WORKER), sasl_username="nobody"), NAMES.real("policies"))
    watching = asyncio.create_task(reach.watch())
    while (told := reach.why_not()) is None or "nobody" not in told:  # noqa: ASYNC110  # as above
        await asyncio.sleep(0.05)
    assert told.endswith("does not let User:nobody in: wrong user or password (SCRAM-SHA-512)")
    watching.cancel()
    await asyncio.wait([watching])
