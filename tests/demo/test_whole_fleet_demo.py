"""The closed loop as it is shown: twenty minutes in two, with the actuator and without. For a machine of its own."""

import asyncio
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from headrace.broker import EmbeddedBroker
from headrace.exit_codes import ExitCode
from simulation.startup import STARTUP_MODELS
from sinks.root import TableRoot
from tests.demo.runs import DemoRun
from tests.explain.run_check import check_run
from tests.line.audit import ask, read_decisions

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(900)]

TARGET = 42.0
"""The burst's policy: requests in flight a replica."""
TOKENS_WITHIN = "list_sum(list_slice(ttft_ms.bucket_counts, 1, list_position(ttft_ms.explicit_bounds, 500.0)))"


@dataclass(frozen=True)
class Whole:
    """A whole run, asked through DuckDB and the fleet's own last line, with none of the demo's code."""

    run: DemoRun
    status: int

    def table(self, name: str) -> str:
        return f"delta_scan('{self.run.data / 'tables' / name}')"

    def one(self, what: str, name: str, where: str = "true") -> Any:
        """A value of the burst."""
        return ask(f"SELECT {what} FROM {self.table(name)} WHERE endpoint = 'burst' AND {where}")[0][0]

    @cached_property
    def served(self) -> dict[str, Any]:
        """The burst, as the fleet counted it, and the fleet's first second."""
        lines = (self.run.data / "logs" / "fleet.log").read_text().splitlines()
        told = json.loads([line for line in lines if '"first_s"' in line][-1])
        return {**told["endpoints"]["burst"], "first_s": told["first_s"]}

    @cached_property
    def burst(self) -> tuple[int, int]:
        """Event time of the first and the last second with the full rate."""
        scenario = YAML(typ="safe").load((self.run.data / "scenario.yaml").read_text())
        rate = next(one["traffic"]["rate"] for one in scenario["endpoints"] if one["endpoint"] == "burst")
        loud = [point["second"] for point in rate if point["requestsPerSecond"] == 1000]
        return self.served["first_s"] + round(min(loud)), self.served["first_s"] + round(max(loud))


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Whole]]:
    played: dict[tuple[str, ...], Whole] = {}

    def run(*flags: str) -> Whole:
        if flags not in played:
            demo = DemoRun(tmp_path_factory.mktemp("demo"), *flags)
            played[flags] = Whole(demo, demo.end(400))
        return played[flags]

    yield run
    for whole in played.values():
        whole.run.kill()


def test_the_burst_is_followed_within_a_minute(play: Callable[..., Whole]) -> None:
    whole = play()
    assert whole.status == ExitCode.OK, whole.run.text
    begins, ends = whole.burst
    in_flight = whole.one(
        "sum(running + waiting) / count(DISTINCT at_s)",
        "telemetry_requests",
        f"at_s BETWEEN {ends - 100} AND {ends - 1}",
    )
    need = -(-in_flight // TARGET)
    desired_at = whole.one("min(at_s)", "telemetry_targets", f"spec_replicas >= {need} AND at_s >= {begins}")
    ready = ask(
        f"SELECT at_s FROM {whole.table('telemetry_replicas')} WHERE endpoint = 'burst' AND state = 'ready' "
        f"GROUP BY replica, at_s QUALIFY row_number() OVER (PARTITION BY replica ORDER BY at_s) = 1 ORDER BY at_s"
    )
    ready_at = ready[int(need) - 1][0]
    assert 30 < need < 80
    assert desired_at - begins <= 60
    assert ready_at - begins <= STARTUP_MODELS["sharded+compile-cache"].p95_s + 60


def test_it_comes_down_only_after_the_window(play: Callable[..., Whole]) -> None:
    whole = play()
    begins, ends = whole.burst
    most = whole.one("max(spec_replicas)", "telemetry_targets")
    halved = whole.one("min(at_s)", "telemetry_targets", f"spec_replicas < {most / 2} AND at_s > {begins + 60}")
    assert 295 <= halved - ends <= 345
    assert whole.one("arg_max(spec_replicas, at_s)", "telemetry_targets") == 2


def test_the_slo_is_kept_once_the_replicas_are_there(play: Callable[..., Whole]) -> None:
    whole = play()
    begins, ends = whole.burst
    within, tokens, lost = ask(
        f"SELECT sum({TOKENS_WITHIN}), sum(list_sum(ttft_ms.bucket_counts)), sum(coalesce(rejections, 0)) "
        f"FROM {whole.table('telemetry_requests')} WHERE endpoint = 'burst' AND at_s BETWEEN {begins + 180} AND {ends}"
    )[0]
    assert within / (tokens + lost) > 0.99
    assert 0.7 < whole.served["slo_kept_share"] < 0.9, "nobody starts a replica before its load is there"


def test_it_costs_less_than_a_static_fleet(play: Callable[..., Whole]) -> None:
    rows = {row["endpoint"]: row for row in play().run.table("What the clients got, and what it cost")}
    assert float(rows["burst"]["GPU-hours"]) < 0.8 * float(rows["burst"]["static fleet"])


@pytest.mark.parametrize("flags", [(), ("--no-actuator",)], ids=["acting", "alone"])
def test_each_change_is_explained_as_it_was(play: Callable[..., Whole], flags: tuple[str, ...]) -> None:
    checked = check_run(TableRoot(address=str(play(*flags).run.data / "tables")))
    assert checked.disagreements == ()
    assert checked.explained == checked.decided_again > 20


def test_memory_stays_below_what_is_promised(play: Callable[..., Whole]) -> None:
    found = re.search(r"Memory of all processes at its most: ([\d.]+) GiB", play().run.text)
    assert found is not None
    assert float(found[1]) * 2**30 < 2.5e9


async def test_every_command_to_go_on_with_works(play: Callable[..., Whole]) -> None:
    """As printed, with the broker running again; the replay gives the workers' own decisions."""
    whole = play()
    lines = whole.run.lines[whole.run.lines.index("How to go on") + 1 : -5]
    commands = [line for line in lines if line.startswith("    ") and " broker " not in line]
    broker = EmbeddedBroker(whole.run.data / "broker", quick_start=True)
    broker.start()
    outputs = {}
    try:
        for command in commands:
            done = await asyncio.to_thread(
                subprocess.run, ["sh", "-c", command], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}: {done.stderr}"
            outputs[next(word for word in shlex.split(command) if word in VERBS)] = done.stdout
        decided = (await read_decisions(broker.bootstrap, ""))["burst"]
    finally:
        broker.stop()
    assert outputs.keys() == VERBS
    replayed = [json.loads(line)["decision_id"] for line in outputs["replay"].splitlines()]
    assert replayed == [decision["decision_id"] for decision in decided]


VERBS = {"explain", "tables", "export", "replay"}


def test_without_the_actuator_the_slo_breaks(play: Callable[..., Whole]) -> None:
    whole = play("--no-actuator")
    assert whole.status == ExitCode.OK, whole.run.text
    assert whole.served["slo_kept_share"] < 0.2
    assert whole.one("max(spec_replicas)", "telemetry_targets") == 2
    assert whole.one("max(desired)", "decisions_scaling") > 2, "it was decided, and nobody did it"
    assert "The SLO was broken: during the burst" in whole.run.text
    assert not (Path(whole.run.data) / "logs" / "actuator.log").exists()
