"""After a take-over the checks of a whole window are made together, and find what they find tick by tick."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from records.telemetry import RequestSample
from streams.endpoints.cross_checks import REACH_S, Check, CheckBook, Finding, Views, failing
from streams.endpoints.ticks import TICK_S
from streams.windows.columns import SampleColumns
from streams.windows.windows import Windows
from tests.streams.controller.line import sample

FIRST_S, SECONDS = 1000, 150
TICK = FIRST_S + SECONDS
SEEDS = range(6)


def faulty(chance: random.Random) -> Iterator[RequestSample]:
    """Replicas with holes, of which each has some fault for a while."""
    for replica in ("r1", "r2", "r3"):
        fault = chance.choice(("queue", "alternates", "flow", "restart", "none"))
        begins_s, ends_s = sorted(chance.sample(range(FIRST_S, TICK), 2))
        for at_s in range(FIRST_S, TICK):
            fields: dict[str, object] = {"waiting": float(chance.randrange(3)), "arrivals": chance.choice((1, 2, None))}
            now = begins_s <= at_s < ends_s
            if now and fault == "queue":
                fields = {"waiting": 7.0, "arrivals": 0, "completions": 3}
            elif now and fault == "alternates":
                fields["output_tokens"] = 400 + at_s % 5 if at_s % 2 else 40
            elif now and fault == "flow":
                fields["arrivals"] = 30
            elif now and fault == "restart":
                fields |= {"epoch": "e2", "running": 30.0}
            if chance.random() < 0.95:
                yield sample(at_s, replica, **fields)


def found_together_and_alone(seed: int) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    chance = random.Random(seed)
    samples = sorted(faulty(chance), key=lambda one: one.at_s)
    windows = Windows()
    windows.add(SampleColumns.from_records(samples, np.array([one.at_s + 1.0 for one in samples])))
    views = Views(
        windows.grid("chat", TICK - REACH_S, TICK),
        lambda first_s, end_s: windows.grid("chat", first_s, end_s),
        None,
        None,
    )
    together = CheckBook().look(views, TICK, FIRST_S, frozenset())
    ticks = range(FIRST_S + REACH_S, TICK + TICK_S, TICK_S)
    return together, tuple(Finding(at, check) for at in ticks for check in failing(views, at))


@pytest.mark.parametrize("seed", SEEDS)
def test_they_find_the_same(seed: int) -> None:
    together, alone = found_together_and_alone(seed)
    assert together == alone


def test_the_lines_have_faults_of_each_kind_and_ticks_without() -> None:
    found = [finding for seed in SEEDS for finding in found_together_and_alone(seed)[1]]
    assert {finding.check for finding in found} == {Check.CONSERVATION, Check.CONSTANT_QUEUE, Check.ALTERNATING}
    assert (
        len({(seed, one.tick) for seed in SEEDS for one in found_together_and_alone(seed)[1]}) < 0.9 * len(SEEDS) * 27
    )
