"""What is shown while the closed loop runs: a table on a terminal of any width, lines where none is."""

import io
import re

import pyarrow as pa
import pytest
from rich.console import Console

from headrace.demo.console import PLAIN_WIDTH
from headrace.demo.feed import Tick
from headrace.demo.fleet.screen import Standing, open_screen
from headrace.demo.fleet.watch import OVER_S, SETTLED_S, Watch
from records.enums import ScalingAction, SupplySource
from records.signals import EndpointSignal, SupplySignal
from tests.demo.made_tables import table_of
from tests.demo.test_history import POLICY, T, decision, sample, ttft

SECONDS = 30


def tick(second: int, action: ScalingAction, current: int, desired: int) -> Tick:
    supply = SupplySignal(source=SupplySource.OBSERVED, ready=current, starting=1)
    signal = EndpointSignal(
        endpoint="burst", at_s=T + second, processed_s=T + second + 2.0, offsets={}, supply=supply, windows={}
    )
    return Tick(signal=signal, decision=decision(second, action, current, desired))


def samples() -> pa.Table:
    """Two replicas with 5 requests/s each and 3 rejections/s at the gateway, from the tenth second on; none before."""
    rows = []
    for second in range(SECONDS):
        count = 5 if second >= 10 else 0
        for replica in ("burst-0", "burst-1"):
            rows.append(
                sample(second, replica, arrivals=count, running=20.0, waiting=1.5, ttft_ms=ttft(count, 0, 0, 0))
            )
        rows.append(sample(second, "", rejections=3 if count else 0))
    return table_of("telemetry.requests", rows)


@pytest.fixture
def watch() -> Watch:
    made = Watch([POLICY])
    made.samples(samples())
    made.tick(tick(20, ScalingAction.SCALE_UP, 2, 5))
    made.tick(tick(25, ScalingAction.HOLD, 5, 5))
    return made


def standing(watch: Watch) -> Standing:
    return Standing(
        done_s=30, seconds=120, phase="burst", now_s=T + 31, behind_s=watch.behind_s, endpoints=watch.standings()
    )


def test_rates_and_percentiles_are_of_the_last_settled_seconds(watch: Watch) -> None:
    (one,) = watch.standings()
    assert OVER_S + SETTLED_S < SECONDS - 10
    assert (one.requests_per_s, one.in_flight, one.slo_ms) == (13.0, 43.0, 500.0)
    assert one.ttft_p95_ms == pytest.approx(95.0)
    assert one.newest is not None
    assert one.changed is not None
    assert (one.newest.at_s, one.changed.at_s) == (T + 25, T + 20)


def test_how_far_behind_it_is_is_the_worst_that_was_seen(watch: Watch) -> None:
    watch.look(T + 40)
    watch.look(T + 35)
    assert (watch.behind.samples_s, watch.behind.decisions_s) == (10, 15)


def test_nothing_is_known_at_first() -> None:
    (one,) = Watch([POLICY]).standings()
    assert (one.requests_per_s, one.in_flight, one.ttft_p95_ms, one.newest) == (None, None, None, None)
    shown = on_terminal(Standing(done_s=0, seconds=9, phase="x", now_s=T, behind_s=0.0, endpoints=[one]), 150)
    assert "nothing was decided yet" in shown


@pytest.mark.parametrize("width", [80, 150])
def test_a_terminal_shows_each_endpoint_in_a_line(watch: Watch, width: int) -> None:
    shown = on_terminal(standing(watch), width)
    (row,) = [line for line in shown.splitlines() if line.startswith("burst ") and "95 / 500" in line]
    assert row.split()[:6] == ["burst", "13", "43", "5", "1", "5"]
    assert "08:00:20 scale_up at 20" in shown, "the last change, in UTC"
    assert "30 of 120 s" in shown
    assert max(map(len, shown.splitlines())) <= width


def test_a_machine_that_is_too_busy_is_told_while_it_runs(watch: Watch) -> None:
    watch.look(T + 31)
    assert "behind" not in on_terminal(standing(watch), 100)
    watch.look(T + 90)
    assert "samples are 60 s behind" in on_terminal(standing(watch), 100)


def on_terminal(shown: Standing, width: int) -> str:
    """The last picture, without colours."""
    terminal = Console(file=io.StringIO(), force_terminal=True, width=width, height=40)
    with open_screen(terminal) as screen:
        screen.show_standing(shown)
    assert isinstance(terminal.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", terminal.file.getvalue())


def test_where_no_terminal_is_changes_are_told_and_minutes(watch: Watch) -> None:
    file = io.StringIO()
    with open_screen(Console(file=file, width=PLAIN_WIDTH)) as screen:
        screen.show_tick(tick(20, ScalingAction.SCALE_UP, 2, 5))
        screen.show_tick(tick(25, ScalingAction.HOLD, 5, 5))
        for _ in range(3):
            screen.show_standing(standing(watch))
    assert file.getvalue().splitlines() == [
        "08:00:20 UTC burst: scale_up at 20",
        "08:00:31 UTC phase burst",
        "08:00:31 UTC burst: requests/s 13, in flight 43, ready 5, starting 1, desired 5, TTFT p95 / SLO, ms 95 / 500",
    ]
