"""After an outage of the pipeline: what is caught up, what is skipped, what a rebuild that falls short forbids."""

import pytest

from records.decisions import SkippedTicks
from records.enums import ScalingReason
from records.memory import ControllerMemory
from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from tests.streams.controller.line import REQUESTS, Line, feed_all, policy, sample, started


def _line(seconds: int = 400) -> Line:
    line = Line()
    line.samples(sample(1000 + second) for second in range(seconds))
    return line


def _decided(effects: list[TickEffects]) -> list[tuple[int, SkippedTicks | None]]:
    return [(decision.at_s, decision.skipped) for one in effects for decision in one.decisions]


@pytest.mark.parametrize("behind_s", [20, 62])
def test_up_to_a_minute_behind_ticks_are_caught_up_one_by_one(behind_s: int) -> None:
    line = _line()
    controller = started(policy())
    feed_all(controller, line.arrivals[:100])
    controller.mark_behind(1100.0 + behind_s)
    made = feed_all(controller, line.arrivals[100:200])
    assert _decided(made) == [(at_s, None) for at_s in range(1100, 1200, 5)]


def test_further_behind_one_hold_says_what_was_skipped_and_the_newest_is_decided() -> None:
    line = _line()
    controller = started(policy())
    before = feed_all(controller, line.arrivals[:100])
    controller.mark_behind(1303.0)
    made = feed_all(controller, line.arrivals[100:])
    assert [one.at_s for one in made][:4] == [1100, 1105, 1110, 1115]
    # At 1303 the newest complete tick is 1295: its time was over at 1300.
    skipped = SkippedTicks(first_tick=1100, last_tick=1290)
    assert _decided(made)[:3] == [(1290, skipped), (1295, None), (1300, None)]
    hold = next(one.decisions[0] for one in made if one.at_s == 1290)
    assert (hold.reason, hold.previous_id) == (ScalingReason.SKIPPED, before[-1].decisions[0].decision_id)
    assert all(one.signal.windows["20"]["inflight_requests"].value == 4.0 for one in made)


@pytest.mark.parametrize("kept", [1, 10, 37, 38, 39, 45])
def test_a_kill_while_catching_up_leaves_every_tick_decided_or_skipped(kept: int) -> None:
    line = _line()
    controller = started(policy())
    committed = feed_all(controller, line.arrivals[:100])
    controller.mark_behind(1303.0)
    committed += feed_all(controller, line.arrivals[100:])[:kept]
    again = PartitionController(0, lambda endpoint: True)
    again.restore([committed[-1].memory], [policy()])
    committed += feed_all(again, line.arrivals)
    assert [one.at_s for one in committed] == list(range(1005, 1400, 5))
    decided = _decided(committed)
    (skipped,) = (skipped for _, skipped in decided if skipped is not None)
    covered = [at_s for at_s, one in decided if one is None]
    covered += range(skipped.first_tick, skipped.last_tick + 5, 5)
    assert sorted(covered) == list(range(1005, 1400, 5))


def test_an_outage_while_catching_up_makes_what_is_skipped_longer() -> None:
    line = _line()
    controller = started(policy())
    feed_all(controller, line.arrivals[:100])
    controller.mark_behind(1203.0)
    feed_all(controller, line.arrivals[100:110])
    controller.mark_behind(1303.0)
    made = feed_all(controller, line.arrivals[110:])
    assert _decided(made)[0] == (1290, SkippedTicks(first_tick=1100, last_tick=1290))


def _restored(memory: ControllerMemory) -> PartitionController:
    controller = PartitionController(0, lambda endpoint: True)
    controller.restore([memory], [policy()])
    return controller


def test_a_rebuild_that_does_not_reach_back_the_whole_window_forbids_going_down() -> None:
    line = _line(800)
    memory = feed_all(started(policy()), line.arrivals[:500])[-1].memory
    # The log begins at 1400.5: seconds from 1403 on are surely whole.
    held = [arrival for arrival in line.arrivals if arrival.received_s > 1400.5]
    controller = _restored(memory)
    controller.log_begins(1400.5)
    made = feed_all(controller, held)
    until = {one.at_s: [x.until_s for x in one.signal.down_blockers if x.kind == "rebuild"] for one in made}
    assert until[1505] == [1703]
    assert until[1700] == [1703]
    assert until[1705] == []
    whole = feed_all(_restored(memory), line.arrivals)
    assert not [blocker for one in whole for blocker in one.signal.down_blockers if blocker.kind == "rebuild"]


def test_nothing_is_decided_before_the_windows_are_rebuilt() -> None:
    line = _line(300)
    memory = feed_all(started(policy()), line.arrivals)[-1].memory
    controller = _restored(memory)
    assert controller.is_rebuilding
    assert feed_all(controller, line.arrivals[:200]) == []
    assert controller.is_rebuilding
    feed_all(controller, line.arrivals[200:])
    assert not controller.is_rebuilding


def test_a_log_that_lost_everything_is_rebuilt_when_it_is_read_to_its_end() -> None:
    line = _line(300)
    memory = feed_all(started(policy()), line.arrivals)[-1].memory
    controller = _restored(memory)
    made = list(controller.advance(1312.0))
    assert [one.at_s for one in made] == [1300, 1305]
    assert not controller.is_rebuilding


def test_memory_without_a_policy_is_left_alone() -> None:
    line = _line(300)
    memory = feed_all(started(policy()), line.arrivals)[-1].memory
    controller = PartitionController(0, lambda endpoint: True)
    plan = controller.restore([memory], [])
    assert (dict(plan.times_s), dict(plan.offsets)) == ({}, {})
    assert feed_all(controller, line.arrivals) == []


def test_the_plan_reaches_back_the_windows_and_goes_on_where_other_topics_were() -> None:
    line = _line(300)
    memory = feed_all(started(policy()), line.arrivals)[-1].memory
    controller = PartitionController(0, lambda endpoint: True)
    plan = controller.restore([memory], [policy(scaleDown={"windowSeconds": 900})], policies_read_to=7)
    assert plan.times_s[REQUESTS] <= memory.at_s - 900 - 2 - 60
    assert memory.at_s - 900 < plan.times_s["telemetry.targets"] <= memory.at_s - 10
    assert plan.offsets["policies"] == 7
    assert memory.offsets == {REQUESTS: 297}
