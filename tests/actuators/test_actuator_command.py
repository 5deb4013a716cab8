"""`headrace actuator fleet` as a user runs it: health, metrics, ends, and what is told of mistakes."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from headrace.children import Child, Children
from headrace.commands.actuator import FleetActuatorSettings
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.local_stack import headrace_command
from headrace.settings import load
from records.enums import OutcomeResult
from tests.actuators.chains import DecisionChain
from tests.actuators.deployment import Deployment, until
from tests.actuators.fleet_server import fleet_served
from tests.actuators.spoiling_proxy import proxied
from tests.conftest import REFUSED_SESSION_S, SESSIONS_TOLD


@pytest.fixture
async def children(tmp_path: Path) -> AsyncIterator[Children]:
    async with Children(tmp_path / "logs") as running:
        yield running


def variables(deployment: Deployment) -> dict[str, str]:
    return {
        "HEADRACE_BOOTSTRAP": deployment.access.bootstrap,
        "HEADRACE_TOPIC_PREFIX": deployment.names.prefix,
        "HEADRACE_ACTUATOR_SESSION_TIMEOUT_SECONDS": "2",
    }


async def asked(child: Child, path: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://{child.health_address}/{path}") as answer:
        return await answer.text()


async def until_said(child: Child, path: str, text: str) -> None:
    async with asyncio.timeout(90):
        while True:
            if child.health_address is not None and text in await asked(child, path):
                return
            await asyncio.sleep(0.05)


async def run(*arguments: str, environment: dict[str, str]) -> tuple[int, str]:
    """Exit status and standard error."""
    process = await asyncio.create_subprocess_exec(
        *headrace_command("actuator", *arguments),
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, errors.decode()


@pytest.mark.kafka
async def test_it_gets_ready_acts_counts_and_ends_in_order(deployment: Deployment, children: Children) -> None:
    chain = DecisionChain("chat")
    async with fleet_served({"chat": 2}, deployment.clock.now_s) as fleet, proxied(fleet.url) as proxy:
        await proxy.close()
        command = headrace_command("actuator", "fleet", "--api", proxy.url)
        child = children.start("actuator", command, variables(deployment))
        await until_said(child, "readyz", f'"target": "no connection to {proxy.url}')
        await proxy.listen()
        await children.wait_ready(child)
        first = chain.next(deployment.tick(10), 2, 4)
        await deployment.decide(first)
        assert await deployment.results(first) == [OutcomeResult.APPLIED]
        text = await asked(child, "metrics")
        assert 'headrace_actuator_outcomes_total{result="applied"} 1.0' in text
        assert 'headrace_actuator_calls_total{call="compare_and_set",result="ok"} 1.0' in text
        assert "headrace_actuator_decision_to_applied_seconds_count 1.0" in text
        assert "headrace_actuator_read_to_applied_seconds_count 1.0" in text
        proxy.hold_next("PUT")
        second = chain.next(deployment.tick(5), 4, 5)
        await deployment.decide(second)
        await asyncio.wait_for(proxy.held.wait(), 90)
        ending = asyncio.create_task(children.end(child, signal.SIGTERM))
        await until(lambda: "stop_asked" in child.last_lines())
        proxy.release()
        assert await ending == ExitCode.OK, child.last_lines()
        # Its outcome was written before it ended.
        assert {it.decision_id for it in await deployment.outcomes()} == {first.decision_id, second.decision_id}
        assert fleet.spec("chat") == 5


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({}, "--api: required: URL of the fleet's scale API"),
        ({"api": "127.0.0.1:80"}, "--api: '127.0.0.1:80', allowed: http:// or https:// with a host, without ? and #"),
        ({"api": "http://[::1"}, "--api: 'http://[::1', allowed: http:// or https://"),
        ({"api": "http://a b"}, "--api: 'http://a b', allowed: http:// or https://"),
        ({"api": "http://a..b"}, "--api: 'http://a..b', allowed: http:// or https://"),
        ({"api": "http://a/\udcff"}, "--api: 'http://a/\\udcff', allowed: http:// or https://"),
        ({"attempts": "0"}, "--attempts: '0', allowed: 1 to 1000"),
        ({"decision_age_seconds": "0"}, "--decision-age-seconds: '0', allowed: above 0 to 3600"),
        ({"name": "a/b"}, "--name: 'a/b', allowed:"),
    ],
)
def test_bad_settings_are_named_with_what_is_allowed(flags: dict[str, str], told: str) -> None:
    good = {"api": "http://127.0.0.1:80"} if flags else {}
    with pytest.raises(CannotRunError) as raised:
        load(FleetActuatorSettings, {"bootstrap": "127.0.0.1:9092", **good, **flags}, environment={})
    assert told in raised.value.message
    assert len(raised.value.message.splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "name"),
    [({}, "fleet"), ({"dry_run": True}, "fleet-dry-run"), ({"dry_run": True, "name": "fleet"}, "fleet")],
)
def test_a_dry_run_has_a_name_of_its_own_unless_told_otherwise(flags: dict[str, object], name: str) -> None:
    given = {"bootstrap": "127.0.0.1:9092", "api": "http://127.0.0.1:80", **flags}
    assert load(FleetActuatorSettings, given, environment={}).name_for("fleet") == name


@pytest.mark.kafka
async def test_what_is_not_there_is_told_without_a_traceback(deployment: Deployment) -> None:
    given = variables(deployment)
    wrong = [
        ({**given, "HEADRACE_TOPIC_PREFIX": "no."}, ExitCode.PARTITIONS, "topics are missing: no.decisions.scaling"),
        ({**given, "HEADRACE_BOOTSTRAP": "127.0.0.1:9"}, ExitCode.UNAVAILABLE, "No Kafka answers at 127.0.0.1:9"),
    ]
    api = ("fleet", "--api", "http://127.0.0.1:9")
    ended = await asyncio.gather(*(run(*api, environment=environment) for environment, _, _ in wrong))
    for (_, status, said), (got_status, got_said) in zip(wrong, ended, strict=True):
        assert (got_status, said in got_said) == (status, True), got_said
        assert "Traceback" not in got_said


@pytest.mark.kafka
async def test_a_session_timeout_that_kafka_refuses_is_told_with_its_range(deployment: Deployment) -> None:
    environment = {**variables(deployment), "HEADRACE_ACTUATOR_SESSION_TIMEOUT_SECONDS": str(REFUSED_SESSION_S)}
    status, said = await run("fleet", "--api", "http://127.0.0.1:9", environment=environment)
    assert status == ExitCode.USAGE, said
    assert SESSIONS_TOLD in said
    assert "Traceback" not in said
