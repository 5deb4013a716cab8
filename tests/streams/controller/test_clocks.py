"""Clocks that are off: corrected where steady, not trusted where not."""

import math
import random

import pytest

from records.enums import ValueState
from records.signals import EndpointSignal
from streams.endpoints.effects import TickEffects
from streams.endpoints.skew import quantile
from tests.streams.controller.line import REQUESTS, Line, feed_all, policy, run, sample, started


def skewed(offsets: list[float], start_s: int = 1000, healthy: bool = True) -> Line:
    """r2's clock is off by one of `offsets` each second; r1's is right."""
    line = Line()
    for index, offset_s in enumerate(offsets):
        at_s = start_s + index
        if healthy:
            line.add(REQUESTS, sample(at_s, "r1"), at_s + 1.0)
        whole = math.floor(offset_s)
        line.add(REQUESTS, sample(at_s + whole, "r2"), at_s + 1.0 + whole - offset_s)
    return line


def last(line: Line) -> EndpointSignal:
    return run(line)[-1].signal


@pytest.mark.parametrize("offset_s", [-40, -20, 20, 55])
def test_a_steady_clock_is_corrected(offset_s: int) -> None:
    seen = last(skewed([float(offset_s)] * 200))
    assert seen.windows["20"]["inflight_requests"].coverage == 1.0
    assert seen.windows["20"]["inflight_requests"].value == 8.0
    (source,) = seen.sources
    assert (source.replica, source.offset_s, source.state) == ("r2", float(offset_s), ValueState.FRESH)


@pytest.mark.parametrize("offset_s", [-5, 5])
def test_five_seconds_off_are_left_alone(offset_s: int) -> None:
    seen = last(skewed([float(offset_s)] * 200))
    assert seen.sources == ()


def test_a_correction_does_not_move_with_every_sample() -> None:
    """Two seconds that fall into one would lose a sample: offsets around 20.5 keep the first correction."""
    rng = random.Random(3)
    seen = last(skewed([20.5 + rng.uniform(-0.49, 0.49) for _ in range(300)]))
    assert seen.windows["300"]["inflight_requests"].coverage > 0.98


def test_an_unsteady_clock_is_not_trusted_until_it_is_steady_again() -> None:
    rng = random.Random(4)
    wild = [rng.choice((-30.0, -10.0, -50.0)) for _ in range(100)]
    during = last(skewed(wild))
    (source,) = during.sources
    assert (source.replica, source.state) == ("r2", ValueState.SUSPECT)
    assert during.windows["20"]["inflight_requests"].state is ValueState.SUSPECT
    assert during.windows["20"]["inflight_requests"].check == "clock_unsteady"
    assert "suspect" in {one.kind for one in during.down_blockers}
    after = last(skewed(wild + [0.0] * 100))
    assert after.sources == ()
    assert after.windows["20"]["inflight_requests"].value == 8.0


def test_an_engine_that_is_not_trusted_is_replaced_by_its_router() -> None:
    rng = random.Random(5)
    line = skewed([rng.choice((-30.0, -10.0, -50.0)) for _ in range(100)], healthy=False)
    mixed = Line()
    for arrival in line.arrivals:
        mixed.add(REQUESTS, arrival.record, arrival.received_s)
        at_s = int(arrival.received_s) - 1
        mixed.add(REQUESTS, sample(at_s, "r2", source="router", reporter="gw", running=3.0), arrival.received_s)
    found = last(mixed).windows["20"]["inflight_requests"]
    assert (found.value, found.state) == (3.0, ValueState.FRESH)


def test_a_clock_that_runs_ahead_moves_no_tick_before_its_time() -> None:
    """Five seconds ahead is the most that a watermark goes before the receipt; 40 s are corrected."""
    made = feed_all(started(policy()), skewed([40.0] * 100, healthy=False).arrivals)
    early = [one for one in made if one.signal.processed_s < one.at_s - 3]
    assert early == []


def test_a_wall_clock_that_leaps_changes_no_window() -> None:
    line = Line()
    line.samples(sample(at_s) for at_s in range(1000, 1100))
    controller = started(policy())
    made = feed_all(controller, line.arrivals)
    made += [*controller.advance(1110.0), *controller.advance(500.0)]
    line.samples(sample(at_s) for at_s in range(1100, 1110))
    made += feed_all(controller, line.arrivals[100:])
    assert _starts_of_windows(made) == sorted(_starts_of_windows(made))
    assert made[-1].signal.processed_s == 1110.0


def _starts_of_windows(made: list[TickEffects]) -> list[int]:
    return [one.at_s for one in made]


@pytest.mark.parametrize(
    ("ordered", "fraction", "expected"),
    [([1.0], 0.5, 1.0), ([1.0, 2.0], 0.5, 1.5), ([0.0, 1.0, 2.0, 3.0, 4.0], 0.25, 1.0), ([0.0, 10.0], 0.75, 7.5)],
)
def test_quantiles(ordered: list[float], fraction: float, expected: float) -> None:
    assert quantile(ordered, fraction) == expected
