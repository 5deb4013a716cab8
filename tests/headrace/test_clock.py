"""The one module that reads a clock: what it shows, and what the environment may say."""

import time
from types import SimpleNamespace

import pytest

from headrace.clock import Clock
from headrace.exit_codes import CannotRunError


def test_without_variables_it_shows_the_real_time() -> None:
    clock = Clock.from_environment({})
    before = time.time()
    shown = clock.now_s()
    assert before <= shown <= time.time()
    assert clock.is_real


def test_base_and_speed_give_every_process_the_same_time() -> None:
    environment = {"HEADRACE_CLOCK_BASE": "1700000000@1600000000.5", "HEADRACE_CLOCK_SPEED": "10"}
    clock = Clock.from_environment(environment)
    before_s = time.time()
    shown_s = clock.now_s()
    after_s = time.time()
    assert 1_700_000_000 + (before_s - 1_600_000_000.5) * 10 <= shown_s
    assert shown_s <= 1_700_000_000 + (after_s - 1_600_000_000.5) * 10
    assert clock.real_seconds(30) == 3
    assert not clock.is_real
    assert Clock.from_environment(clock.to_environment()) == clock


def test_a_base_alone_is_where_both_clocks_agree() -> None:
    assert Clock.from_environment({"HEADRACE_CLOCK_BASE": "5", "HEADRACE_CLOCK_SPEED": "2"}) == Clock(
        shown_s=5.0, real_s=5.0, speed=2.0
    )


@pytest.mark.parametrize("leap_s", [3600.0, -3600.0])
def test_a_steady_clock_does_not_follow_a_wall_clock_that_is_set(
    leap_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall_s, passed_s = 1_000.0, 50.0
    monkeypatch.setattr("headrace.clock.time", SimpleNamespace(time=lambda: wall_s, monotonic=lambda: passed_s))
    clock = Clock(shown_s=5_000.0, real_s=900.0, speed=2.0)
    steady = clock.steady()
    assert steady() == clock.now_s() == 5_200.0
    wall_s, passed_s = 1_010.0 + leap_s, 60.0
    assert steady() == 5_220.0
    assert clock.now_s() == 5_220.0 + 2 * leap_s


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"HEADRACE_CLOCK_BASE": "now"}, ["HEADRACE_CLOCK_BASE: 'now'"]),
        ({"HEADRACE_CLOCK_BASE": "1@x", "HEADRACE_CLOCK_SPEED": "0"}, ["HEADRACE_CLOCK_BASE", "HEADRACE_CLOCK_SPEED"]),
        ({"HEADRACE_CLOCK_BASE": "-1"}, ["HEADRACE_CLOCK_BASE"]),
        ({"HEADRACE_CLOCK_SPEED": "fast", "HEADRACE_CLOCK_BASE": "1"}, ["HEADRACE_CLOCK_SPEED: 'fast'"]),
        ({"HEADRACE_CLOCK_SPEED": "nan", "HEADRACE_CLOCK_BASE": "1"}, ["HEADRACE_CLOCK_SPEED"]),
        ({"HEADRACE_CLOCK_SPEED": "2"}, ["HEADRACE_CLOCK_BASE: required"]),
    ],
    ids=["no number", "both wrong", "before 1970", "no speed", "nan", "speed without base"],
)
def test_what_is_wrong_is_named(environment: dict[str, str], named: list[str]) -> None:
    with pytest.raises(CannotRunError) as caught:
        Clock.from_environment(environment)
    lines = caught.value.message.splitlines()
    assert len(lines) == len(named)
    for line, name in zip(lines, named, strict=True):
        assert line.startswith(name)
        assert "allowed" in line
