"""The processes of a whole line on this machine: broker, topics, sink, workers. `up` runs them, and the demo."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.broker import EmbeddedBroker
from headrace.children import Child, Children
from headrace.clock import Clock
from headrace.exit_codes import CannotRunError, code_of_path
from headrace.kafka_door import enter
from headrace.settings import LocalKafkaSettings, environment_of
from wire.admin import TopicSettings, create_topics


def headrace_command(*arguments: str) -> list[str]:
    """The argv of another command of this very installation."""
    return [sys.executable, "-m", "headrace.main", *arguments]


class LocalStack:
    """Starts the line's processes as children, in the order in which the methods are called.

    Children end in the reverse order, so start the sink before the workers: it then keeps what they wrote last.
    `settings` tells how to speak to Kafka; `folder` holds the broker, the logs and, unless told otherwise, the tables.
    `quick_start` is the broker's, for lines that live for minutes.
    """

    def __init__(
        self, settings: LocalKafkaSettings, folder: Path, children: Children, clock: Clock, quick_start: bool = False
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._children = children
        self._clock = clock
        self._quick_start = quick_start
        self.bootstrap = ""

    async def start_kafka(self, bootstrap: str | None = None) -> str:
        """Run a broker, or use the one at `bootstrap`, and make the topics that are missing; the address."""
        if bootstrap is None:
            broker = EmbeddedBroker(self._folder / "broker", quick_start=self._quick_start)
            try:
                await asyncio.to_thread(broker.start)
            except asyncio.CancelledError:
                broker.kill()
                raise
            self._children.adopt("broker", broker.process, broker.log_path)
            bootstrap = broker.bootstrap
        await enter(self._settings.access_to(bootstrap), ())
        self.bootstrap = bootstrap
        wanted = TopicSettings(partitions=self._settings.partitions, producer_timestamps=not self._clock.is_real)
        await create_topics(self._settings.access_to(bootstrap), self._settings.topic_names, wanted)
        return bootstrap

    async def start_sink(self, tables: str, *flags: str) -> Child:
        """Start the sink on a folder, which is made, or on an address of tables; returns when it is ready."""
        if "://" not in tables:
            try:
                await asyncio.to_thread(Path(tables).mkdir, parents=True, exist_ok=True)
            except OSError as error:
                raise CannotRunError(f"--tables: {tables}: {error.strerror}", code_of_path(error)) from error
        return await self.start("sink", ["sink", *flags], {"HEADRACE_TABLES": tables})

    async def start_worker(self, number: int) -> Child:
        """Start one worker; returns when it is ready."""
        return await self.start(f"worker-{number}", ["worker"], {})

    async def start_collector(self, endpoint: str, engines: Mapping[str, str]) -> Child:
        """Start the collector of one endpoint's engines, URL by replica; returns when their first samples are sent."""
        replicas = [flag for name, url in engines.items() for flag in ("--replica", f"{name}={url}")]
        return await self.start(f"collect-{endpoint}", ["collect", "--endpoint", endpoint, *replicas], {})

    async def start_fleet(self, scenario: Path, *flags: str) -> tuple[Child, str]:
        """Start a simulated fleet; returns when its first second is published: the process, and its API's URL."""
        api_file = self._folder / "fleet.api"
        api_file.unlink(missing_ok=True)
        command = ["fleet", "--scenario", str(scenario), "--api-file", str(api_file), *flags]
        child = await self.start("fleet", command, {})
        return child, api_file.read_text().strip()

    async def start_actuator(self, api: str, *flags: str) -> Child:
        """Start the actuator of the fleet whose API is at this URL; returns when it is ready, the API reached."""
        return await self.start("actuator", ["actuator", "fleet", "--api", api, *flags], {})

    async def start(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> Child:
        """Start any command of this installation that speaks to Kafka; returns when it is ready."""
        kafka = {**environment_of(self._settings, "kafka"), "HEADRACE_BOOTSTRAP": self.bootstrap}
        child = self._children.start(name, headrace_command(*command), {**kafka, **self._clock.to_environment(), **env})
        await self._children.wait_ready(child)
        return child
