"""The actuator on a real Kafka, with the fleet's real API."""

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import TopicPartition

from actuators.actuator import Actuator, TopicsMissingError
from actuators.fault_points import FaultPoint
from actuators.fleet_api import FleetApi
from actuators.verdicts import Limits
from records.decisions import ScalingDecision
from records.enums import Mode, OutcomeResult
from tests.actuators.chains import DecisionChain
from tests.actuators.deployment import PARTITIONS, Deployment, acting, until
from tests.actuators.fleet_server import SPEC_MAX, fleet_served
from tests.actuators.spoiling_proxy import proxied
from tests.conftest import BrokerFactory, Kafka
from wire.admin import TopicSettings, create_topics
from wire.codec import encode
from wire.kafka import KafkaAccess, open_admin, open_consumer, open_producer, partition_of
from wire.topics import TopicNames

pytestmark = pytest.mark.kafka

APPLIED, SUPERSEDED, DRY_RUN = OutcomeResult.APPLIED, OutcomeResult.SUPERSEDED, OutcomeResult.DRY_RUN
REFUSED = OutcomeResult.REFUSED
JUNK = (None, b"", b"{", b"null", b"\xff", b'{"endpoint": "chat"', b'{"decision_id": 5}')
"""What strangers write into a topic."""


async def committed(deployment: Deployment, group: str) -> list[tuple[int | None, int]]:
    """Committed offset and end of each partition of the decisions."""
    async with open_consumer(deployment.access, group_id=group) as consumer:
        parts = [TopicPartition(deployment.names.real("decisions.scaling"), number) for number in range(PARTITIONS)]
        ends = await consumer.end_offsets(parts)
        return [(await consumer.committed(part), ends[part]) for part in parts]


async def litter(deployment: Deployment) -> None:
    async with open_producer(deployment.access) as producer:
        for topic in ("decisions.scaling", "outcomes"):
            for value in JUNK:
                await deployment.send(topic, "chat", value, producer)


class AtPoint:
    """Does something once, at a point."""

    def __init__(self, point: FaultPoint, act: Callable[[], None]) -> None:
        self._point = point
        self._act: Callable[[], None] | None = act

    async def reached(self, point: FaultPoint, endpoint: str) -> None:
        if point is self._point and self._act is not None:
            act, self._act = self._act, None
            act()


async def test_every_decision_that_is_no_hold_gets_its_outcome(deployment: Deployment) -> None:
    chat, code, ghost = DecisionChain("chat"), DecisionChain("code"), DecisionChain("ghost")
    tick = deployment.tick(30)
    options = deployment.options()
    await litter(deployment)
    async with fleet_served({"chat": 2, "code": 8}, deployment.clock.now_s) as fleet:
        async with acting(options, fleet.url):
            up = chat.next(tick, 2, 5)
            down = code.next(tick, 8, 6, victims=("code-7", "code-2"))
            unknown = ghost.next(tick, 1, 2)
            await deployment.decide(up, down, unknown)
            await deployment.until_told(up, down, unknown)
            aborted = DecisionChain("chat").next(tick + 1, 5, 50)
            await deployment.decide(aborted, commit=False)
            hold = chat.next(tick + 5, 5, 5)
            repeat = chat.next(tick + 10, 2, 5)
            too_many = code.next(tick + 10, 6, SPEC_MAX + 1)
            advised = ghost.next(tick + 10, 1, 3, mode=Mode.ADVISE)
            await litter(deployment)
            await deployment.decide(hold, repeat, too_many, advised)
            told = await deployment.until_told(up, down, unknown, repeat, too_many, advised)
        assert {it.decision_id: it.result for it in told.values()} == {
            up.decision_id: APPLIED,
            down.decision_id: APPLIED,
            unknown.decision_id: REFUSED,
            repeat.decision_id: APPLIED,
            too_many.decision_id: REFUSED,
            advised.decision_id: DRY_RUN,
        }
        assert (fleet.spec("chat"), fleet.spec("code")) == (5, 6)
        assert fleet.changes("chat") == [(up.decision_id, 5)], "a repeat needs no call"
        drain, scale = (next(it for it in fleet.entries(call, "code")) for call in ("drain", "scale"))
        assert drain.requested == {"replicas": ("code-7", "code-2"), "deadline_s": 45.0}
        assert drain.number < scale.number
        outcome = told[up.decision_id]
        assert (outcome.decision_topic, outcome.actuator, outcome.observed) == ("decisions.scaling", "fleet", 5)
        assert (outcome.endpoint, outcome.decision_at_s, outcome.retryable) == ("chat", tick, False)
        assert abs(outcome.at_s - deployment.clock.now_s()) < 60
        assert str(SPEC_MAX + 1) in told[too_many.decision_id].detail
        assert "ghost" in told[unknown.decision_id].detail
        assert all(offset in (end, None) for offset, end in await committed(deployment, options.group_id))


async def test_a_decision_in_another_partition_than_its_endpoints_is_left_out(deployment: Deployment) -> None:
    """Another actuator may own the endpoint's own partition, and with it a newer decision."""
    here = partition_of("chat", PARTITIONS)
    other = next(name for name in ("code", "ghost", "a", "b", "c") if partition_of(name, PARTITIONS) != here)
    misplaced = DecisionChain("chat").next(deployment.tick(5), 2, 7)
    chain = DecisionChain(other)
    async with fleet_served({"chat": 2, other: 2}, deployment.clock.now_s) as fleet:
        async with acting(deployment.options(), fleet.url):
            async with open_producer(deployment.access) as producer:
                await deployment.send("decisions.scaling", other, encode(misplaced), producer)
            for before_s in (4, 3):  # The second one is read when all that the first poll brought is done.
                after = chain.next(deployment.tick(before_s), 2, 8 - before_s)
                await deployment.decide(after)
                await deployment.until_told(after)
        assert fleet.spec("chat") == 2
        assert misplaced.decision_id not in {it.decision_id for it in await deployment.outcomes()}


async def test_a_backlog_is_told_and_a_second_run_repeats_nothing(deployment: Deployment) -> None:
    chain = DecisionChain("chat")
    now = deployment.tick()
    old = [chain.next(now - 4000 + 5 * number, 2, 3 + number % 2) for number in range(150)]
    late = [chain.next(now - 40 + 5 * number, 2, 6) for number in range(4)]
    async with fleet_served({"chat": 2}, deployment.clock.now_s) as fleet:
        await deployment.decide(*old, *late)
        async with acting(deployment.options(), fleet.url):
            told = await deployment.until_told(*old, *late)
        assert {told[it.decision_id].result for it in [*old, *late[:-1]]} == {SUPERSEDED}
        assert told[late[-1].decision_id].result is APPLIED
        assert fleet.changes("chat") == [(late[-1].decision_id, 6)]
        # Another group begins at the first decision, and finds by the outcomes that all is done.
        async with acting(deployment.options(group=f"{deployment.names.prefix}another"), fleet.url):
            newest = chain.next(deployment.tick(), 6, 7)
            await deployment.decide(newest)
            again = await deployment.until_told(newest)
        assert len(again) == len(told) + 1
        assert [count for _, count in fleet.changes("chat")] == [6, 7]


async def test_trouble_of_one_endpoint_holds_up_no_other_and_ends_with_a_newer_decision(
    deployment: Deployment,
) -> None:
    chat, code = DecisionChain("chat"), DecisionChain("code")
    tick = deployment.tick(20)
    async with (
        fleet_served({"chat": 2, "code": 2}, deployment.clock.now_s) as fleet,
        proxied(fleet.url) as proxy,
        acting(deployment.options(), proxy.url),
    ):
        proxy.hold_next("PUT")
        first = chat.next(tick, 2, 4)
        await deployment.decide(first)
        await asyncio.wait_for(proxy.held.wait(), 90)
        other = code.next(tick + 5, 2, 3)
        await deployment.decide(other)
        assert await deployment.results(other) == [APPLIED]
        second = chat.next(tick + 5, 2, 5)
        await deployment.decide(second)
        fleet.meddle("chat", 3)
        proxy.release()
        assert await deployment.results(first, second) == [SUPERSEDED, APPLIED]
    assert fleet.changes("chat") == [(second.decision_id, 5)]


async def test_an_api_that_comes_back_is_asked_again(deployment: Deployment) -> None:
    chain = DecisionChain("chat")
    refused = asyncio.Event()
    async with (
        fleet_served({"chat": 2}, deployment.clock.now_s) as fleet,
        proxied(fleet.url) as proxy,
        acting(deployment.options(faults=AtPoint(FaultPoint.CONFIRMED, refused.set)), proxy.url),
    ):
        await proxy.close()
        decision = chain.next(deployment.tick(), 2, 4)
        await deployment.decide(decision)
        await asyncio.wait_for(refused.wait(), 90)
        assert await deployment.outcomes() == []
        await proxy.listen()
        assert await deployment.results(decision) == [APPLIED]


async def test_partitions_move_to_a_second_actuator_and_back(deployment: Deployment) -> None:
    names = [_name_in(partition) for partition in range(PARTITIONS)]
    chains = [DecisionChain(name) for name in names]
    decided: list[ScalingDecision] = []
    begin = deployment.tick(20)

    async def decide() -> None:
        made = [chain.next(begin + len(chain.made), 2, 3 + len(chain.made)) for chain in chains]
        decided.extend(made)
        await deployment.decide(*made)

    async with fleet_served(dict.fromkeys(names, 2), deployment.clock.now_s) as fleet:
        async with acting(deployment.options(), fleet.url):
            await decide()
            await deployment.until_told(*decided)
            async with acting(deployment.options(), fleet.url):
                await decide()
                await deployment.until_told(*decided)
            await decide()
            await deployment.until_told(*decided)
        for name in names:
            assert fleet.changes(name) == [(it.decision_id, it.desired) for it in decided if it.endpoint == name]


def _name_in(partition: int) -> str:
    return next(name for name in map(str, range(100)) if partition_of(name, PARTITIONS) == partition)


async def test_a_dry_run_beside_one_that_acts_only_looks_on(deployment: Deployment) -> None:
    chain = DecisionChain("chat")
    async with fleet_served({"chat": 2}, deployment.clock.now_s) as fleet:
        look_on = deployment.options(name="look-on", limits=Limits(dry_run=True))
        async with acting(deployment.options(), fleet.url), acting(look_on, fleet.url):
            decision = chain.next(deployment.tick(), 2, 4)
            await deployment.decide(decision)
            assert await deployment.results(decision) == [APPLIED]
            assert await deployment.results(decision, actuator="look-on") == [DRY_RUN]
        assert {it.actuator for it in fleet.entries("scale")} == {"fleet"}


async def test_outcomes_may_have_another_number_of_partitions(kafka: Kafka) -> None:
    deployment = Deployment(KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(kafka.prefix()))
    wanted = TopicSettings(partitions=PARTITIONS, overrides={"decisions.scaling": 5})
    await create_topics(deployment.access, deployment.names, wanted)
    deployment.decision_partitions = 5
    chains = [DecisionChain(name) for name in ("a", "b", "c", "d")]
    async with fleet_served(dict.fromkeys("abcd", 2), deployment.clock.now_s) as fleet:
        first = [chain.next(deployment.tick(10), 2, 4) for chain in chains]
        await deployment.decide(*first)
        async with acting(deployment.options(), fleet.url):
            assert set(await deployment.results(*first)) == {APPLIED}
        async with acting(deployment.options(group="another"), fleet.url):
            second = [chain.next(deployment.tick(5), 4, 5) for chain in chains]
            await deployment.decide(*second)
            assert set(await deployment.results(*second)) == {APPLIED}
        assert all(len(fleet.changes(name)) == 2 for name in "abcd")
    await deployment.close()


@pytest.mark.slow
async def test_kafka_ends_between_the_change_and_its_outcome(broker_factory: BrokerFactory) -> None:
    broker = await asyncio.to_thread(broker_factory)
    deployment = await Deployment.create(broker.bootstrap, "")
    chain = DecisionChain("chat")
    async with fleet_served({"chat": 2}, deployment.clock.now_s) as fleet:
        async with acting(deployment.options(faults=AtPoint(FaultPoint.CALLED, broker.kill)), fleet.url):
            first = chain.next(deployment.tick(), 2, 4)
            await deployment.decide(first)
            await until(lambda: not broker.is_running)
            await deployment.close()
            await asyncio.to_thread(broker.start)
            assert await deployment.results(first) == [APPLIED]
            second = chain.next(deployment.tick(), 4, 5)
            await deployment.decide(second)
            assert await deployment.results(second) == [APPLIED]
        assert fleet.changes("chat") == [(first.decision_id, 4), (second.decision_id, 5)]
        assert len(await deployment.outcomes()) == 2
    await deployment.close()


async def test_a_stop_waits_for_the_call_under_way(deployment: Deployment) -> None:
    chain = DecisionChain("chat")
    async with fleet_served({"chat": 2}, deployment.clock.now_s) as fleet, proxied(fleet.url) as proxy:
        decision = chain.next(deployment.tick(), 2, 4)
        async with acting(deployment.options(), proxy.url):
            proxy.hold_next("PUT")
            await deployment.decide(decision)
            await asyncio.wait_for(proxy.held.wait(), 90)
            asyncio.get_running_loop().call_later(0.3, proxy.release)
        # It has ended here.
        (outcome,) = await deployment.outcomes()
        assert (outcome.decision_id, outcome.result) == (decision.decision_id, APPLIED)
        assert fleet.changes("chat") == [(decision.decision_id, 4)]


async def test_missing_topics_are_named(kafka: Kafka) -> None:
    deployment = Deployment(KafkaAccess(bootstrap=kafka.bootstrap), TopicNames("nothing."))
    with pytest.raises(TopicsMissingError, match=r"nothing\.decisions\.scaling, nothing\.outcomes"):
        async with acting(deployment.options(), "http://127.0.0.1:9"):
            await until(lambda: False)


@pytest.mark.parametrize("topic", ["decisions.scaling", "outcomes"])
async def test_topics_that_go_while_it_works_end_it(
    deployment: Deployment, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiokafka asks for a deleted topic thousands of times a second, and for ever."""
    monkeypatch.setattr("actuators.actuator.TOPICS_EVERY_S", 0.2)
    real = deployment.names.real(topic)
    async with FleetApi("http://127.0.0.1:9") as api, open_admin(deployment.access) as admin:
        actuator = Actuator(deployment.options(), api)
        working = asyncio.create_task(actuator.run(asyncio.Event()))
        await until(lambda: actuator.why_not_ready() is None, working)
        await admin.delete_topics([real])
        with pytest.raises(TopicsMissingError, match=f"topics are missing: {real} "):
            await asyncio.wait_for(working, 60)
