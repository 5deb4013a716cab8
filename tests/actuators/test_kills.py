"""Actuators killed and stopped at every point: by the fleet's journal nothing is applied late or twice."""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from itertools import pairwise

import psutil
import pytest
from msgspec.structs import replace

from actuators.fault_points import FaultPoint
from records.decisions import ScalingDecision
from records.enums import OutcomeResult
from tests.actuators.actuator_process import ActuatorSpec
from tests.actuators.chains import DecisionChain
from tests.actuators.deployment import Deployment, acting, ids, until
from tests.actuators.fleet_server import ServedFleet, fleet_served
from tests.actuators.spoiling_proxy import proxied

pytestmark = pytest.mark.kafka

QUICK = (FaultPoint.CALLED, FaultPoint.OUTCOME_WRITTEN)
"""After the change, and after its outcome; the others are run with the soaks."""


@contextlib.asynccontextmanager
async def started(spec: ActuatorSpec, is_ready: bool = True) -> AsyncIterator[Process]:
    """An actuator's process; killed at the end if it is still there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.actuators.actuator_process",
        spec.encoded(),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
    )
    try:
        assert process.stdout is not None
        if is_ready:
            assert await asyncio.wait_for(process.stdout.readline(), 90) == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            await process.wait()


def spec_of(deployment: Deployment, api: str) -> ActuatorSpec:
    return ActuatorSpec(bootstrap=deployment.access.bootstrap, prefix=deployment.names.prefix, api=api)


def is_stopped(process: Process) -> bool:
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


def assert_applied(fleet: ServedFleet, *decisions: ScalingDecision) -> None:
    """These decisions changed the target, in this order, each once, and the count is the last one's."""
    assert fleet.changes("chat") == [(decision.decision_id, decision.desired) for decision in decisions]
    ticks = [decision.at_s for decision in decisions]
    assert all(before < after for before, after in pairwise(ticks))
    assert fleet.spec("chat") == decisions[-1].desired


@pytest.mark.parametrize(
    "point",
    [pytest.param(point, marks=[] if point in QUICK else [pytest.mark.slow]) for point in FaultPoint],
)
async def test_killed_anywhere_a_decision_is_applied_once_and_told_once(
    deployment: Deployment, point: FaultPoint
) -> None:
    chain = DecisionChain("chat")
    first = chain.next(deployment.tick(10), 2, 4)
    async with fleet_served({"chat": 2}, deployment.clock.now_s) as fleet:
        spec = spec_of(deployment, fleet.url)
        await deployment.decide(first)
        dying = replace(spec, fault_at=point)
        async with started(dying, is_ready=False) as process:
            assert await asyncio.wait_for(process.wait(), 90) == -signal.SIGKILL
        applied = point in (FaultPoint.CALLED, FaultPoint.OUTCOME_DUE, FaultPoint.OUTCOME_WRITTEN)
        assert len(fleet.changes("chat")) == applied
        async with acting(deployment.options(session_s=1.0), fleet.url):
            second = chain.next(deployment.tick(), 4, 5)
            await deployment.decide(second)
            told = await deployment.until_told(first, second)
        assert {outcome.result for outcome in told.values()} <= {OutcomeResult.APPLIED, OutcomeResult.SUPERSEDED}
        if applied or told[first.decision_id].result is OutcomeResult.APPLIED:
            assert_applied(fleet, first, second)
        else:
            # The next one came before anyone had carried out the first.
            assert_applied(fleet, second)
        assert len(told) == 2


@pytest.mark.slow
async def test_applied_and_killed_is_found_though_a_person_changed_it_since(deployment: Deployment) -> None:
    chain = DecisionChain("chat")
    first = chain.next(deployment.tick(10), 2, 4)
    async with fleet_served({"chat": 2}, deployment.clock.now_s) as fleet:
        await deployment.decide(first)
        dying = replace(spec_of(deployment, fleet.url), fault_at=FaultPoint.CALLED)
        async with started(dying, is_ready=False) as process:
            assert await asyncio.wait_for(process.wait(), 90) == -signal.SIGKILL
        fleet.meddle("chat", 9)
        async with acting(deployment.options(session_s=1.0), fleet.url):
            told = await deployment.until_told(first)
        assert told[first.decision_id].result is OutcomeResult.APPLIED
        assert told[first.decision_id].observed is None
        assert fleet.spec("chat") == 9


@pytest.mark.parametrize(
    "point",
    [
        FaultPoint.CALLING,
        pytest.param(FaultPoint.CALLED, marks=pytest.mark.slow),
        pytest.param(FaultPoint.CONFIRMED, marks=pytest.mark.slow),
    ],
)
async def test_one_that_slept_while_another_took_over_does_no_harm(deployment: Deployment, point: FaultPoint) -> None:
    chain = DecisionChain("chat")
    first = chain.next(deployment.tick(10), 2, 4)
    async with fleet_served({"chat": 2}, deployment.clock.now_s) as fleet:
        await deployment.decide(first)
        spec = replace(spec_of(deployment, fleet.url), fault_at=point, fault_signal="SIGSTOP")
        async with started(spec, is_ready=False) as sleeper:
            await until(lambda: is_stopped(sleeper))
            second = chain.next(deployment.tick(), 4, 6)
            await deployment.decide(second)
            async with acting(deployment.options(session_s=1.0), fleet.url):
                await deployment.until_told(first, second)
                before = len(fleet.entries("scale"))
                sleeper.send_signal(signal.SIGCONT)
                third = chain.next(deployment.tick(), 6, 3)
                await deployment.decide(third)
                if point is FaultPoint.CALLING:
                    await until(lambda: len(fleet.entries("scale")) > before)
                await deployment.until_agreed(first, second, third)
                assert sleeper.stdin is not None
                sleeper.stdin.close()
                assert await asyncio.wait_for(sleeper.wait(), 90) == 0
        # Awake and not yet told that its partitions went, it may carry out and tell the third as the new owner does.
        told = await deployment.until_agreed(first, second, third)
        applied = [it for it in (first, second, third) if told[it.decision_id].result is OutcomeResult.APPLIED]
        assert_applied(fleet, *applied)
        assert applied[-2:] == [second, third]
        conflicts = [it for it in fleet.entries("scale") if it.result.value == "conflict"]
        if point is FaultPoint.CALLING:
            # Of the third, too, where both carried it out.
            assert [it.decision_id for it in conflicts] in ([first.decision_id], ids([first, third]))


async def test_two_on_purpose_and_one_paused_in_the_middle_of_a_call(deployment: Deployment) -> None:
    chain = DecisionChain("chat")
    async with fleet_served({"chat": 2}, deployment.clock.now_s) as fleet, proxied(fleet.url) as proxy:
        spec = replace(spec_of(deployment, proxy.url), name="a", call_timeout_s=20.0)
        async with started(spec) as paused:
            proxy.hold_next("PUT")
            first = chain.next(deployment.tick(5), 2, 4)
            await deployment.decide(first)
            await asyncio.wait_for(proxy.held.wait(), 90)
            paused.send_signal(signal.SIGSTOP)
            async with acting(deployment.options(name="b"), fleet.url):
                second = chain.next(deployment.tick(4), 4, 7)
                third = chain.next(deployment.tick(3), 7, 4)
                await deployment.until_told(first, actuator="b")
                await deployment.decide(second)
                await deployment.until_told(second, actuator="b")
                await deployment.decide(third)
                await deployment.until_told(third, actuator="b")
                proxy.release()
                paused.send_signal(signal.SIGCONT)
                fourth = chain.next(deployment.tick(2), 4, 5)
                await deployment.decide(fourth)
                await until(lambda: (fourth.decision_id, 5) in fleet.changes("chat"))
                assert paused.stdin is not None
                paused.stdin.close()
                assert await asyncio.wait_for(paused.wait(), 90) == 0
                results = {(it.decision_id, it.result) for it in await deployment.outcomes()}
        assert_applied(fleet, first, second, third, fourth)
        assert results >= {(decision_id, OutcomeResult.APPLIED) for decision_id in ids([first, second, third])}
        conflicts = [it for it in fleet.entries("scale") if it.result.value == "conflict"]
        assert [(it.actuator, it.decision_id) for it in conflicts][:1] == [("a", first.decision_id)]
