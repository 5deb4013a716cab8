"""The processes with real engines: llama.cpp's servers before the line, collectors after it."""

import asyncio

from headrace.children import Child, Children
from headrace.demo.console import Say
from headrace.demo.engine.script import ENDPOINTS, DemoEndpoint
from headrace.demo.line import DemoLine
from headrace.demo.plan import DemoPlan
from headrace.engine import LlamaServer


class EngineLine:
    """Engines, the line and collectors, as children of `children`."""

    def __init__(self, plan: DemoPlan, children: Children, say: Say) -> None:
        self._plan = plan
        self._children = children
        self._say = say
        self._collectors: list[Child] = []
        self.line = DemoLine(plan, children, say)
        self.engines: dict[str, dict[str, str]] = {}
        """URL by replica, by endpoint."""

    async def start(self) -> None:
        """Start all but the collectors. Raises CannotRunError, KafkaError."""
        # Engines first: they are there at once, or say what is missing before anything else was started.
        for endpoint in ENDPOINTS:
            await self._start_engines(endpoint)
        await self.line.start_kafka()
        await self.line.publish_policies({one.name: one.policy for one in ENDPOINTS})
        await self.line.start_sink_and_workers()

    async def start_collectors(self) -> None:
        """From now on samples come."""
        starting = [self.line.stack.start_collector(endpoint, urls) for endpoint, urls in self.engines.items()]
        self._collectors = await asyncio.gather(*starting)
        for collector in self._collectors:
            self.line.tell(collector)

    async def drain_producers(self) -> None:
        """End collectors, then workers, in order: afterwards nothing is written to Kafka any more."""
        for collector in self._collectors:
            await self.line.drain(collector)
        await self.line.drain_workers()

    async def _start_engines(self, endpoint: DemoEndpoint) -> None:
        urls: dict[str, str] = {}
        for replica in endpoint.replicas:
            server = LlamaServer(self._plan.data / "engines" / replica)
            await server.start()
            self._children.adopt(replica, server.process, server.log_path)
            urls[replica] = server.url
            self._say(f"{replica}: llama.cpp's server at {server.url}, log {server.log_path}")
        self.engines[endpoint.name] = urls
