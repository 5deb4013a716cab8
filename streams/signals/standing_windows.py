"""Endpoints of one kind that stand at the same tick, read together: arrays have a row for each of their replicas."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streams.endpoints.block_store import blocks_of
from streams.endpoints.cross_checks import (
    ALTERNATING_S,
    QUEUE_S,
    SPAN_S,
    alternates,
    breaks_conservation,
    has_stuck_queue,
    may_be_stuck,
)
from streams.endpoints.endpoint_state import EndpointState
from streams.endpoints.matrices import matrix_of
from streams.endpoints.standing import Kind, Standing
from streams.endpoints.ticks import TICK_S
from streams.windows.plain import PlainSeconds
from streams.windows.stretch import starts_of

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

NEAR_S = max(ALTERNATING_S, SPAN_S + 2)
"""Seconds before a tick that are read of all: the longest that a cross-check looks at, but for a queue's. Conservation
needs the second before its span, and arrivals that follow from what is inside the one before that."""


class Members:
    """Endpoints of one `kind`, none twice, each with what it stands on; `replicas` (endpoints,) says how many rows each
    has, `starts` where they begin."""

    def __init__(self, kind: Kind, states: Sequence[EndpointState], standings: Sequence[Standing]) -> None:
        self.kind, self.states, self.standings = kind, states, standings
        self.rows: Ints = np.concatenate([standing.series.rows for standing in standings])
        self.replicas = np.array([len(standing.series.rows) for standing in standings], np.int64)
        self.starts = starts_of(self.replicas)
        ends = np.cumsum(self.replicas).tolist()
        self.slices = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def __len__(self) -> int:
        return len(self.states)

    def take(self, chosen: Mask) -> "Members":
        """Those that `chosen` (endpoints,) marks; at least one."""
        kept = np.flatnonzero(chosen).tolist()
        return Members(self.kind, [self.states[at] for at in kept], [self.standings[at] for at in kept])

    def total(self, counts: Ints) -> Ints:
        """The sum of each endpoint's rows."""
        added: Ints = np.add.reduceat(counts, self.starts)
        return added

    def any(self, mask: Mask) -> Mask:
        """Whether any of each endpoint's rows is set."""
        found: Mask = np.logical_or.reduceat(mask, self.starts)
        return found


def healthy_members(members: Members, tick: int) -> tuple[Members | None, PlainSeconds | None]:
    """Those of which every replica spoke in the last second and no cross-check fails, and their last NEAR_S."""
    near = _near(members, tick)
    doubtful = ~near.heard[:, -1] | breaks_conservation(near) | alternates(near) | _stuck(members, near)
    if not doubtful.any():
        return members, near
    healthy = ~members.any(doubtful)
    if not healthy.any():
        return None, None
    members = members.take(healthy)
    return members, _near(members, tick)


def _near(members: Members, tick: int) -> PlainSeconds:
    kind = members.kind
    return kind.requests.plain_reader.seconds(members.rows, kind.fields, range(tick - NEAR_S, tick))


def _stuck(members: Members, near: PlainSeconds) -> Mask:
    reader, tick = members.kind.requests.plain_reader, near.end_s
    before = reader.seconds(members.rows, ("waiting",), range(tick - QUEUE_S, tick - QUEUE_S + 1))
    stuck = may_be_stuck(near.field("waiting")[:, -1], before.field("waiting")[:, 0])
    at = np.flatnonzero(stuck)
    if len(at):
        fields = ("waiting", "running", "arrivals", "completions", "errors", "aborted")
        longer = reader.seconds(members.rows[at], fields, range(tick - QUEUE_S - 1, tick))
        stuck[at] = has_stuck_queue(longer)
    return stuck


class StandingWindows:
    """The blocks of healthy members, moved on to a tick; `newest_heard` (rows, seconds) says who spoke in the last
    block."""

    def __init__(self, members: Members, near: PlainSeconds) -> None:
        self.members, self.tick = members, near.end_s
        self.newest_heard: Mask = near.heard[:, -TICK_S:]
        books = [state.blocks for state in members.states]
        self.lanes: Ints = np.concatenate([book.lanes for book in books])
        self.ready_lanes = self.lanes
        if any(book.ready_lanes is not book.lanes for book in books):
            self.ready_lanes = np.concatenate([book.ready_lanes for book in books])
        self._move_on(near)
        for book, standing in zip(books, members.standings, strict=True):
            book.move_to(self.tick, standing.roster)

    def _move_on(self, near: PlainSeconds) -> None:
        """All replicas were ready in the last block."""
        kind = self.members.kind
        newest = [matrix_of(near, name)[:, -TICK_S:] for name in kind.names]
        sums, counts = blocks_of(newest, None)
        kind.store.write(kind.names, self.tick - TICK_S, self.lanes, sums, counts)
        if self.ready_lanes is not self.lanes:
            kind.store.write(kind.names, self.tick - TICK_S, self.ready_lanes, sums, counts)

    @cached_property
    def ready_s(self) -> Ints:
        """(rows,): since when each replica is ready."""
        found: Ints = np.concatenate([standing.roster.ready_s for standing in self.members.standings])
        return found

    @cached_property
    def observed_from_s(self) -> Ints:
        """(endpoints,)."""
        return np.array([state.observed_from_s for state in self.members.states], np.int64)


class StandingWindow:
    """One window of a tick: `observed_s` (endpoints,) is how much of it has been read, `expected` (rows,) how many of
    its seconds each replica was ready, `seconds` (endpoints,) their sums."""

    def __init__(self, windows: StandingWindows, length_s: int, names: Sequence[str]) -> None:
        self.members, self.length_s = windows.members, length_s
        first_s = windows.tick - length_s
        self.observed_s: Ints = np.minimum(length_s, np.maximum(1, windows.tick - windows.observed_from_s))
        self.expected: Ints = length_s - np.minimum(np.maximum(windows.ready_s - first_s, 0), length_s)
        self.seconds = self.members.total(self.expected)
        self._place = {name: place for place, name in enumerate(names)}
        store, blocks = self.members.kind.store, length_s // TICK_S
        self._sums, self._counts = store.read(names, first_s, blocks, windows.lanes)
        self._ready = self._sums, self._counts
        if windows.ready_lanes is not windows.lanes:
            self._ready = store.read(names, first_s, blocks, windows.ready_lanes)

    @cached_property
    def observed_of_row(self) -> Ints:
        """(rows,): as `observed_s`."""
        return np.repeat(self.observed_s, self.members.replicas)

    def added(self, name: str) -> tuple[Matrix, Ints]:
        """(rows,): sums and numbers of the known seconds of a field."""
        place = self._place[name]
        return self._sums[place], self._counts[place]

    def ready(self, name: str) -> tuple[Matrix, Ints]:
        """As `added`, of seconds in which each was ready."""
        place = self._place[name]
        return self._ready[0][place], self._ready[1][place]

    def coverage(self, name: str) -> Matrix:
        """(endpoints,): the share of the ready seconds in which a field is known."""
        known = self.members.total(self.ready(name)[1])
        return np.where(self.seconds > 0, known / np.maximum(self.seconds, 1), 0.0)
