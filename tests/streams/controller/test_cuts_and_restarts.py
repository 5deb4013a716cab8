"""What always holds: the cut of polls changes nothing, and neither does a kill at any point."""

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

from records.enums import ReplicaState
from records.memory import ControllerMemory
from records.telemetry import ReplicaChanged
from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from tests.seeds import seeds
from tests.streams.controller.line import REQUESTS, Line, as_bytes, feed_all, policy, read_again, sample, started
from tests.streams.controller.random_line import POLICIES, bursting_line, random_line


def _by_endpoint(effects: Sequence[TickEffects]) -> dict[str, list[bytes]]:
    found = defaultdict(list)
    for one, encoded in zip(effects, as_bytes(effects), strict=True):
        found[one.endpoint].append(encoded)
    return found


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_the_cut_of_polls_changes_nothing(seed: int) -> None:
    line = random_line(seed, 350)
    one_by_one = feed_all(started(*POLICIES), line.arrivals)
    assert len(one_by_one) > 120
    for cut in range(2):
        in_runs = feed_all(started(*POLICIES), line.arrivals, random.Random(cut))
        assert as_bytes(in_runs) == as_bytes(one_by_one)


QUICK = (14, 15)
"""As random as all others; in 14 an epoch's last second leaves the windows with the tick that is the last one
committed, in 15 an endpoint's first tick is lost."""


@pytest.mark.parametrize("seed", seeds(100, quick=QUICK))
def test_a_kill_at_any_point_changes_nothing(seed: int) -> None:
    assert_kills_change_nothing(random_line(seed, 600), random.Random(seed))


@pytest.mark.parametrize("seed", seeds(60, quick=0))
def test_a_kill_while_clocks_cannot_be_told_changes_nothing(seed: int) -> None:
    assert_kills_change_nothing(bursting_line(seed, 600), random.Random(seed))


def test_a_kill_at_any_tick_of_a_burst_changes_nothing() -> None:
    """The samples of a while come at once, and the source is quarantined for it; it was heard before, not long ago."""
    line, patient = Line(), policy(patienceSeconds=60)
    ready = ReplicaChanged(endpoint="chat", replica="r1", epoch="e1", at_s=1_000, state=ReplicaState.READY)
    line.add("telemetry.replicas", ready)
    for at_s in range(1_000, 1_160):
        is_held = 1_100 <= at_s < 1_130
        line.add(REQUESTS, sample(at_s), 1_130.5 if is_held else None)
    whole = feed_all(started(patient), line.arrivals)
    assert any("suspect" in one.signal.windows["20"]["inflight_requests"].state for one in whole)
    for number, last in list(enumerate(whole[:-1], 1))[-14:]:
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore([last.memory], [patient])
        again = feed_all(controller, read_again(plan, line.arrivals))
        assert as_bytes(again) == as_bytes(whole[number:]), f"after the tick {last.at_s}"


def assert_kills_change_nothing(line: Line, rng: random.Random) -> None:
    """Several kills in a row, each somewhere after the last, with some of the ticks lost that were not committed."""
    whole = feed_all(started(*POLICIES), line.arrivals, rng)
    committed: list[TickEffects] = []
    memories: dict[str, ControllerMemory] = {}
    read_to = 0
    for _ in range(4):
        read_to = rng.randint(read_to, len(line.arrivals))
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore(memories.values(), POLICIES)
        made = feed_all(controller, read_again(plan, line.arrivals[:read_to]), rng)
        kept = made[: rng.randint(0, len(made))]
        committed += kept
        memories.update({one.endpoint: one.memory for one in kept})
    controller = PartitionController(0, lambda endpoint: True)
    plan = controller.restore(memories.values(), POLICIES)
    committed += feed_all(controller, read_again(plan, line.arrivals), rng)
    assert _by_endpoint(committed) == _by_endpoint(whole)
