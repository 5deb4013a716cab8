"""More series of an endpoint than have room: what is left out may be load, so for a window it does not go down."""

import random

import pytest

from records.enums import ScalingReason
from streams.controller.controller import PartitionController
from tests.streams.controller.line import Line, as_bytes, feed_all, policy, read_again, sample, started

START_S, CROWDED_S, END_S = 1_000, 100, 480
POLICIES = (policy(), policy("quiet"))


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    """Two of three replicas have room; the third is there for the first while. A neighbour has one."""
    monkeypatch.setattr("streams.controller.sample_intake.SERIES_MAX", 2)
    made = Line()
    for second in range(END_S):
        replicas = ("r1", "r2", "r3") if second < CROWDED_S else ("r1", "r2")
        made.samples(sample(START_S + second, replica, running=1.0) for replica in replicas)
        made.samples([sample(START_S + second, endpoint="quiet")])
    return made


def test_an_endpoint_of_which_samples_are_left_out_does_not_go_down(line: Line) -> None:
    last_refused_s = START_S + CROWDED_S  # received a second after it was measured
    ticks = feed_all(started(*POLICIES), line.arrivals, random.Random(1))
    for one in ticks:
        told = [found.until_s for found in one.signal.down_blockers if found.kind == "too_many_series"]
        is_crowded = one.endpoint == "chat" and one.at_s - 300 <= last_refused_s
        assert bool(told) == is_crowded
        if is_crowded and one.at_s > last_refused_s + 5:
            assert told == [last_refused_s + 301]
    reasons = {one.at_s: one.decisions[-1].reason for one in ticks if one.endpoint == "chat"}
    assert reasons[last_refused_s + 300] is ScalingReason.INSUFFICIENT_EVIDENCE
    assert reasons[last_refused_s + 305] is ScalingReason.METRIC


def test_neither_the_cut_of_polls_nor_a_kill_changes_it(line: Line) -> None:
    whole = feed_all(started(*POLICIES), line.arrivals)
    for cut in range(3):
        assert as_bytes(feed_all(started(*POLICIES), line.arrivals, random.Random(cut))) == as_bytes(whole)
    for number in (20, 50, 120):
        newest = {one.endpoint: one.memory for one in whole[:number]}
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore(newest.values(), POLICIES)
        again = feed_all(controller, read_again(plan, line.arrivals), random.Random(number))
        assert as_bytes(again) == as_bytes(whole[number:])
