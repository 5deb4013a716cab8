"""What the user sees while it runs: a live table on a terminal, plain lines anywhere else."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column, Table
from rich.text import Text

from headrace.demo.console import say
from headrace.demo.feed import Tick
from headrace.load import LoadCounts
from records.enums import ScalingAction
from records.signals import EndpointSignal

TICKS_SHOWN = 12
WIDE = 120
"""Columns from which on a tick says why in its own line; below, that stands under the table, once an endpoint."""

_HEADERS = ("UTC", "endpoint", "in flight", "queue", "decision", "reason", "bound", "why")
_ECHO_WIDTH = len("^C") + 1
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
        decided = f"{decision}, {reason}{_limited(bound)}: {why}"
        say(self._console, f"{at} UTC {endpoint}: in flight {in_flight}, queue {queue}: {decided}")

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
        ticks = sorted(self._ticks, key=lambda tick: (tick.endpoint, tick.at_s))
        ticked = _wide(ticks) if self._console.width >= WIDE else _narrow(ticks)
        # The cursor stays behind the bar: room for the ^C that a terminal puts there.
        return Group(ticked, Constrain(self._progress, self._console.width - _ECHO_WIDTH))


def _wide(ticks: Sequence[Tick]) -> RenderableType:
    table = _table(_HEADERS, ticks)
    table.expand = True
    table.columns[-1].overflow = "ellipsis"
    table.columns[-1].ratio = 1
    return table


def _narrow(ticks: Sequence[Tick]) -> RenderableType:
    newest = {tick.endpoint: _cells(tick) for tick in ticks}
    told = [Text(f"{endpoint}{_limited(bound)}: {why}", style="dim") for endpoint, (*_, bound, why) in newest.items()]
    return Group(_table(_HEADERS[:-2], ticks), *told)


def _table(headers: Sequence[str], ticks: Sequence[Tick]) -> Table:
    """The first cells of each tick, one line a tick."""
    table = Table(*(Column(name, no_wrap=True) for name in headers), box=None, pad_edge=False)
    for tick in ticks:
        cells = _cells(tick)[: len(headers)]
        table.add_row(*(Text(cell) for cell in cells), style=_STYLES[tick.decision.action])
    return table


def _limited(bound: str) -> str:
    return f" (bound: {bound})" if bound else ""


def _cells(tick: Tick) -> tuple[str, ...]:
    """One tick under _HEADERS."""
    signal, decision = tick.signal, tick.decision
    change = "" if decision.action is ScalingAction.HOLD else f" {decision.current} to {decision.desired}"
    held = f" {decision.current}" if decision.action is ScalingAction.HOLD else ""
    return (
        f"{datetime.fromtimestamp(tick.at_s, UTC):%H:%M:%S}",
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
