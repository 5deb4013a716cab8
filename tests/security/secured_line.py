"""The whole line on the secured Kafka, each process as its own user, on a clock of its own."""

import asyncio
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from typer.testing import CliRunner

from headrace.children import Children
from headrace.clock import Clock
from headrace.local_stack import headrace_command
from headrace.policies.folder import load_folder
from headrace.policies.topic import publish
from records.enums import Source
from records.telemetry import RequestLog, RequestSample
from tests.security.secured_kafka import SecuredKafka, environment_of
from wire.acls import Role
from wire.kafka import KafkaAccess
from wire.producer import TelemetryProducer
from wire.topics import TopicNames

PREFIX = "secured."
WHOLE_PREFIX = "whole."
"""Of the one test that makes its topics with the rights for that."""
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


class Line:
    """The whole line on the secured Kafka, each process as its own user, on a clock of its own."""

    def __init__(self, kafka: SecuredKafka, folder: Path, children: Children, prefix: str = PREFIX) -> None:
        self.names = TopicNames(prefix)
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
            "HEADRACE_TOPIC_PREFIX": self.names.prefix,
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

    async def start_processes(self) -> None:
        """All of them, the worker with a certificate; returns when each is ready."""
        (self.folder / "scenario.yaml").write_text(SCENARIO)
        api_file = self.folder / "fleet.api"
        scenario = str(self.folder / "scenario.yaml")
        self.start(Role.PRODUCER, "fleet", "--scenario", scenario, "--api-file", str(api_file))
        self.start(Role.SINK, "sink")
        self.start(Role.WORKER, "worker", access=self.kafka.mutual("client-worker"))
        while not await asyncio.to_thread(api_file.exists):
            self.children.raise_ended()
            await asyncio.sleep(0.05)
        self.start(Role.ACTUATOR, "actuator", "fleet", "--api", api_file.read_text().strip())
        for child in self.children.running:
            await self.children.wait_ready(child)

    async def collect(self, recordings: Path) -> None:
        """A collector reads a recording to its end."""
        recording = str(recordings / "vllm-recording" / "idle-overload-hang-death.jsonl.gz")
        status, errors = await self.ended(
            Role.COLLECTOR, ("collect", "--endpoint", "recorded", "--recording", recording)
        )
        assert status == 0, errors

    async def log_requests(self) -> None:
        """What a gateway writes, which has no process here."""
        producer = TelemetryProducer(self.kafka.scram(Role.GATEWAY), self.names, clock=self.clock.now_s)
        await producer.start()
        at_s = int(self.clock.now_s())
        producer.send(RequestSample(endpoint="chat", replica="", at_s=at_s, source=Source.ROUTER, reporter="gateway"))
        producer.send(RequestLog(request_id="r1", at_ms=at_s * 1000, endpoint="chat"))
        assert await producer.flush(30)
        await producer.stop()

    async def ended(
        self, role: Role, command: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[int, str]:
        """Exit status and standard error of a process that is to end by itself."""
        process = await asyncio.create_subprocess_exec(
            *headrace_command(*command),
            env={**os.environ, **self.environment(role), **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        _, errors = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode is not None
        return process.returncode, errors.decode()

    async def publish_policy(self) -> None:
        """By the administrator."""
        folder = self.folder / "policies"
        folder.mkdir()
        (folder / "chat.yaml").write_text(POLICY)
        await publish(self.kafka.administrator, self.names, load_folder(folder).policies, clock=self.clock)
