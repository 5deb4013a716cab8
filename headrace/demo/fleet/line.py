"""The closed loop's processes: the line, a simulated fleet after it, and the actuator that carries decisions to it."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
from ruamel.yaml import YAML

from headrace.children import Child, Children
from headrace.clock import Clock
from headrace.demo.console import Say
from headrace.demo.fleet.script import ENDPOINTS, scenario_of
from headrace.demo.fleet.served import Served
from headrace.demo.line import DemoLine
from headrace.demo.plan import DemoPlan
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.policies import load_folder
from records.policy import EndpointPolicy

STARTING_S = 9.0
"""Real seconds from the broker's answer to the first second of traffic, about: the event times end at now by it."""


@dataclass(frozen=True, kw_only=True)
class FleetPlan(DemoPlan):
    """`seconds` real ones of traffic at `speed` event seconds each; `acts`: with the actuator."""

    seconds: float
    speed: float
    acts: bool

    @property
    def event_s(self) -> int:
        """Seconds of traffic, event time."""
        return round(self.seconds * self.speed)


def shown_clock(plan: FleetPlan, real: Clock) -> Clock:
    """A clock that runs `speed` times faster from now on, and shows the real time at about the traffic's end."""
    now_s = real.now_s()
    ahead_s = STARTING_S + plan.seconds
    return Clock(shown_s=now_s + ahead_s - ahead_s * plan.speed, real_s=now_s, speed=plan.speed)


class FleetLine:
    """The line, the fleet and the actuator, as children of `children`. All but the broker run on the shown clock."""

    def __init__(self, plan: FleetPlan, children: Children, say: Say) -> None:
        # The topics are made for a clock of its own; how late that is begins with the broker's answer.
        self.plan = replace(plan, clock=shown_clock(plan, plan.clock))
        self._real = plan.clock
        self.line = DemoLine(self.plan, children, say)
        self._children = children
        self._say = say
        self._fleet: Child | None = None
        self._actuator: Child | None = None
        self.policies: list[EndpointPolicy] = []

    async def start(self) -> None:
        """Start all but the fleet and the actuator. Raises CannotRunError, KafkaError."""
        await self.line.start_kafka()
        self.plan = replace(self.plan, clock=shown_clock(self.plan, self._real))
        self.line.use_clock(self.plan.clock)
        await self.line.publish_policies({one.name: one.policy for one in ENDPOINTS})
        known = {policy.endpoint: policy for policy in load_folder(self.plan.data / "policies").policies}
        self.policies = [known[one.name] for one in ENDPOINTS]
        await self.line.start_sink_and_workers()

    async def start_fleet(self) -> int:
        """From now on requests come, and decisions are carried out; the first second. Raises CannotRunError."""
        data = self.plan.data
        scenario, api_file = data / "scenario.yaml", data / "fleet.api"
        slos_ms = {policy.endpoint: policy.slo.ttft_p95_ms or 0.0 for policy in self.policies}
        await asyncio.to_thread(_write_scenario, scenario, scenario_of(self.plan.event_s, slos_ms))
        flags = ["--scenario", str(scenario), "--api-file", str(api_file), "--journal", str(data / "journal.jsonl")]
        self._fleet = await self.line.stack.start("fleet", ["fleet", *flags, "--messages", "arrow"], {})
        self.line.tell(self._fleet)
        api = (await asyncio.to_thread(api_file.read_text)).strip()
        if self.plan.acts:
            self._actuator = await self.line.stack.start("actuator", ["actuator", "fleet", "--api", api], {})
            self.line.tell(self._actuator)
        else:
            self._say("actuator: off; what is decided is not carried out")
        return await _first_second(api)

    async def drain_fleet(self) -> dict[str, Served]:
        """End the actuator, then the fleet, which sends what it has; what its clients got, by endpoint."""
        # The actuator first: what is decided while the line ends would find no fleet any more.
        if self._actuator is not None:
            await self.line.drain(self._actuator)
        assert self._fleet is not None
        await self.line.drain(self._fleet)
        return _served(self._fleet.log_path)


async def _first_second(api: str) -> int:
    """The fleet's own first second. Raises CannotRunError where it does not answer."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"{api}/v1/summary") as answer:
            return int((await answer.json())["first_s"])
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CannotRunError(f"the fleet at {api} does not answer: {error!r}", ExitCode.CHILD_ENDED) from error


def _write_scenario(path: Path, scenario: Mapping[str, object]) -> None:
    yaml = YAML()
    yaml.default_flow_style = None
    try:
        with path.open("w") as file:
            file.write("# What the simulated fleet serves; `headrace fleet --scenario` takes it.\n")
            yaml.dump(scenario, file)
    except OSError as error:
        raise CannotRunError(f"{path}: {error.strerror}", ExitCode.STORAGE) from error


def _served(log_path: Path) -> dict[str, Served]:
    """The fleet's last line on standard output, which is in its log. Raises CannotRunError where it is not."""
    lines = [line for line in log_path.read_text(errors="replace").splitlines() if line.startswith('{"first_s"')]
    if not lines:
        raise CannotRunError(f"the fleet did not tell what it served; its log: {log_path}", ExitCode.CHILD_ENDED)
    endpoints = json.loads(lines[-1])["endpoints"]
    return {
        name: Served(
            endpoint=name,
            requests=told["arrivals"] + told["rejections"],
            completed=told["completions"],
            turned_away=told["rejections"],
            given_up=told["aborted"],
            within_slo=told["ttft_within_slo"],
        )
        for name, told in endpoints.items()
    }
