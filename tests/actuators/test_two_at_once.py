"""Several actuators of one endpoint, paused and killed anywhere: what holds in every order of events."""

import asyncio

import pytest

from records.enums import OutcomeResult
from tests.actuators.world import Member, World

STORIES = 300


async def play(world: World, steps: int, members: int) -> None:
    """Draw who goes on, who is killed and started again, and what else happens; then everything is let go on."""
    running = [Member(world, f"actuator-{number}") for number in range(members)]
    for _ in range(steps):
        await let_go_on(world)
        drawn = world.chance.random()
        if drawn < 0.06:
            world.decide()
        elif drawn < 0.075:
            world.meddle()
        elif drawn < 0.1:
            number = world.chance.randrange(members)
            await kill(running[number])
            running[number] = Member(world, f"actuator-{number}")
        elif drawn < 0.12 and world.delayed:
            world.change(world.delayed.pop(0))
    world.delayed.clear()
    for member in running:
        await kill(member)
    last = Member(world, "actuator-0")
    while last.read < len(world.log) or last.chain.has_open or not world.outcomes:
        await let_go_on(world)
        if not world.log:
            break
    await kill(last)


async def kill(member: Member) -> None:
    member.task.cancel()
    await asyncio.gather(member.task, return_exceptions=True)


async def let_go_on(world: World) -> None:
    """One of those who wait; mostly who came last, so that others stand still for long."""
    if world.waiting:
        is_latest = world.chance.random() < world.haste
        drawn = world.waiting[-1 if is_latest else world.chance.randrange(len(world.waiting))]
        drawn.set_result(None)
        world.waiting.remove(drawn)
    for _ in range(6):
        await asyncio.sleep(0)


@pytest.mark.parametrize("first", range(0, STORIES, 100))
async def test_no_order_of_events_applies_a_decision_late_or_twice(first: int) -> None:
    for seed in range(first, first + 100):
        world = World(seed)
        await play(world, steps=250, members=2 + seed % 2)
        ticks = {decision.decision_id: decision.at_s for decision in world.log}
        wanted = {decision.decision_id: decision.desired for decision in world.log}
        applied = [decision_id for decision_id, _, _ in world.applications.rows if decision_id is not None]
        told = {outcome.decision_id: outcome.result for outcome in world.outcomes}
        assert [ticks[it] for it in applied] == sorted({ticks[it] for it in applied}), f"seed {seed}"
        assert told.keys() == ticks.keys(), f"seed {seed}: a decision without an outcome"
        for decision_id in applied:
            results = {it.result for it in world.outcomes if it.decision_id == decision_id}
            assert results == {OutcomeResult.APPLIED}, f"seed {seed}"
        for by, count, outcomes in world.applications.rows:
            newer = [
                it
                for it in world.outcomes[:outcomes]
                if by is not None
                and it.result is OutcomeResult.APPLIED
                and ticks[it.decision_id] > ticks[by]
                and wanted[it.decision_id] != count
            ]
            assert not newer, f"seed {seed}: {count} came after a newer decision was told to be applied"
