"""A deployment of the whole line for one test: its own topics, tables, clock and processes, to be killed at will."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import aiohttp
import msgspec
from aiokafka import AIOKafkaProducer

from headrace.children import Child, Children
from headrace.clock import Clock
from headrace.local_stack import headrace_command
from headrace.policies.folder import load_folder
from headrace.policies.topic import publish
from wire.admin import TopicSettings, create_topics
from wire.kafka import KafkaAccess, partition_of
from wire.topics import TopicNames

PARTITIONS = 4
SETTLE_S = 120.0


class Line:
    """Commands are run as a user runs them, with settings in the environment.

    `speed`: seconds of the line's own time in a real one; event times end at now.
    """

    partitions = PARTITIONS
    worker_session_s = 2.0

    def __init__(self, bootstrap: str, prefix: str, folder: Path, children: Children, speed: float = 1.0) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.folder = folder
        self.children = children
        now_s = time.time()
        self.clock = Clock(shown_s=now_s - 3600.0, real_s=now_s, speed=speed) if speed != 1 else Clock()
        self.tables = folder / "tables"
        self.tables.mkdir(parents=True, exist_ok=True)
        self._started = 0

    @property
    def environment(self) -> dict[str, str]:
        return {
            **self.clock.to_environment(),
            "HEADRACE_BOOTSTRAP": self.bootstrap,
            "HEADRACE_TOPIC_PREFIX": self.prefix,
            "HEADRACE_PARTITIONS": str(self.partitions),
            "HEADRACE_TABLES": str(self.tables),
            "HEADRACE_SINK_FLUSH_SECONDS": "0.5",
            "HEADRACE_SINK_GROUP": f"{self.prefix}sink",
            "HEADRACE_WORKER_GROUP": f"{self.prefix}worker",
            "HEADRACE_SINK_SESSION_TIMEOUT_SECONDS": "2",
            "HEADRACE_WORKER_SESSION_TIMEOUT_SECONDS": str(self.worker_session_s),
            "HEADRACE_ACTUATOR_SESSION_TIMEOUT_SECONDS": "2",
        }

    async def run(self, *arguments: str, status: int = 0, environment: Mapping[str, str] = MappingProxyType({})) -> str:
        """Run a command to its end; its output. Asserts its exit status."""
        process = await asyncio.create_subprocess_exec(
            *headrace_command(*arguments),
            env={**os.environ, **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert process.returncode == status, f"{arguments}: {process.returncode}\n{errors.decode()[-4000:]}"
        return output.decode()

    async def create(self, policies: Sequence[str]) -> Path:
        """Make the topics and publish the policies, each a YAML document; their folder.

        Not by the commands, which have tests of their own: a process takes a second to start.
        """
        folder = self.folder / "policies"
        folder.mkdir(exist_ok=True)
        for number, text in enumerate(policies):
            (folder / f"{number:03}.yaml").write_text(text)
        access, names = KafkaAccess(bootstrap=self.bootstrap), TopicNames(self.prefix)
        settings = TopicSettings(partitions=self.partitions, producer_timestamps=not self.clock.is_real)
        await create_topics(access, names, settings)
        if policies:
            await publish(access, names, load_folder(folder).policies, clock=self.clock)
        return folder

    async def run_to_its_death(self, module: str, argument: str) -> None:
        """Run a module of the tests as a process that kills itself; it must have done so."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            argument,
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        errors = await process.stderr.read()
        status = await process.wait()
        assert status == -signal.SIGKILL, f"{module} ended with {status}:\n{errors.decode()[-4000:]}"

    async def start(self, command: str, *arguments: str, is_ready: bool = True) -> Child:
        """Start one more process; returns when it is ready."""
        self._started += 1
        name = f"{command}-{self._started}"
        child = self.children.start(name, headrace_command(command, *arguments), self.environment)
        if is_ready:
            await self.children.wait_ready(child)
        return child

    async def start_all(self, *commands: str) -> list[Child]:
        """Start processes at the same time; returns when all are ready."""
        started = [await self.start(command, is_ready=False) for command in commands]
        await self.settle(*started)
        return started

    async def kill(self, child: Child) -> None:
        """SIGKILL, as a crash."""
        await self.children.end(child, signal.SIGKILL)

    async def drain(self, child: Child) -> None:
        """SIGTERM, and its exit status must be that of a good end."""
        status = await self.children.end(child, signal.SIGTERM)
        assert status == 0, f"{child.name} ended with {status}:\n{child.last_lines()}"

    async def settle(self, *children: Child, timeout_s: float = SETTLE_S) -> None:
        """Return when all of them say ready: assigned, rebuilt, and read to the end."""
        for child in children:
            await self.children.wait_ready(child, timeout_s)

    def sender(self) -> "Sender":
        return Sender(self)


class Sender:
    """Sends telemetry as a foreign producer would: JSON of its own, keyed and partitioned by endpoint."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._producer = AIOKafkaProducer(
            bootstrap_servers=line.bootstrap, linger_ms=5, enable_idempotence=True, request_timeout_ms=60_000
        )
        self.sent_to: Counter[str] = Counter()

    async def __aenter__(self) -> "Sender":
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()

    async def send(
        self,
        topic: str,
        endpoint: str,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Hand one message to the producer; `flush` waits until all are in the log."""
        await self._producer.send(
            self._line.prefix + topic,
            value,
            key=endpoint.encode(),
            partition=partition_of(endpoint, self._line.partitions) if partition is None else partition,
            timestamp_ms=int(self._line.clock.now_s() * 1000),
            headers=list(headers),
        )
        self.sent_to[topic] += 1

    async def send_frame(self, topic: str, endpoint: str, value: bytes) -> None:
        """The same for an Arrow frame, with the header that says so."""
        await self.send(topic, endpoint, value, headers=[("content-type", b"application/vnd.apache.arrow.stream")])

    async def send_record(self, topic: str, **fields: object) -> None:
        await self.send(topic, str(fields["endpoint"]), msgspec.json.encode(fields))

    async def flush(self) -> None:
        await self._producer.flush()


async def scraped(child: Child) -> str:
    """The text of a process's /metrics."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{child.health_address}/metrics") as answer:
        return await answer.text()
