"""What the user sees while it runs: a live table on a terminal, plain lines anywhere else."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from headrace.demo.feed import Tick
from headrace.load import LoadCounts
from records.enums import ScalingAction
from records.signals import EndpointSignal

TICKS_SHOWN = 12
PLAIN_WIDTH = 160
"""Columns of tables where there is no terminal to ask."""

_HEADERS = ("time", "endpoint", "in flight", "queue", "decision", "reason", "bound", "why")
_STYLES = {ScalingAction.SCALE_UP: "bold red", ScalingAction.SCALE_DOWN: "bold green", ScalingAction.HOLD: ""}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far the show is: seconds, the phase's name, and what came of each endpoint's load so far."""

    done_s: float
    seconds: float
    phase: str
    counts: Mapping[str, LoadCounts]


class Screen(Protocol):
    """Where the demo tells what happens."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def show_tick(self, tick: Tick) -> None: ...

    def show_standing(self, standing: Standing) -> None: ...


def open_console() -> Console:
    """Standard output; where that is no terminal, with a fixed width."""
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


def say(console: Console, text: str) -> None:
    """Print as it is: no markup, no colours of guessed values, no wrapping of paths and commands."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def open_screen(console: Console) -> Iterator[Screen]:
    """The screen that fits the console, until the context is left."""
    if not console.is_terminal:
        yield _PlainScreen(console)
        return
    screen = _LiveScreen(console)
    with Live(console=console, get_renderable=screen.render, refresh_per_second=4):
        yield screen


class _PlainScreen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._phase = ""

    def say(self, text: str) -> None:
        say(self._console, text)

    def show_tick(self, tick: Tick) -> None:
        at, endpoint, in_flight, queue, decision, reason, bound, why = _cells(tick)
        limited = f" (bound: {bound})" if bound else ""
        say(
            self._console,
            f"{at} {endpoint}: in flight {in_flight}, queue {queue}: {decision}, {reason}{limited}: {why}",
        )

    def show_standing(self, standing: Standing) -> None:
        if standing.phase != self._phase:
            self._phase = standing.phase
            say(self._console, f"phase {standing.phase}: {_told(standing)}")


class _LiveScreen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._ticks: deque[Tick] = deque(maxlen=TICKS_SHOWN)
        self._progress = Progress(
            TextColumn("{task.description:10}"), BarColumn(None), TextColumn("{task.fields[told]}")
        )
        self._task = self._progress.add_task("starting", total=1.0, told="")

    def say(self, text: str) -> None:
        say(self._console, text)

    def show_tick(self, tick: Tick) -> None:
        self._ticks.append(tick)

    def show_standing(self, standing: Standing) -> None:
        self._progress.update(
            self._task,
            description=standing.phase,
            completed=standing.done_s,
            total=standing.seconds,
            told=_told(standing),
        )

    def render(self) -> RenderableType:
        table = Table(*_HEADERS, box=None, pad_edge=False, expand=True)
        table.columns[-1].no_wrap = True
        table.columns[-1].overflow = "ellipsis"
        table.columns[-1].ratio = 1
        for tick in self._ticks:
            table.add_row(*(Text(cell) for cell in _cells(tick)), style=_STYLES[tick.decision.action])
        return Group(table, self._progress)


def _cells(tick: Tick) -> tuple[str, ...]:
    """One tick under _HEADERS."""
    signal, decision = tick.signal, tick.decision
    change = "" if decision.action is ScalingAction.HOLD else f" {decision.current} to {decision.desired}"
    held = f" {decision.current}" if decision.action is ScalingAction.HOLD else ""
    return (
        f"{datetime.fromtimestamp(tick.at_s, UTC).astimezone():%H:%M:%S}",
        tick.endpoint,
        _value(signal, "inflight_requests"),
        _value(signal, "queue_depth"),
        f"{decision.action.value}{change}{held}",
        decision.reason.value,
        "" if decision.bound is None else decision.bound.value,
        decision.detail.partition(";")[0],
    )


def _value(signal: EndpointSignal, metric: str) -> str:
    """A metric over the shorter window, or the state that keeps it from having a value."""
    known = signal.windows[min(signal.windows, key=int)].get(metric)
    if known is None:
        return "-"
    return known.state.value if known.value is None else f"{known.value:.1f}"


def _told(standing: Standing) -> str:
    return "; ".join(
        f"{name} {counts.sent} sent, {counts.in_flight} in flight" for name, counts in standing.counts.items()
    )
