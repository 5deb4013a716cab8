"""Cross-checks of an endpoint's samples against each other: what cannot be true makes a window's values suspect.

Each check looks at the seconds before a tick, and what it finds depends on the buckets alone, so that a rebuilt worker
finds the same. Findings are kept from tick to tick; a sample that changes a second already looked at has them found
anew.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from streams.endpoints.block_store import sum_in_order
from streams.endpoints.matrices import Seconds
from streams.endpoints.ticks import TICK_S, tick_at_or_before
from streams.windows.grid import Grid

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]

SPAN_S = 5
"""Arrivals and departures are compared with the change of what is inside over spans of this length (decisions.md)."""
TOLERANCE_MIN = 2.0
TOLERANCE = 0.1
QUEUE_S = 15
"""A queue is suspiciously constant after three spans."""
ALTERNATING_S = 10
ALTERNATING_RATIO = 3.0
ALTERNATING_SPREAD = 0.2
ALTERNATING_MIN = 20.0
"""Two sequences are told apart from small counts' noise above this many a second."""
REACH_S = QUEUE_S + TICK_S
"""Seconds before a tick that a check may read, rounded up to whole ticks."""


TOGETHER_MIN = 4
"""Fewer ticks are looked at one by one."""

Scalar = TypeVar("Scalar", bound=np.generic)


class Check(StrEnum):
    """The cross-checks, as a value's `check` names them."""

    CONSERVATION = "conservation"
    ALL_ZERO = "all_zero_while_router_counts"
    COMPLETIONS_WITHOUT_REPLICA = "completions_without_replica"
    CONSTANT_QUEUE = "constant_queue"
    ALTERNATING = "alternating_counters"
    TWO_PROCESSES = "two_processes"
    CLOCK = "clock_unsteady"


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` failed in a span of seconds that ends with the one before `tick`."""

    tick: int
    check: Check


@dataclass(slots=True)
class CheckBook:
    """What was found so far; `looked_to` is the last tick looked at, 0 before the first."""

    looked_to: int = 0
    findings: tuple[Finding, ...] = ()
    quarantined: frozenset[tuple[str, str, str]] = field(default_factory=frozenset)

    def doubt(self, at_s: int) -> None:
        """A second that was looked at has changed: what was found after it is to be found anew."""
        self.looked_to = min(self.looked_to, at_s // TICK_S * TICK_S)

    def is_clean(self, tick: int) -> bool:
        """Whether `tick` was looked at, and nothing was found that is still remembered."""
        return self.looked_to == tick and not self.findings and not self.quarantined

    def look(
        self, views: "Views", tick: int, oldest_s: int, quarantined: frozenset[tuple[str, str, str]]
    ) -> tuple[Finding, ...]:
        """All findings at `tick` of checks whose seconds lie from `oldest_s` on."""
        if quarantined != self.quarantined:
            self.quarantined = quarantined
            self.looked_to = 0
        first = max(self.looked_to + TICK_S, oldest_s + REACH_S)
        kept = [one for one in self.findings if one.tick < first] if self.looked_to else []
        begun = tick_at_or_before(views.near.begun_s) + TICK_S
        for at in doubtful_ticks(views, range(min(tick, max(first, begun)), tick + TICK_S, TICK_S)):
            kept += [Finding(at, check) for check in failing(views, at)]
        self.looked_to = tick
        self.findings = tuple(one for one in kept if one.tick >= oldest_s + REACH_S)
        return self.findings


@dataclass(frozen=True, slots=True)
class Views:
    """The grid of the last REACH_S as the signals see it, how to read one of other seconds, and how to see only one
    kind of source; null where there is no router beside an engine."""

    near: Grid
    read: Callable[[int, int], Grid]
    engines: Callable[[int, int], Grid] | None
    routers: Callable[[int, int], Grid] | None


@dataclass(frozen=True, slots=True)
class _Spans:
    """The REACH_S before each tick from the first one of a grid on: matrices (replicas, ticks, seconds) as a grid's,
    not copied."""

    grid: Grid

    @property
    def heard(self) -> Mask:
        return self._spans(self.grid.heard)

    @property
    def inflight(self) -> Matrix:
        return self._spans(self.grid.inflight)

    @property
    def arrivals(self) -> Matrix:
        return self._spans(self.grid.arrivals)

    def field(self, name: str) -> Matrix:
        return self._spans(self.grid.field(name))

    def present(self, field: str) -> Mask:
        return self._spans(self.grid.present(field))

    def _spans(self, matrix: NDArray[Scalar]) -> NDArray[Scalar]:
        return sliding_window_view(matrix, REACH_S, axis=1)[:, ::TICK_S]


def doubtful_ticks(views: Views, ticks: range) -> Iterable[int]:
    """Those of `ticks`, of which the last is the end of `views.near`, at which a check may fail: after a take-over all
    of a window's are looked at together."""
    if len(ticks) < TOGETHER_MIN or views.engines is not None:
        return ticks
    spans = _Spans(views.read(ticks[0] - REACH_S, ticks[-1]))
    doubtful = breaks_conservation(spans) | has_stuck_queue(spans) | alternates(spans)
    return [ticks[place] for place in np.flatnonzero(doubtful.any(axis=0)).tolist()]


def failing(views: Views, tick: int) -> Iterable[Check]:
    """The checks that fail just before `tick`."""
    grid = views.near if tick == views.near.end_s else views.read(tick - REACH_S, tick)
    if not len(grid.replicas):
        return ()
    found = []
    broken = breaks_conservation(grid)
    if broken.any():
        # A replica that restarted took its requests with it.
        restarted = {one.replica for one in grid.restarts if tick - SPAN_S - 1 < one.at_s < tick}
        if any(grid.replicas[index] not in restarted for index in np.flatnonzero(broken).tolist()):
            found.append(Check.CONSERVATION)
    if has_stuck_queue(grid).any():
        found.append(Check.CONSTANT_QUEUE)
    if alternates(grid).any():
        found.append(Check.ALTERNATING)
    if views.engines is not None and views.routers is not None and _all_zero(views.engines, views.routers, tick):
        found.append(Check.ALL_ZERO)
    return found


def breaks_conservation(grid: Seconds) -> Mask:
    """bool (replicas,), or (replicas, ticks) of spans: arrivals - completions - errors - aborted differs from the
    change of what is inside.

    `running` and `waiting` are means over a second where a reporter averages, and its last reading where it does not;
    the flow between two of them is counted both ways, and only what fits neither fails.
    """
    span = slice(-SPAN_S - 1, None)
    inflight = grid.inflight[..., span]
    arrivals = grid.arrivals[..., span]
    left = grid.field("completions")[..., span] + grid.field("errors")[..., span] + grid.field("aborted")[..., span]
    net = arrivals - left
    change = inflight[..., -1] - inflight[..., 0]
    by_readings = _total(net[..., 1:])
    gap = np.abs(by_readings - change)
    broken: Mask = gap > TOLERANCE_MIN
    if not broken.any():
        return broken
    by_means = by_readings + (net[..., 0] - net[..., -1]) / 2
    volume = np.maximum(_total(arrivals[..., 1:]), _total(left[..., 1:]))
    volume = np.maximum(volume, np.maximum(inflight[..., 0], inflight[..., -1]))
    allowed = np.maximum(TOLERANCE_MIN, TOLERANCE * volume)
    broken &= np.minimum(gap, np.fmin(np.abs(by_means - change), np.inf)) > allowed
    return broken


def may_be_stuck(now: Matrix, before: Matrix) -> Mask:
    """Whether each queue may be stuck, by its length in the last second, and QUEUE_S - 1 before."""
    mask: Mask = (now > 0) & (now == before)
    return mask


def has_stuck_queue(grid: Seconds) -> Mask:
    """As `breaks_conservation`: a queue stays the same although work is done that nothing replaces, or although nothing
    runs.

    A queue that is refilled as fast as it drains is not stuck, so where arrivals are not counted but follow from
    completions only an idle replica gives it away.
    """
    waiting = grid.field("waiting")[..., -QUEUE_S:]
    constant: Mask = may_be_stuck(waiting[..., -1], waiting[..., 0])
    if not constant.any():
        return constant
    constant &= np.logical_and.reduce(waiting == waiting[..., :1], axis=-1)
    if not constant.any():
        return constant
    arrivals = _total(grid.arrivals[..., -QUEUE_S:])
    completions = _total(grid.field("completions")[..., -QUEUE_S:])
    running = grid.field("running")[..., -QUEUE_S:]
    drains = (completions > 0) & (arrivals == 0)
    idle = (running == 0).all(axis=-1) & (arrivals == 0) & (completions == 0)
    constant &= drains | idle
    return constant


def alternates(grid: Seconds) -> Mask:
    """As `breaks_conservation`: counts jump to and fro between two steady sequences, as two counters under one name
    do."""
    names = ("input_tokens", "output_tokens", "completions")
    by_second = np.array([grid.field(name)[..., -ALTERNATING_S:] for name in names])
    # Each (counts, 5, replicas ..): numpy reduces long rows faster. A first look, since nearly never does every second
    # differ so much from the next.
    counts = np.ascontiguousarray(np.moveaxis(by_second, -1, 1))
    even, odd = counts[:, ::2], counts[:, 1::2]
    rises = odd >= np.maximum(ALTERNATING_RATIO * even, ALTERNATING_MIN)
    falls = even >= np.maximum(ALTERNATING_RATIO * odd, ALTERNATING_MIN)
    jumps: Mask = np.logical_or.reduce(rises.all(axis=1) | falls.all(axis=1), axis=0)
    if jumps.any():
        jumps[jumps] = _are_two_sequences(by_second[:, jumps])
    return jumps


def _are_two_sequences(counts: NDArray[np.float64]) -> Mask:
    """bool (n,), of counts (fields, n, ALTERNATING_S): whether those of every other second are steady, and far from
    those between, which are steady too."""
    # Each (fields, n, 2): of every other second, and of those between.
    pairs = counts.reshape(*counts.shape[:2], -1, 2)
    most, least = np.maximum.reduce(pairs, axis=2), np.minimum.reduce(pairs, axis=2)
    low, high = np.minimum.reduce(most, axis=2), np.maximum.reduce(least, axis=2)
    apart = (low > 0) & (high >= ALTERNATING_MIN) & (high >= ALTERNATING_RATIO * low)
    steady = (most - least <= ALTERNATING_SPREAD * most).all(axis=2)
    found: Mask = (apart & steady).any(axis=0)
    return found


def _total(seconds: Matrix) -> Matrix:
    """The sums of matrices (.., rows, seconds), from the first second to the last."""
    return sum_in_order(np.swapaxes(seconds, -1, -2))


def _all_zero(engines: Callable[[int, int], Grid], routers: Callable[[int, int], Grid], tick: int) -> bool:
    """Whether all engines say zero in one second and the next although the routers count arrivals in the first.

    A request that arrives at a router late in a second reaches its engine in the next.
    """
    first_s = tick - TICK_S - 1
    engine = engines(first_s, tick)
    if not len(engine.replicas):
        return False
    names = ("arrivals", "completions", "running", "waiting", "input_tokens", "output_tokens")
    values = np.stack([engine.field(name) for name in names])
    known = ~np.isnan(values)
    speaks = known.any(axis=(0, 1))
    zero = speaks & (np.where(known, values, 0.0) == 0).all(axis=(0, 1))
    router = routers(first_s, tick)
    counted = np.nansum(router.field("arrivals"), axis=0) + np.nan_to_num(router.gateway("arrivals"))
    return bool((zero[:-1] & zero[1:] & (counted[:-1] > 0)).any())
