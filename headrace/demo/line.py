"""The line that every demonstration has: Kafka, policies, sink, workers; started in order, drained in order."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from signal import SIGTERM

from headrace.children import Child, Children
from headrace.clock import Clock
from headrace.demo.console import Say
from headrace.demo.plan import DemoPlan
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.local_stack import LocalStack
from headrace.policies import load_folder
from headrace.policies.topic import publish
from wire.kafka import KafkaAccess

WORKERS = 2
FLUSH_S = 2.0
"""The sink's `--flush-seconds`: a fifth of the default, so that the end comes sooner."""


class DemoLine:
    """Kafka, sink and workers, as children of `children`; each is named when it starts and when it is drained."""

    def __init__(self, plan: DemoPlan, children: Children, say: Say) -> None:
        self._plan = plan
        self._children = children
        self._say = say
        self._sink: Child | None = None
        self._workers: list[Child] = []
        self._clock = plan.clock
        self.stack = LocalStack(plan.kafka, plan.data, children, plan.clock, quick_start=True)

    @property
    def bootstrap(self) -> str:
        return self.stack.bootstrap

    @property
    def access(self) -> KafkaAccess:
        return self._plan.kafka.access_to(self.bootstrap, "headrace-demo")

    async def start_kafka(self) -> None:
        """Run a broker, or use the one that is given, and make the topics. Raises CannotRunError, KafkaError."""
        self._say("kafka: starting (the first start on a machine fetches its jars)")
        self._say(f"kafka: {await self.stack.start_kafka(self._plan.kafka.bootstrap)}")

    def use_clock(self, clock: Clock) -> None:
        """Give another clock to all that is started from now on; the topics were made for one that is not real."""
        bootstrap = self.stack.bootstrap
        self._clock = clock
        self.stack = LocalStack(self._plan.kafka, self._plan.data, self._children, clock)
        self.stack.bootstrap = bootstrap

    async def publish_policies(self, texts: Mapping[str, str]) -> None:
        """Write each endpoint's YAML into the demo's folder and publish it, as `headrace policy apply` does."""
        folder = self._plan.data / "policies"
        await asyncio.to_thread(write_files, folder, {f"{name}.yaml": text for name, text in texts.items()})
        policies = load_folder(folder).policies
        await publish(self.access, self._plan.names, policies, clock=self._clock)
        self._say(f"policies: {', '.join(policy.endpoint for policy in policies)}, written to {folder}")

    async def start_sink_and_workers(self) -> None:
        """Start them; returns when they are ready. Raises CannotRunError."""
        self._sink = await self.stack.start_sink(self._plan.tables.address, "--flush-seconds", f"{FLUSH_S:g}")
        self.tell(self._sink)
        self._workers = await asyncio.gather(*(self.stack.start_worker(number) for number in range(WORKERS)))
        for worker in self._workers:
            self.tell(worker)

    async def drain_workers(self) -> None:
        for worker in self._workers:
            await self.drain(worker)

    async def drain_sink(self) -> None:
        """End the sink, which commits what it has read."""
        if self._sink is not None:
            self._say("sink: waiting for the last rows")
            await self.drain(self._sink)

    async def drain(self, child: Child) -> None:
        """End one in order. Raises CannotRunError (CHILD_ENDED) where its status is not 0."""
        status = await self._children.end(child, SIGTERM)
        if status != ExitCode.OK:
            raise CannotRunError(child.ended_message(), ExitCode.CHILD_ENDED)
        self._say(f"{child.name}: drained")

    def tell(self, child: Child) -> None:
        """Where its metrics and its log are."""
        self._say(f"{child.name}: http://{child.health_address}/metrics, log {child.log_path}")


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Raises CannotRunError where the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise CannotRunError(f"{folder}: {error.strerror}", ExitCode.STORAGE) from error
