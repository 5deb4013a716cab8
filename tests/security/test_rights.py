"""The rights that are printed, against Kafka's own authorizer: enough for the whole work, and none too many."""

import asyncio
import time
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from typer.testing import CliRunner

from headrace.children import Children
from headrace.clock import Clock
from headrace.local_stack import headrace_command
from records.enums import Source
from records.telemetry import RequestLog, RequestSample
from tests.security.conftest import PREFIX
from tests.security.kafka_admin import audited
from tests.security.secured_kafka import SecuredKafka, environment_of, user
from wire.acls import Operation, Resource, Right, Role, rights_of
from wire.kafka import KafkaAccess, open_consumer
from wire.producer import TelemetryProducer
from wire.topics import TopicNames

pytestmark = pytest.mark.kafka

NAMES = TopicNames(PREFIX)
SPEED = 10.0
SCENARIO = """\
seed: 3
endpoints:
  - endpoint: chat
    engine: {model: llama-3.1-8b, hardware: H100}
    startup: {medianSeconds: 10, spread: 0}
    replicas: 1
    maxReplicas: 8
    traffic: {lengths: {like: conversation}, rate: [{second: 0, requestsPerSecond: 20}]}
"""
POLICY = """\
endpoint: chat
scaleTargetRef: {kind: Deployment, name: chat}
mode: act
minReplicas: 1
maxReplicas: 8
metrics: [{name: inflight_requests, target: 4}, {name: gpu_utilization, target: 0.8}]
"""
AUDIT_NAMES = {Resource.TOPIC: "Topic", Resource.GROUP: "Group", Resource.TRANSACTIONAL_ID: "TransactionalId"}
AUDIT_OPERATIONS = {Operation.DESCRIBE_CONFIGS: "DESCRIBE_CONFIGS"}


class Line:
    """The whole line on the secured Kafka, each process as its own user, on a clock of its own."""

    def __init__(self, kafka: SecuredKafka, folder: Path, children: Children) -> None:
        self.kafka = kafka
        self.folder = folder
        self.children = children
        now_s = time.time()
        self.clock = Clock(shown_s=now_s - 3600.0, real_s=now_s, speed=SPEED)
        (folder / "tables").mkdir(parents=True)

    def environment(self, role: Role, access: KafkaAccess | None = None) -> dict[str, str]:
        access = access or self.kafka.scram(role)
        file = self.folder / f"{role.value}.password" if access.uses_sasl else None
        return {
            **environment_of(access, file),
            **self.clock.to_environment(),
            "HEADRACE_TOPIC_PREFIX": PREFIX,
            "HEADRACE_PARTITIONS": "2",
            "HEADRACE_TABLES": str(self.folder / "tables"),
            "HEADRACE_SINK_FLUSH_SECONDS": "0.5",
        }

    async def call(self, role: Role, *arguments: str) -> str:
        """A command that ends, in this process; what it prints."""
        app = import_module(f"headrace.commands.{arguments[0]}").app
        result = await asyncio.to_thread(CliRunner().invoke, app, list(arguments[1:]), env=self.environment(role))
        assert result.exit_code == 0, f"{arguments}: {result.exit_code}\n{result.output}\n{result.exception!r}"
        return result.output

    def start(self, role: Role, *arguments: str, access: KafkaAccess | None = None) -> None:
        self.children.start(role.value, headrace_command(*arguments), self.environment(role, access))

    async def create(self) -> None:
        """Topics and policies, by those whose task it is."""
        await self.call(Role.TOPICS, "topics", "create")
        await self.call(Role.TOPICS, "topics", "check")
        folder = self.folder / "policies"
        folder.mkdir()
        (folder / "chat.yaml").write_text(POLICY)
        assert "chat: created" in await self.call(Role.POLICY, "policy", "apply", str(folder))

    async def start_processes(self, recordings: Path) -> None:
        """All of them, the worker with a certificate; returns when each is ready."""
        (self.folder / "scenario.yaml").write_text(SCENARIO)
        api_file = self.folder / "fleet.api"
        scenario = str(self.folder / "scenario.yaml")
        self.start(Role.PRODUCER, "fleet", "--scenario", scenario, "--api-file", str(api_file))
        self.start(Role.SINK, "sink")
        self.start(Role.WORKER, "worker", access=self.kafka.mutual("client-worker"))
        recording = str(recordings / "vllm-recording" / "idle-overload-hang-death.jsonl.gz")
        self.start(Role.COLLECTOR, "collect", "--endpoint", "recorded", "--recording", recording)
        while not await asyncio.to_thread(api_file.exists):
            self.children.raise_ended()
            await asyncio.sleep(0.05)
        self.start(Role.ACTUATOR, "actuator", "fleet", "--api", api_file.read_text().strip())
        for child in self.children.running:
            await self.children.wait_ready(child)

    async def log_requests(self) -> None:
        """What a gateway writes, which has no process here."""
        producer = TelemetryProducer(self.kafka.scram(Role.GATEWAY), NAMES, clock=self.clock.now_s)
        await producer.start()
        at_s = int(self.clock.now_s())
        producer.send(RequestSample(endpoint="chat", replica="", at_s=at_s, source=Source.ROUTER, reporter="gateway"))
        producer.send(RequestLog(request_id="r1", at_ms=at_s * 1000, endpoint="chat"))
        assert await producer.flush(30)
        await producer.stop()


@pytest.fixture
async def line(secured: SecuredKafka, tmp_path: Path) -> AsyncIterator[Line]:
    async with Children(tmp_path / "logs") as children:
        yield Line(secured, tmp_path / "line", children)


async def first_of(consumer: AIOKafkaConsumer) -> None:
    async with consumer:
        await consumer.getone()


def lines_of(secured: SecuredKafka) -> set[tuple[str, str, str, str, str]]:
    return {
        (found.principal, found.verdict, found.operation, found.resource, found.name)
        for found in audited(secured.log())
    }


def used(right: Right, role: Role, lines: set[tuple[str, str, str, str, str]]) -> bool:
    wanted = (f"User:{user(role)}", "Allowed", right.operation.name, AUDIT_NAMES[right.resource])
    return any(
        line[:4] == wanted and (line[4].startswith(right.name) if right.is_prefix else line[4] == right.name)
        for line in lines
    )


async def test_the_whole_line_works_with_the_printed_rights_and_needs_each_of_them(
    secured: SecuredKafka, line: Line, recordings: Path
) -> None:
    before = lines_of(secured)
    await line.create()
    await line.start_processes(recordings)
    await line.log_requests()
    for topic in ("outcomes", "telemetry.gpus", "inference.requests"):
        await asyncio.wait_for(first_of(open_consumer(secured.administrator, NAMES.real(topic))), 60)
    await line.call(Role.ANALYST, "export", "--endpoint", "chat", "--out", str(line.folder / "chat.jsonl"))
    assert "chat" in await line.call(Role.ANALYST, "explain", "chat")
    await line.children.end_all()
    found = lines_of(secured) - before
    assert sorted(entry for entry in found if entry[1] == "Denied") == []
    assert [
        (role, str(right)) for role in Role for right in rights_of(role, NAMES) if not used(right, role, found)
    ] == []
