"""The closed loop under load that rises and falls, with every process killed and stopped at named points.

Afterwards every tick was decided once and every row is kept once. By the fleet's own journal no decision was applied
after a newer one, none twice, each as it was decided; each has its outcome; and the fleet follows the load again.
"""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from actuators.fault_points import FaultPoint as ActuatorPoint
from headrace.broker import EmbeddedBroker
from headrace.children import Child, Children
from sinks.faults import Point as SinkPoint
from streams.shell.fault_points import FaultPoint as WorkerPoint
from tests.actuators.actuator_process import ActuatorSpec
from tests.conftest import BrokerFactory
from tests.line.audit import check_ticks, count_everything, read_decisions, until, until_decided, until_kept
from tests.line.deployment import PARTITIONS
from tests.line.loop import ENDPOINTS, TOPICS, Loop, Named
from tests.line.loop_audit import (
    Change,
    Record,
    changes_in,
    check_changes,
    check_outcomes,
    read_journal,
    read_outcomes,
    until_called,
    untold,
)
from tests.line.traffic import replayed
from wire.kafka import partition_of

SPEED = 10.0
OTHER = "other"
"""The name of a second actuator, in a group of its own: it carries out the same decisions."""
PEAK, TROUGH = 3, 1
"""Replicas that a wave takes at least, and that are left after it."""

pytestmark = pytest.mark.kafka


@pytest.fixture
def killable_broker(broker_factory: BrokerFactory) -> EmbeddedBroker:
    return broker_factory()


def test_each_of_two_workers_has_an_endpoint() -> None:
    assert {name: partition_of(name, PARTITIONS) for name in ENDPOINTS} == ENDPOINTS
    assert len(set(ENDPOINTS.values())) == 3


async def two_on_purpose(loop: Loop) -> None:
    """A second actuator stops in the middle of a call, and goes on after newer decisions were applied."""
    spec = ActuatorSpec(
        bootstrap=loop.line.bootstrap,
        prefix=loop.line.prefix,
        api=loop.api,
        name=OTHER,
        fault_at=ActuatorPoint.CALLING,
        fault_signal="SIGSTOP",
        session_timeout_s=2.0,
    )
    other = loop.start_module("tests.actuators.actuator_process", msgspec.json.encode(spec).decode(), OTHER)
    for first in loop.running["actuator"]:
        first.process.send_signal(signal.SIGSTOP)  # else it may always be the faster one
    await loop.until_stopped(other)
    stopped_s = loop.line.clock.now_s()
    for first in loop.running["actuator"]:
        first.process.send_signal(signal.SIGCONT)
    seen = {entry["endpoint"] for entry in read_journal(loop.journal) if entry["actuator"] == OTHER}
    for endpoint in seen:  # it may have looked at several, and is in a call about one of them
        await until(partial(has_newer, loop, endpoint, stopped_s))
    other.process.send_signal(signal.SIGCONT)
    await until_called(loop.journal, refused)
    loop.troubles["actuator"] += 4
    loop.running["actuator"].append(other)


async def has_newer(loop: Loop, endpoint: str, at_s: float) -> bool:
    """Whether a decision of a tick after `at_s` was applied."""
    decisions = (await read_decisions(loop.line.bootstrap, loop.line.prefix))[endpoint]
    newer = {decision["decision_id"] for decision in decisions if decision["at_s"] > at_s}
    return any(change.decision_id in newer for change in changes_in(read_journal(loop.journal)))


def refused(entries: list[Record]) -> list[Record]:
    """Compare-and-sets of the second actuator that came too late."""
    return [entry for entry in entries if entry["actuator"] == OTHER and entry["result"] == "conflict"]


async def until_followed(loop: Loop) -> None:
    """From now on every endpoint goes up with the load, and down with it."""
    after = read_journal(loop.journal)[-1]["number"]

    def has_followed(entries: list[Record]) -> bool:
        changes = [change for change in changes_in(entries) if change.number > after]
        return all(_went_up_and_down([it for it in changes if it.endpoint == endpoint]) for endpoint in ENDPOINTS)

    await until_called(loop.journal, has_followed, timeout_s=240)


def _went_up_and_down(changes: list[Change]) -> bool:
    specs = [change.spec_after for change in changes]
    peaks = [place for place, spec in enumerate(specs) if spec >= PEAK]
    return bool(peaks) and TROUGH in specs[peaks[0] :]


async def end(loop: Loop) -> None:
    """Let the last ticks be decided, carried out and kept, and end everything in order."""
    line = loop.line
    await loop.revive()
    await until_decided(line.bootstrap, line.prefix, ENDPOINTS, int(line.clock.now_s()))
    await loop.drain("worker")
    decisions = await read_decisions(line.bootstrap, line.prefix)

    async def are_told() -> bool:
        return not untold(await read_outcomes(line.bootstrap, line.prefix), decisions)

    await until(are_told)
    await loop.drain("actuator")
    await loop.drain_fleet()
    await until_kept(line.bootstrap, line.prefix, line.tables, list(TOPICS))
    await loop.drain("sink")


async def check(loop: Loop, replays: int) -> None:
    """`replays`: of how many endpoints the export is replayed too."""
    line = loop.line
    counts = await count_everything(line.bootstrap, line.prefix, line.tables, list(TOPICS))
    assert {count.dead for count in counts.values()} == {0}
    decisions = await read_decisions(line.bootstrap, line.prefix)
    assert decisions.keys() == ENDPOINTS.keys()
    check_ticks(decisions)
    entries = read_journal(loop.journal)
    changes = check_changes(entries, decisions)
    assert changes.keys() == ENDPOINTS.keys()
    check_outcomes(await read_outcomes(line.bootstrap, line.prefix), decisions, changes)
    assert refused(entries)
    again = await asyncio.gather(*(replayed(line, name, loop.policies) for name in list(ENDPOINTS)[:replays]))
    for endpoint, replay in zip(ENDPOINTS, again, strict=False):
        assert replay == decisions[endpoint], endpoint


@pytest.mark.timeout(300)
async def test_the_loop_goes_on_whoever_is_killed(killable_broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Each once: in an open transaction, between Delta commit and offset, between apply and outcome."""
    async with Children(tmp_path / "logs") as children:
        loop = Loop(killable_broker, tmp_path, children, SPEED)
        dying: list[Named] = [WorkerPoint.RECORDS_ACKNOWLEDGED, SinkPoint.AFTER_COMMIT, ActuatorPoint.CALLED]
        await loop.start({"worker": [dying[0], None], "sink": [dying[1]], "actuator": [dying[2]]})
        faulty: list[Child] = [of_role[0] for of_role in loop.running.values()]
        await asyncio.gather(*(loop.await_death(child) for child in faulty))
        await two_on_purpose(loop)
        await loop.kill_broker()
        await loop.revive()
        await until_followed(loop)
        await end(loop)
        await check(loop, replays=1)


KILLED_AT: list[Named] = [
    *(point for point in WorkerPoint if point is not WorkerPoint.SKIPPED),  # nothing is skipped without overload
    *(SinkPoint.BEFORE_COMMIT, SinkPoint.AFTER_COMMIT, SinkPoint.AFTER_OFFSETS),
    *(point for point in ActuatorPoint),
]
STOPPED_AT: list[Named] = [
    *(WorkerPoint.TRANSACTION_BEGUN, WorkerPoint.RECORDS_ACKNOWLEDGED),
    *(SinkPoint.BEFORE_COMMIT, SinkPoint.AFTER_COMMIT),
    *(ActuatorPoint.CONFIRMED, ActuatorPoint.CALLING, ActuatorPoint.CALLED),
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1])
async def test_the_loop_outlives_every_kill_and_stop(
    killable_broker: EmbeddedBroker, tmp_path: Path, seed: int
) -> None:
    """At every named point, in an order that the seed draws; two of each."""
    dice = random.Random(seed)
    async with Children(tmp_path / "logs") as children:
        loop = Loop(killable_broker, tmp_path, children, SPEED)
        await loop.start({"worker": [None, None], "sink": [None, None], "actuator": [None, None]})
        actions: list[Callable[[], Awaitable[None]]] = [
            *(partial(loop.die_at, point, dice.randint(1, 2)) for point in KILLED_AT),
            *(partial(loop.stop_at, point) for point in STOPPED_AT),
            *(loop.kill_broker, loop.kill_broker, loop.stop_broker),
            partial(two_on_purpose, loop),
        ]
        dice.shuffle(actions)
        for action in actions:
            await loop.line.clock.sleep(dice.uniform(0.0, 20.0))  # troubles come at any moment
            await action()
            await loop.revive()
        assert loop.troubles.total() >= 40
        await until_followed(loop)
        await end(loop)
        await check(loop, replays=len(ENDPOINTS))
