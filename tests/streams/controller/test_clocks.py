"""Clocks that are off: corrected where steady, not trusted where not."""

import math
import random

import pytest

from records.enums import ValueState
from records.signals import EndpointSignal
from streams.endpoints.effects import Count, TickEffects
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


@pytest.mark.parametrize("offset_s", [-90, -3600])
def test_a_clock_that_is_minutes_or_an_hour_behind_is_corrected_like_any_other(offset_s: int) -> None:
    """Its first four samples tell nothing of a clock yet; no window holds less than what was surely there."""
    made = run(skewed([float(offset_s)] * 100, start_s=10_000))
    values = [one.signal.windows["20"]["inflight_requests"] for one in made]
    assert min(value.value for value in values if value.value is not None) >= 4.0
    assert [value.value for value in values[6:]] == [8.0] * len(values[6:])
    (source,) = made[-1].signal.sources
    assert (source.offset_s, source.state) == (float(offset_s), ValueState.FRESH)


@pytest.mark.parametrize("offset_s", [90, 3600])
def test_samples_from_more_than_a_minute_ahead_are_dropped_and_their_neighbours_are_not(offset_s: int) -> None:
    line = skewed([float(offset_s)] * 100, start_s=10_000)
    controller = started(policy())
    made = feed_all(controller, line.arrivals)
    assert controller.counts[Count.TOO_FAR_AHEAD] == 100
    assert made[-1].signal.windows["20"]["inflight_requests"].value == 4.0
    alone = Line()
    for arrival in line.arrivals:
        if arrival.record.replica == "r1":
            alone.add(REQUESTS, arrival.record, arrival.received_s)
    without = feed_all(started(policy()), alone.arrivals)
    assert [one.signal.windows for one in made] == [one.signal.windows for one in without]


def test_a_clock_that_drifts_slowly_is_corrected_all_the_way() -> None:
    """Nine seconds in half an hour. Five are skipped when it begins to be corrected, and one is lost at each step."""
    made = run(skewed([-4.0 - 0.005 * second for second in range(1800)], start_s=10_000))
    values = [one.signal.windows["20"]["inflight_requests"] for one in made[10:]]
    assert [value.state for value in values].count(ValueState.PARTIAL) <= 5
    assert all(7.0 <= (value.value or 0.0) <= 8.0 for value in values)
    assert made[-1].signal.sources[0].offset_s == pytest.approx(-13, abs=1.1)


@pytest.mark.parametrize(
    "offsets",
    [
        [-0.5 * second for second in range(200)],
        [0.0 if second // 60 % 2 == 0 else -30.0 for second in range(200)],
        [0.0 if second // 7 % 2 == 0 else 3600.0 for second in range(200)],
    ],
    ids=["drifts", "jumps", "jumps_an_hour"],
)
def test_a_clock_that_drifts_fast_or_jumps_harms_nobody_else(offsets: list[float]) -> None:
    """No value is more than both replicas have, or less than the good one; another endpoint is as if it were alone."""
    line = skewed(offsets, start_s=10_000)
    for at_s in range(10_000, 10_200):
        line.add(REQUESTS, sample(at_s, "r1", endpoint="other"), at_s + 1.0)
    mixed = Line()
    for arrival in sorted(line.arrivals, key=lambda one: one.received_s):
        mixed.add(REQUESTS, arrival.record, arrival.received_s)
    made = feed_all(started(policy(), policy("other")), mixed.arrivals)
    values = [one.signal.windows["20"]["inflight_requests"] for one in made if one.endpoint == "chat"][4:]
    assert all(value.value is None or 4.0 <= value.value <= 8.0 for value in values)
    others = [one.signal.windows["20"]["inflight_requests"] for one in made if one.endpoint == "other"][4:]
    assert {(value.value, value.state) for value in others} == {(4.0, ValueState.FRESH)}


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
