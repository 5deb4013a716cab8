"""Replicas from the request to the end, second by second."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from records.enums import ReplicaState
from records.telemetry import ReplicaChanged
from simulation.lifecycle import GONE_TOLD_S, REPEAT_S, Lifecycle, ReplicaFacts
from simulation.scale_target import DrainMark

UID = "6f1c1a52-0000-5000-8000-000000000001"
FACTS = ReplicaFacts(endpoint="chat", hardware="H100", model_version="m")
START_S = 20.0
NOBODY: Mapping[str, int] = {}


@dataclass(frozen=True)
class Steady:
    """Every start takes the same time."""

    start_s: float = START_S

    def draw(self, rng: np.random.Generator) -> float:
        return self.start_s


class Story:
    """A lifecycle that is advanced second by second; `told` holds all changes."""

    def __init__(self, initial: int = 0, start_s: float = START_S, facts: ReplicaFacts = FACTS, seed: int = 1) -> None:
        self.life = Lifecycle(facts, Steady(start_s), np.random.default_rng(seed), UID)
        self.second = 1000
        self.told: list[ReplicaChanged] = self.life.begin(initial, self.second)
        self.spec = initial
        self.marks: Sequence[DrainMark] = ()
        self.inflight: Mapping[str, int] = NOBODY

    def run(self, until: int) -> list[str]:
        """Advance up to and with the second `until` (from the start on); the changes, as text."""
        begin = len(self.told)
        while self.second <= 1000 + until:
            self.told += self.life.advance(self.second, self.spec, self.marks, self.inflight)
            self.second += 1
        return [self._text(change) for change in self.told[begin:]]

    def die(self, name: str) -> list[str]:
        changes = self.life.die(name, self.second)
        self.told += changes
        return [self._text(change) for change in changes]

    @staticmethod
    def _text(change: ReplicaChanged) -> str:
        restarts = change.epoch.rpartition("/")[2]
        return f"{change.at_s - 1000} {change.replica} {restarts} {change.state} {change.reason}"


def test_a_start_is_requested_placed_and_ready_when_drawn() -> None:
    story = Story(initial=1)
    story.spec = 2
    assert story.run(20) == ["0 chat-1 0 requested scaled_up", "1 chat-1 0 starting scheduled"]
    assert story.run(21) == ["21 chat-1 0 ready started"]
    assert story.run(100) == []


@pytest.mark.parametrize(("start_s", "ready_s"), [(0.0, 2), (1.0, 2), (2.1, 4), (200.5, 202)])
def test_a_start_has_each_of_its_states(start_s: float, ready_s: int) -> None:
    story = Story(start_s=start_s)
    story.spec = 1
    changes = story.run(300)
    assert changes[0] == "0 chat-0 0 requested scaled_up"
    assert changes[1] == "1 chat-0 0 starting scheduled"
    assert changes[2:] == [f"{ready_s} chat-0 0 ready started"]


def test_going_down_drains_and_ends_when_the_requests_have_ended() -> None:
    story = Story(initial=3)
    story.run(5)
    story.inflight = {"chat-0": 4, "chat-1": 2, "chat-2": 9}
    story.spec = 2
    assert story.run(20) == ["6 chat-1 0 draining scaled_down"]
    story.inflight = {"chat-0": 4, "chat-1": 0, "chat-2": 9}
    assert story.run(40) == ["21 chat-1 0 gone drained"]


def test_requests_that_do_not_end_are_cut_off_at_the_deadline() -> None:
    story = Story(initial=2)
    story.inflight = {"chat-0": 1, "chat-1": 1}
    story.spec = 1
    assert story.run(29) == ["0 chat-1 0 draining scaled_down"]
    assert story.run(60) == ["30 chat-1 0 gone drain_deadline"]


def test_marked_replicas_leave_first_with_their_own_deadline() -> None:
    story = Story(initial=4)
    story.inflight = {f"chat-{number}": number for number in range(4)}
    story.marks = [
        DrainMark(replica="chat-3", deadline_s=7.0, marked_s=1000.0, number=2),
        DrainMark(replica="chat-2", deadline_s=90.0, marked_s=1000.0, number=1),
    ]
    story.spec = 2
    assert story.run(50) == [
        "0 chat-3 0 draining scaled_down",
        "0 chat-2 0 draining scaled_down",
        "7 chat-3 0 gone drain_deadline",
    ]
    assert story.run(100) == ["90 chat-2 0 gone drain_deadline"]


def test_those_that_are_not_ready_leave_before_those_that_are_the_newest_first() -> None:
    story = Story(initial=1)
    story.spec = 3
    story.run(3)
    story.spec = 4
    story.run(5)
    story.spec = 2
    assert story.run(6) == ["6 chat-3 0 gone scaled_down", "6 chat-2 0 gone scaled_down"]
    story.marks = [DrainMark(replica="chat-0", deadline_s=5.0, marked_s=1000.0, number=1)]
    story.inflight = {"chat-0": 1}
    story.spec = 1
    assert story.run(7) == ["7 chat-0 0 draining scaled_down"]


def test_up_again_while_draining_asks_for_new_ones() -> None:
    story = Story(initial=2)
    story.inflight = {"chat-0": 5, "chat-1": 5}
    story.spec = 1
    story.run(3)
    story.spec = 2
    assert story.run(5) == ["4 chat-2 0 requested scaled_up", "5 chat-2 0 starting scheduled"]
    assert story.life.replicas["chat-1"].state is ReplicaState.DRAINING


def test_a_container_that_ended_starts_again_as_another_epoch_with_backoff() -> None:
    story = Story(initial=1)
    story.run(5)
    assert story.die("chat-0") == ["6 chat-0 0 failed died"]
    assert story.run(37) == [
        "16 chat-0 1 requested restarted",
        "17 chat-0 1 starting scheduled",
        "37 chat-0 1 ready started",
    ]
    assert story.die("chat-0") == ["38 chat-0 1 failed died"]
    assert story.run(79)[0] == "58 chat-0 2 requested restarted"
    story.run(79 + 600)
    assert story.die("chat-0") == ["680 chat-0 2 failed died"]
    assert story.run(690) == ["690 chat-0 3 requested restarted"]


def test_a_draining_replica_that_dies_is_gone() -> None:
    story = Story(initial=2)
    story.inflight = {"chat-0": 1, "chat-1": 1}
    story.spec = 1
    story.run(1)
    assert story.die("chat-1") == ["2 chat-1 0 gone died"]
    assert story.run(60) == []


def test_failing_starts_fail_on_the_way_and_are_tried_again() -> None:
    story = Story()
    story.life.fail_starts(2)
    story.spec = 1
    states = [change.split()[2:4] for change in story.run(200)]
    assert states == [
        *(["0", "requested"], ["0", "starting"], ["0", "failed"]),
        *(["1", "requested"], ["1", "starting"], ["1", "failed"]),
        *(["2", "requested"], ["2", "starting"], ["2", "ready"]),
    ]
    failed = [change.at_s for change in story.told if change.state is ReplicaState.FAILED]
    again = [change.at_s for change in story.told if change.state is ReplicaState.REQUESTED][1:]
    assert [after - before for before, after in zip(failed, again, strict=True)] == [10, 20]


def test_about_the_fraction_of_starts_that_shall_fail_does() -> None:
    facts = ReplicaFacts(endpoint="chat", hardware="H100", model_version="m", start_failure_fraction=0.3)
    story = Story(facts=facts)
    story.spec = 500
    story.run(22)
    states = Counter(replica.state for replica in story.life.replicas.values())
    failed = sum(replica.failures > 0 for replica in story.life.replicas.values())
    assert 100 < failed < 200
    assert states[ReplicaState.READY] == 500 - failed


def test_states_are_repeated_and_the_end_for_a_while() -> None:
    story = Story(initial=1)
    story.run(0)
    for second in range(1001, 1001 + 2 * REPEAT_S):
        repeats = story.life.repeats(second)
        assert [change.at_s for change in repeats] == ([second] if (second - 1000) % REPEAT_S == 0 else [])
        story.told += repeats
    assert [change.seq for change in story.told] == [1, 2, 3]
    assert {change.state for change in story.told} == {ReplicaState.READY}
    story.second, story.spec = 1061, 0
    story.run(62)
    ends = [change for second in range(1063, 1063 + 1000) for change in story.life.repeats(second)]
    assert len(ends) == GONE_TOLD_S // REPEAT_S
    assert {change.state for change in ends} == {ReplicaState.GONE}


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 15), st.booleans()), min_size=1, max_size=12), st.integers(0)
)
def test_whatever_is_asked_the_count_comes_to_the_spec(steps: list[tuple[int, int, bool]], seed: int) -> None:
    facts = ReplicaFacts(endpoint="chat", hardware="H100", model_version="m", start_failure_fraction=0.2)
    story = Story(initial=2, facts=facts, seed=seed)
    until = 0
    for spec, seconds, is_killing in steps:
        story.spec, until = spec, until + seconds
        serving = [name for name, replica in story.life.replicas.items() if replica.serves]
        if is_killing and serving:
            story.die(serving[-1])
        story.inflight = dict.fromkeys(serving, 1)
        story.run(until)
        staying = [r for r in story.life.replicas.values() if r.state is not ReplicaState.DRAINING]
        assert len(staying) == spec
    story.inflight = NOBODY
    story.run(until + 3000)
    assert len(story.life.replicas) == story.spec == story.life.count(ReplicaState.READY)
    newest = {change.replica: change for change in story.told}
    assert {name for name, change in newest.items() if change.state is not ReplicaState.GONE} == set(
        story.life.replicas
    )
    assert [change.seq for change in story.told] == list(range(1, len(story.told) + 1))
