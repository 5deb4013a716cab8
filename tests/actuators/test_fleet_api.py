"""The fleet's API as scale targets: the contract against the real server, and what HTTP alone can do."""

from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import pytest
from aiohttp import web

from actuators.fleet_api import ANSWER_BYTES_MAX, FleetApi
from actuators.port import (
    Applied,
    CallContext,
    Change,
    Conflict,
    Drain,
    Marked,
    ObservedTarget,
    Refused,
    ScaleTargetPort,
    TargetRef,
    Unanswered,
)
from headrace.fleet.server import ApiPlace, served
from tests.actuators.contract import D1, PortContract, Spoilt, TargetWorld, got
from tests.actuators.fleet_server import SPEC_MAX, ServedFleet, fleet_served
from tests.actuators.spoiling_proxy import SpoilingProxy, proxied

NOW_S = 1_790_000_000.0
T = TypeVar("T")
ODD = "team/a b%?#é"


class HttpWorld:
    """The real API behind a proxy."""

    target = TargetRef(endpoint="chat")
    missing = TargetRef(endpoint="nobody")
    replicas = ("chat-1", "chat-3")
    spec_max = SPEC_MAX
    patience_s = 3.0

    def __init__(self, port: ScaleTargetPort, fleet: ServedFleet, proxy: SpoilingProxy) -> None:
        self.port = port
        self.fleet = fleet
        self._proxy = proxy

    async def spec(self) -> int:
        return self.fleet.spec("chat")

    async def meddle(self, spec: int) -> None:
        self.fleet.meddle("chat", spec)

    async def marked(self) -> set[str]:
        return {mark.replica for mark in self.fleet.endpoints["chat"].target.marks(NOW_S)}

    async def spoil(self, how: Spoilt) -> None:
        await self._proxy.spoil(how)


class BackAfterOne:
    """Listens again once a call has failed to connect."""

    def __init__(self, port: FleetApi, proxy: SpoilingProxy) -> None:
        self._port = port
        self._proxy = proxy

    async def get(self, target: TargetRef, context: CallContext) -> ObservedTarget | Refused | Unanswered:
        return await self._once(self._port.get(target, context))

    async def compare_and_set(
        self, target: TargetRef, change: Change, context: CallContext
    ) -> Applied | Conflict | Refused | Unanswered:
        return await self._once(self._port.compare_and_set(target, change, context))

    async def drain(self, target: TargetRef, drain: Drain, context: CallContext) -> Marked | Refused | Unanswered:
        return await self._once(self._port.drain(target, drain, context))

    async def _once(self, call: Awaitable[T]) -> T:
        try:
            return await call
        finally:
            if not self._proxy.is_listening:
                await self._proxy.listen()


@pytest.fixture
async def world() -> AsyncIterator[TargetWorld]:
    async with (
        fleet_served({"chat": 4, ODD: 4}, lambda: NOW_S) as fleet,
        proxied(fleet.url) as proxy,
        FleetApi(proxy.url, timeout_s=0.5) as api,
    ):
        yield HttpWorld(BackAfterOne(api, proxy), fleet, proxy)


class TestFleetApi(PortContract):
    """See contract.py."""


async def test_calls_name_their_caller_and_decision_in_the_journal() -> None:
    async with fleet_served({"chat": 4}, lambda: NOW_S) as fleet, FleetApi(fleet.url) as api:
        target = await api.get(TargetRef(endpoint="chat"), D1)
        assert not isinstance(target, Refused | Unanswered)
        await api.drain(TargetRef(endpoint="chat"), Drain(replicas=("chat-0",), deadline_s=30.0), D1)
        change = Change(spec_replicas=3, resource_version=target.resource_version)
        await api.compare_and_set(TargetRef(endpoint="chat"), change, D1)
        entries = fleet.fleet.journal.after(0)
        assert [it.call.value for it in entries] == ["get", "drain", "scale"]
        assert {(it.actuator, it.decision_id) for it in entries} == {("contract", D1.decision_id)}


async def test_an_endpoint_may_have_any_name(world: HttpWorld) -> None:
    odd = TargetRef(endpoint=ODD)
    target = await world.port.get(odd, D1)
    assert not isinstance(target, Refused | Unanswered)
    change = Change(spec_replicas=7, resource_version=target.resource_version)
    await world.port.compare_and_set(odd, change, D1)
    assert world.fleet.spec(ODD) == 7


async def test_a_thousand_marks_and_more_are_several_calls(world: HttpWorld) -> None:
    names = tuple(f"chat-{number}" for number in range(2500))
    assert await world.port.drain(world.target, Drain(replicas=names, deadline_s=30.0), D1) == Marked()
    assert len(world.fleet.entries("drain")) == 3


async def test_the_api_is_reached_or_not(world: HttpWorld) -> None:
    async with FleetApi(world.fleet.url) as api:
        assert await api.reach("me") is None
    async with FleetApi(f"{world.fleet.url}/elsewhere/") as api:
        why = await api.reach("me")
        assert why is not None
        assert "404" in why


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (200, b"x" * (ANSWER_BYTES_MAX + 1), (Refused, True)),
        (200, b'{"endpoint":"other","spec_replicas":1,"resource_version":"v"}', (Refused, True)),
        (200, b'{"endpoint":"chat","spec_replicas":-1,"resource_version":"v"}', (Refused, True)),
        (200, b'{"endpoint":"chat","spec_replicas":1}', (Refused, True)),
        (200, b"\xff\xfe", (Refused, True)),
        (200, b"[" * 100_000, (Refused, True)),
        (302, b"", (Refused, False)),
        (401, b"who are you", (Refused, False)),
        (429, b'{"error": "slowly"}', (Refused, True)),
        (503, b"", (Refused, True)),
    ],
)
async def test_answers_that_are_no_target(status: int, body: bytes, answer: tuple[type, bool]) -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers={"location": "http://127.0.0.1:9/"})

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handle)
    async with served(app, ApiPlace(host="127.0.0.1", port=0, file=None)) as url, FleetApi(url) as api:
        read = await api.get(TargetRef(endpoint="chat"), D1)
        assert isinstance(read, Refused)
        assert (type(read), read.retryable) == answer
        assert 0 < len(read.detail) < 1000
        put = await api.compare_and_set(TargetRef(endpoint="chat"), Change(spec_replicas=1, resource_version="v"), D1)
        assert isinstance(put, Unanswered) == (status == 200)


async def test_a_target_that_answers_a_change_must_name_its_decision() -> None:
    """A cache in between may give the answer to an earlier reading."""

    async def handle(_: web.Request) -> web.Response:
        return web.json_response({"endpoint": "chat", "spec_replicas": 1, "resource_version": "v", "decision_id": "d0"})

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handle)
    async with served(app, ApiPlace(host="127.0.0.1", port=0, file=None)) as url, FleetApi(url) as api:
        put = await api.compare_and_set(TargetRef(endpoint="chat"), Change(spec_replicas=2, resource_version="v"), D1)
    assert put == Unanswered(detail="an answer about another decision, d0")


async def test_a_port_that_nobody_listens_on_is_named(world: HttpWorld) -> None:
    await world.spoil(Spoilt.NO_CONNECTION)
    answer = await world.port.get(world.target, D1)
    assert isinstance(answer, Refused)
    assert answer.detail.startswith("no connection to http://127.0.0.1:")
    assert (await got(world)).spec_replicas == 4
