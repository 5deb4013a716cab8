"""What the user sees while it runs: a live table with a line for each endpoint, plain lines where no terminal is."""

from collections.abc import Iterator, Sequence
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
from records.enums import ScalingAction

WIDE = 130
"""Columns from which on the last decision stands in its endpoint's line; below, it stands under the table."""
BUSY_S = 20.0
PLAIN_EVERY_S = 60
"""Event seconds between two lines of an endpoint where no terminal is."""

_HEADERS = ("endpoint", "requests/s", "in flight", "ready", "starting", "desired", "TTFT p95 / SLO, ms")
_ECHO_WIDTH = len("^C") + 1
_STYLES = {ScalingAction.SCALE_UP: "bold red", ScalingAction.SCALE_DOWN: "bold green", ScalingAction.HOLD: ""}


@dataclass(frozen=True, kw_only=True)
class EndpointStanding:
    """One endpoint now; what is not known yet is None. `changed` is the newest decision that was no hold."""

    name: str
    requests_per_s: float | None
    in_flight: float | None
    ttft_p95_ms: float | None
    slo_ms: float | None
    newest: Tick | None
    changed: Tick | None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far the show is: event seconds of all, the phase in a word, the time that is shown, each endpoint.

    `behind_s`: how far the samples are behind that time.
    """

    done_s: float
    seconds: float
    phase: str
    now_s: float
    behind_s: float
    endpoints: Sequence[EndpointStanding]


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
    """Each decision that changes something, each phase, and each endpoint once a minute."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._phase = ""
        self._next_s = 0.0

    def say(self, text: str) -> None:
        say(self._console, text)

    def show_tick(self, tick: Tick) -> None:
        if tick.decision.action is not ScalingAction.HOLD:
            say(self._console, f"{_clock(tick.at_s)} UTC {tick.endpoint}: {tick.decision.detail}")

    def show_standing(self, standing: Standing) -> None:
        if standing.phase != self._phase:
            self._phase = standing.phase
            say(self._console, f"{_clock(standing.now_s)} UTC phase {standing.phase}")
        if standing.done_s >= self._next_s:
            self._next_s = standing.done_s + PLAIN_EVERY_S
            for one in standing.endpoints:
                _, *cells = _cells(one)
                told = ", ".join(f"{name} {cell}" for name, cell in zip(_HEADERS[1:], cells, strict=True))
                say(self._console, f"{_clock(standing.now_s)} UTC {one.name}: {told}")
            if is_busy(standing.behind_s):
                say(self._console, f"{_clock(standing.now_s)} UTC {_busy(standing)}")


class _LiveScreen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._standing: Standing | None = None
        self._progress = Progress(
            TextColumn("{task.description:16}"), BarColumn(None), TextColumn("{task.fields[told]}")
        )
        self._task = self._progress.add_task("starting", total=1.0, told="")

    def say(self, text: str) -> None:
        say(self._console, text)

    def show_tick(self, tick: Tick) -> None:
        """The table shows the newest by itself."""

    def show_standing(self, standing: Standing) -> None:
        self._standing = standing
        told = f"{_clock(standing.now_s)} UTC, {standing.done_s:.0f} of {standing.seconds:.0f} s"
        self._progress.update(
            self._task, description=standing.phase, completed=standing.done_s, total=standing.seconds, told=told
        )

    def render(self) -> RenderableType:
        # The cursor stays behind the bar: room for the ^C that a terminal puts there.
        bar = Constrain(self._progress, self._console.width - _ECHO_WIDTH)
        if self._standing is None:
            return bar
        endpoints = self._standing.endpoints
        table = _wide(endpoints) if self._console.width >= WIDE else _narrow(endpoints)
        if is_busy(self._standing.behind_s):
            return Group(table, Text(_busy(self._standing), style="yellow"), bar)
        return Group(table, bar)


def is_busy(behind_s: float) -> bool:
    """From so far behind on the windows to go up are empty: what is seen says more of the machine than of Headrace."""
    return behind_s > BUSY_S


def _busy(standing: Standing) -> str:
    return f"samples are {standing.behind_s:.0f} s behind: this machine is too busy for this speed, try a lower --speed"


def _wide(endpoints: Sequence[EndpointStanding]) -> RenderableType:
    table = _table(endpoints, [*_HEADERS, "last change, and why"])
    table.expand = True
    table.columns[-1].ratio = 1
    table.columns[-1].no_wrap = False
    table.columns[-1].justify = "left"
    return table


def _narrow(endpoints: Sequence[EndpointStanding]) -> RenderableType:
    told = [Text(f"{one.name}: {_changed(one)}", style="dim") for one in endpoints]
    return Group(_table(endpoints, _HEADERS), *told)


def _table(endpoints: Sequence[EndpointStanding], headers: Sequence[str]) -> Table:
    first, *others = headers
    columns = [Column(first, no_wrap=True), *(Column(name, no_wrap=True, justify="right") for name in others)]
    table = Table(*columns, box=None, pad_edge=False)
    for one in endpoints:
        cells = (*_cells(one), _changed(one))[: len(headers)]
        action = one.newest.decision.action if one.newest else ScalingAction.HOLD
        table.add_row(*(Text(cell) for cell in cells), style=_STYLES[action])
    return table


def _cells(one: EndpointStanding) -> tuple[str, ...]:
    """One endpoint under _HEADERS."""
    supply = one.newest.signal.supply if one.newest else None
    return (
        one.name,
        _number(one.requests_per_s),
        _number(one.in_flight),
        "-" if supply is None else str(supply.ready),
        "-" if supply is None else str(supply.starting),
        "-" if one.newest is None else str(one.newest.decision.desired),
        f"{_number(one.ttft_p95_ms)} / {_number(one.slo_ms)}",
    )


def _changed(one: EndpointStanding) -> str:
    """The newest change with its words, or why nothing was changed so far."""
    tick = one.changed or one.newest
    return "nothing was decided yet" if tick is None else f"{_clock(tick.at_s)} {tick.decision.detail}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _clock(second: float) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%H:%M:%S}"
