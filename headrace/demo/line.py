"""The demo's processes: started in order, drained in order, each named when it is told."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM

from headrace.children import Child, Children
from headrace.clock import Clock
from headrace.demo.script import ENDPOINTS, DemoEndpoint
from headrace.engine import LlamaServer
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.local_stack import LocalStack
from headrace.policies import load_folder
from headrace.policies.topic import publish
from headrace.settings import LocalKafkaSettings
from sinks.root import TableRoot
from wire.kafka import KafkaAccess
from wire.topics import TopicNames

WORKERS = 2
FLUSH_S = 2.0
"""The sink's `--flush-seconds`: a fifth of the default, so that the end comes sooner."""


@dataclass(frozen=True, kw_only=True)
class DemoPlan:
    """What to run, and where: `data` gets the broker, logs, policies, engines and tables; `seconds` of load."""

    kafka: LocalKafkaSettings
    data: Path
    seconds: float
    clock: Clock

    @property
    def tables(self) -> TableRoot:
        return TableRoot(address=str(self.data / "tables"))

    @property
    def names(self) -> TopicNames:
        return self.kafka.topic_names


class DemoLine:
    """Engines, Kafka, sink, workers and collectors, as children of `children`."""

    def __init__(self, plan: DemoPlan, children: Children, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._children = children
        self._say = say
        self._stack = LocalStack(plan.kafka, plan.data, children, plan.clock)
        self._sink: Child | None = None
        self._workers: list[Child] = []
        self._collectors: list[Child] = []
        self.engines: dict[str, dict[str, str]] = {}
        """URL by replica, by endpoint."""

    @property
    def bootstrap(self) -> str:
        return self._stack.bootstrap

    @property
    def access(self) -> KafkaAccess:
        return self._plan.kafka.access_to(self.bootstrap, "headrace-demo")

    async def start(self) -> None:
        """Start all but the collectors. Raises CannotRunError, KafkaError."""
        # Engines first: they are there at once, or say what is missing before anything else was started.
        for endpoint in ENDPOINTS:
            await self._start_engines(endpoint)
        self._say("kafka: starting (the first start on a machine fetches its jars)")
        self._say(f"kafka: {await self._stack.start_kafka(self._plan.kafka.bootstrap)}")
        await self._publish_policies()
        self._sink = await self._stack.start_sink(self._plan.tables.address, "--flush-seconds", f"{FLUSH_S:g}")
        self._tell(self._sink)
        self._workers = await asyncio.gather(*(self._stack.start_worker(number) for number in range(WORKERS)))
        for worker in self._workers:
            self._tell(worker)

    async def start_collectors(self) -> None:
        """From now on samples come."""
        starting = [self._stack.start_collector(endpoint, urls) for endpoint, urls in self.engines.items()]
        self._collectors = await asyncio.gather(*starting)
        for collector in self._collectors:
            self._tell(collector)

    async def drain_producers(self) -> None:
        """End collectors, then workers, in order: afterwards nothing is written to Kafka any more."""
        for child in (*self._collectors, *self._workers):
            await self._drain(child)

    async def drain_sink(self) -> None:
        """End the sink, which commits what it has read."""
        if self._sink is not None:
            await self._drain(self._sink)

    async def _start_engines(self, endpoint: DemoEndpoint) -> None:
        urls: dict[str, str] = {}
        for replica in endpoint.replicas:
            server = LlamaServer(self._plan.data / "engines" / replica)
            await server.start()
            self._children.adopt(replica, server.process, server.log_path)
            urls[replica] = server.url
            self._say(f"{replica}: llama.cpp's server at {server.url}, log {server.log_path}")
        self.engines[endpoint.name] = urls

    async def _drain(self, child: Child) -> None:
        status = await self._children.end(child, SIGTERM)
        if status != ExitCode.OK:
            raise CannotRunError(child.ended_message(), ExitCode.CHILD_ENDED)
        self._say(f"{child.name}: drained")

    async def _publish_policies(self) -> None:
        folder = self._plan.data / "policies"
        await asyncio.to_thread(_write_files, folder, {f"{one.name}.yaml": one.policy for one in ENDPOINTS})
        policies = load_folder(folder).policies
        await publish(self.access, self._plan.names, policies)
        self._say(f"policies: {', '.join(policy.endpoint for policy in policies)}, written to {folder}")

    def _tell(self, child: Child) -> None:
        self._say(f"{child.name}: http://{child.health_address}/metrics, log {child.log_path}")


def _write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Raises CannotRunError where the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise CannotRunError(f"{folder}: {error.strerror}", ExitCode.STORAGE) from error
