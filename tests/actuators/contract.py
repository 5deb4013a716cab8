"""What every implementation of the port must do. A test module runs it by a subclass with a fixture `world`.

Targets of other kinds (Kubernetes, KEDA, processes) write a TargetWorld of their own and inherit the rest.
"""

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, Protocol

import pytest

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

D1, D2 = (CallContext(actuator="contract", decision_id=digit * 64) for digit in "12")


class Spoilt(StrEnum):
    """What happens to the next call, and whether it is carried out all the same."""

    NO_CONNECTION = "no_connection"
    """Nobody listens: it is not carried out, and that is known."""
    SILENCE = "silence"
    """It arrives, nothing is done and nothing is answered."""
    CUT = "cut"
    """It arrives, nothing is done and the connection is closed."""
    ERROR = "error"
    """Status 500 or its like, nothing is done."""
    LOST = "lost"
    """It is carried out, and the connection is closed instead of an answer."""
    HALF = "half"
    """It is carried out, and half of the answer arrives."""
    GARBAGE = "garbage"
    """It is carried out, and the answer is none."""
    SLOW = "slow"
    """It is carried out, and the answer comes in pieces that take too long together."""


NOT_DONE = (Spoilt.SILENCE, Spoilt.CUT, Spoilt.ERROR)
DONE = (Spoilt.LOST, Spoilt.HALF, Spoilt.GARBAGE, Spoilt.SLOW)


class TargetWorld(Protocol):
    """A real target with 4 replicas, for one test, and the port to it.

    `replicas` are names of two of them. `spec_max` is the most that the target takes. Calls end within `patience_s`.
    """

    port: ScaleTargetPort
    target: TargetRef
    missing: TargetRef
    replicas: tuple[str, str]
    spec_max: int
    patience_s: float

    async def spec(self) -> int:
        """The target's spec, seen past the port."""
        ...

    async def meddle(self, spec: int) -> None:
        """Somebody else changes the spec."""
        ...

    async def marked(self) -> set[str]:
        """Replicas that are marked to leave first; empty where targets of this kind have no marks."""
        ...

    async def spoil(self, how: Spoilt) -> None:
        """The next call, and no other, goes wrong."""
        ...


Call = Callable[[TargetWorld, str], Coroutine[Any, Any, object]]


async def _get(world: TargetWorld, version: str) -> object:
    return await world.port.get(world.target, D1)


async def _put(world: TargetWorld, version: str) -> object:
    return await world.port.compare_and_set(world.target, Change(spec_replicas=6, resource_version=version), D1)


async def _drain(world: TargetWorld, version: str) -> object:
    return await world.port.drain(world.target, Drain(replicas=world.replicas, deadline_s=30.0), D1)


CALLS: tuple[Call, ...] = (_get, _put, _drain)


async def got(world: TargetWorld) -> ObservedTarget:
    target = await world.port.get(world.target, D1)
    assert isinstance(target, ObservedTarget), target
    return target


class PortContract:
    """Every answer is a value of the port."""

    async def test_get_tells_spec_and_version(self, world: TargetWorld) -> None:
        first = await got(world)
        assert (first.endpoint, first.spec_replicas, first.decision_id) == (world.target.endpoint, 4, None)
        assert await got(world) == first
        await world.meddle(5)
        second = await got(world)
        assert second.spec_replicas == 5
        assert second.resource_version != first.resource_version

    async def test_compare_and_set_changes_the_target_once(self, world: TargetWorld) -> None:
        before = await got(world)
        answer = await _put(world, before.resource_version)
        assert isinstance(answer, Applied)
        assert answer.target == await got(world)
        assert answer.target.spec_replicas == await world.spec() == 6
        assert answer.target.decision_id in (D1.decision_id, None)
        assert answer.target.resource_version != before.resource_version

    async def test_a_stale_version_is_a_conflict_and_changes_nothing(self, world: TargetWorld) -> None:
        before = await got(world)
        await world.meddle(5)
        answer = await _put(world, before.resource_version)
        assert isinstance(answer, Conflict)
        assert answer.detail
        assert await world.spec() == 5

    async def test_two_changes_from_one_version_are_one(self, world: TargetWorld) -> None:
        version = (await got(world)).resource_version
        change = Change(spec_replicas=7, resource_version=version)
        answers = await asyncio.gather(
            _put(world, version), world.port.compare_and_set(world.target, change, D2), return_exceptions=True
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["Applied", "Conflict"]
        assert await world.spec() == (6 if isinstance(answers[0], Applied) else 7)

    async def test_the_same_decision_again_changes_nothing(self, world: TargetWorld) -> None:
        version = (await got(world)).resource_version
        assert isinstance(await _put(world, version), Applied)
        await world.meddle(9)
        assert isinstance(await _put(world, version), Applied | Conflict)
        assert await world.spec() == 9

    async def test_the_target_remembers_the_decision_through_other_changes(self, world: TargetWorld) -> None:
        assert isinstance(await _put(world, (await got(world)).resource_version), Applied)
        await world.meddle(9)
        assert (await got(world)).decision_id in (D1.decision_id, None)

    async def test_the_same_count_for_another_decision_makes_a_version(self, world: TargetWorld) -> None:
        first = await _put(world, (await got(world)).resource_version)
        assert isinstance(first, Applied)
        change = Change(spec_replicas=6, resource_version=first.target.resource_version)
        second = await world.port.compare_and_set(world.target, change, D2)
        assert isinstance(second, Applied)
        if second.target.decision_id is not None:
            assert second.target.resource_version != first.target.resource_version
            assert second.target.decision_id == D2.decision_id

    async def test_what_is_out_of_range_is_refused_for_good_and_says_the_range(self, world: TargetWorld) -> None:
        change = Change(spec_replicas=world.spec_max + 1, resource_version=(await got(world)).resource_version)
        answer = await world.port.compare_and_set(world.target, change, D1)
        assert isinstance(answer, Refused)
        assert not answer.retryable
        assert str(world.spec_max + 1) in answer.detail
        assert str(world.spec_max) in answer.detail.replace(str(world.spec_max + 1), "")
        assert await world.spec() == 4

    async def test_zero_is_a_count(self, world: TargetWorld) -> None:
        change = Change(spec_replicas=0, resource_version=(await got(world)).resource_version)
        assert isinstance(await world.port.compare_and_set(world.target, change, D1), Applied)
        assert await world.spec() == 0

    async def test_a_target_that_is_not_there_is_refused_for_good(self, world: TargetWorld) -> None:
        missing = world.missing
        answers = [
            await world.port.get(missing, D1),
            await world.port.compare_and_set(missing, Change(spec_replicas=1, resource_version="v"), D1),
            await world.port.drain(missing, Drain(replicas=world.replicas, deadline_s=30.0), D1),
        ]
        assert all(isinstance(it, Refused) and not it.retryable and it.detail for it in answers), answers

    async def test_drain_marks_and_again_changes_nothing(self, world: TargetWorld) -> None:
        before = await got(world)
        assert await _drain(world, "") == Marked()
        marked = await world.marked()
        assert marked in (set(), set(world.replicas))
        assert await _drain(world, "") == Marked()
        assert await world.marked() == marked
        assert await got(world) == before

    async def test_drain_of_replicas_that_left_is_no_error(self, world: TargetWorld) -> None:
        gone = Drain(replicas=("nobody-1",), deadline_s=30.0)
        assert isinstance(await world.port.drain(world.target, gone, D1), Marked | Refused)
        assert await world.spec() == 4

    @pytest.mark.parametrize("call", CALLS, ids=["get", "put", "drain"])
    async def test_no_connection_is_refused_for_now(self, world: TargetWorld, call: Call) -> None:
        version = (await got(world)).resource_version
        await world.spoil(Spoilt.NO_CONNECTION)
        answer = await call(world, version)
        assert isinstance(answer, Refused), answer
        assert answer.retryable
        assert answer.detail
        assert (await got(world)).resource_version == version

    @pytest.mark.parametrize("how", [*NOT_DONE, *DONE])
    async def test_a_spoilt_get_is_tried_again_or_refused_for_now(self, world: TargetWorld, how: Spoilt) -> None:
        await world.spoil(how)
        async with asyncio.timeout(world.patience_s):
            answer = await world.port.get(world.target, D1)
        if isinstance(answer, ObservedTarget):
            assert how in (Spoilt.CUT, Spoilt.LOST), "a client may have asked again where the connection was closed"
        else:
            assert answer.detail
            assert isinstance(answer, Unanswered) or answer.retryable
        assert (await got(world)).spec_replicas == 4

    @pytest.mark.parametrize("how", [*NOT_DONE, *DONE])
    async def test_a_spoilt_change_is_in_doubt_and_reading_resolves_it(self, world: TargetWorld, how: Spoilt) -> None:
        before = await got(world)
        await world.spoil(how)
        async with asyncio.timeout(world.patience_s):
            answer = await _put(world, before.resource_version)
        # A client may have asked again by itself (aiohttp does where a connection was closed): then it knows.
        assert isinstance(answer, Unanswered | Conflict | Applied), answer
        found = await got(world)
        assert found.spec_replicas == await world.spec()
        if how in DONE or isinstance(answer, Applied):
            assert (found.spec_replicas, found.decision_id in (D1.decision_id, None)) == (6, True)
        else:
            assert found == before

    @pytest.mark.parametrize("how", [*NOT_DONE, *DONE])
    async def test_a_spoilt_drain_is_a_value_and_can_be_repeated(self, world: TargetWorld, how: Spoilt) -> None:
        await world.spoil(how)
        async with asyncio.timeout(world.patience_s):
            assert isinstance(await _drain(world, ""), Marked | Refused | Unanswered)
        assert await _drain(world, "") == Marked()
