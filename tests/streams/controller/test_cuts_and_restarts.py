"""What always holds: the cut of polls changes nothing, and neither does a kill at any point."""

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

from records.memory import ControllerMemory
from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from tests.seeds import seeds
from tests.streams.controller.line import as_bytes, feed_all, read_again, started
from tests.streams.controller.random_line import POLICIES, random_line


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


QUICK = (0, 1, 14, 15)
"""In 14 an epoch's last second leaves the windows with the tick that is the last one committed; in 15 an endpoint's
first tick is lost."""


@pytest.mark.parametrize("seed", seeds(100, quick=QUICK))
def test_a_kill_at_any_point_changes_nothing(seed: int) -> None:
    """Several kills in a row, each somewhere after the last, with some of the ticks lost that were not committed."""
    rng = random.Random(seed)
    line = random_line(seed, 600)
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
