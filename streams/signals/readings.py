"""What one tick reads of one endpoint: its grid, which replicas are ready, and what is not to be trusted."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from records.enums import ReplicaState
from records.policy import EndpointPolicy
from streams.endpoints.blocks import BlockBook
from streams.endpoints.cross_checks import REACH_S, Check, Finding, Views
from streams.endpoints.endpoint_state import STALE_S, EndpointState
from streams.endpoints.endpoint_windows import EndpointWindow
from streams.endpoints.gpus import GpuWindows
from streams.endpoints.matrices import Matrix, matrix_of
from streams.endpoints.ready import ReadySeconds, Roster, make_roster
from streams.endpoints.tallies import Tally, tally
from streams.endpoints.ticks import TICK_S
from streams.windows.grid import Grid
from streams.windows.histograms import MergedHistogram
from streams.windows.windows import Windows

_NO_SERVER = frozenset(
    {
        ReplicaState.REQUESTED,
        ReplicaState.UNSCHEDULABLE,
        ReplicaState.STARTING,
        ReplicaState.GONE,
        ReplicaState.FAILED,
    }
)


class WindowReading:
    """One window of a tick: the seconds in which replicas were ready, what their fields add up to, and the newest
    cross-check that failed in it.

    `observed_s` is how much of it has been read: the seconds before an endpoint's first record are unknown, not zero.
    """

    def __init__(self, tick: "TickReading", length_s: int) -> None:
        self.tick, self.length_s = tick, length_s
        self.first_s = tick.tick - length_s
        self._is_near = length_s <= REACH_S
        self.roster = tick.near_roster if self._is_near or tick.blocks is not None else tick.roster
        self.seconds = ReadySeconds(self.roster, self.first_s, tick.tick)
        self.observed_s = min(length_s, max(1, tick.tick - tick.state.observed_from_s))
        self._blocks = tick.blocks if not self._is_near and length_s % TICK_S == 0 else None
        self._tallies: dict[str, Tally] = {}
        self._histograms: dict[str, MergedHistogram] = {}

    @cached_property
    def grid(self) -> Grid:
        whole = self.tick.near if self._is_near else self.tick.grid
        return whole if self.first_s == whole.first_s else whole.since(self.first_s)

    @property
    def observed_share(self) -> float:
        return self.observed_s / self.length_s

    @cached_property
    def failed_check(self) -> Check | None:
        return self.tick.failed_check(self)

    def tally(self, name: str) -> Tally:
        """A field's sums by replica; `name` as in `matrix_of`."""
        found = self._tallies.get(name)
        if found is None:
            found = self._tallies[name] = self._add_up(name)
        return found

    def _add_up(self, name: str) -> Tally:
        if self._blocks is None:
            return tally(matrix_of(self.grid, name), self.seconds)
        return self._blocks.window(name, self.length_s // TICK_S, self.tick.read)

    def gateway(self, name: str) -> Matrix:
        """float64 (seconds,), NaN = unknown: a field of requests that no replica has; none of them runs, so what waits
        is all that is in flight where `running` is not told."""
        if name != "inflight":
            return self.grid.gateway(name)
        running = self.grid.gateway("running")
        return np.where(np.isnan(running), 0.0, running) + self.grid.gateway("waiting")

    def histogram(self, field: str) -> MergedHistogram:
        found = self._histograms.get(field)
        if found is None:
            found = None
            if self._blocks is not None:
                found = self._blocks.histogram(field, self.length_s // TICK_S, self.tick.read)
            if found is None:
                found = self.grid.histogram(field)
            self._histograms[field] = found
        return found


class TickReading:
    """Everything that the signal of one tick is made of; read before the windows change again.

    Most of it is read of the last seconds alone (`near`): what is far back lies far apart in memory, and is there in
    `blocks` already. They are null where an endpoint is not plain (`Grid.is_plain`), or a replica of its windows was
    silent for the last seconds; the whole `grid` is then read.
    """

    def __init__(self, state: EndpointState, window: EndpointWindow, tick: int, offset: int) -> None:
        """`offset`: of telemetry.requests, what is before it had been read."""
        self.state, self.tick = state, tick
        self._window = window
        self.quarantined = state.sources.quarantined(offset)
        self.near = self.read(tick - REACH_S, tick)
        version = window.requests.version(state.endpoint)
        is_kept = self.near.is_plain and state.blocks.can_follow(self.near, version, state.span_s)
        if state.blocks.changed_s < self.near.first_s:
            # Late samples further back may be of replicas that were silent since.
            is_kept = is_kept and self.grid.replicas == self.near.replicas
        is_plain = is_kept or (self.near.is_plain and self.grid.replicas == self.near.replicas)
        self._learn_replicas(self.near if is_plain and is_kept else self.grid)
        ready = [name for name, known in state.supply.replicas.items() if known.state is ReplicaState.READY]
        patience_s = state.policy.patience_seconds
        self.ready: tuple[str, ...] = tuple(sorted(ready))
        self.silent_since_s = {name: state.unheard_since_s(name) for name in self.ready}
        self.unheard = tuple(name for name in self.ready if tick - self.silent_since_s[name] >= patience_s)
        self.counted = tuple(name for name in self.ready if name not in self.unheard) if self.unheard else self.ready
        self.near_roster = make_roster(self.near.replicas, state.supply.replicas, self.counted)
        self.blocks = self._blocks(version) if is_plain else None
        self._windows: dict[int, WindowReading] = {}
        self.findings: tuple[Finding, ...] = state.checks.look(
            self._views(), tick, tick - state.span_s, self.quarantined
        )

    def read(self, first_s: int, end_s: int) -> Grid:
        if first_s == self.tick - self.state.span_s and end_s == self.tick:
            return self.grid
        return self._window.requests.grid(self.state.endpoint, first_s, end_s, self.quarantined)

    @cached_property
    def grid(self) -> Grid:
        """All seconds that a window or a check may ask for."""
        requests, tick = self._window.requests, self.tick
        return requests.grid(self.state.endpoint, tick - self.state.span_s, tick, self.quarantined)

    @cached_property
    def roster(self) -> Roster:
        return make_roster(self.grid.replicas, self.state.supply.replicas, self.counted)

    def _blocks(self, version: int) -> BlockBook:
        """The endpoint's blocks, moved on to this tick."""
        book, span_s = self.state.blocks, self.state.span_s
        if not book.can_follow(self.near, version, span_s) or not book.follow(self.near, self.near_roster, self.read):
            book.begin(self.grid, version, self.near_roster)
        return book

    @property
    def requests(self) -> Windows:
        return self._window.requests

    @property
    def policy(self) -> EndpointPolicy:
        return self.state.policy

    @property
    def gpus(self) -> GpuWindows | None:
        return self._window.gpus

    def window(self, length_s: int) -> WindowReading:
        found = self._windows.get(length_s)
        if found is None:
            found = self._windows[length_s] = WindowReading(self, length_s)
        return found

    def close(self) -> None:
        """Let go of the windows, which hold this: such a circle, with all grids in it, would stay in memory until
        Python looks for circles."""
        self._windows.clear()

    @property
    def recent(self) -> WindowReading:
        """The last 300 s: how far back something must have been heard to be stale, and what means are taken over."""
        return self.window(STALE_S)

    @property
    def e2e_recent(self) -> MergedHistogram:
        """`e2e_ms` over the last 300 s."""
        return self.recent.histogram("e2e_ms")

    def failed_check(self, reading: WindowReading) -> Check | None:
        """The newest cross-check that failed in a window, null where all held."""
        for finding in reversed(self.findings):
            if finding.tick > reading.first_s:
                return finding.check
        if self.near.is_plain:
            return None
        grid = reading.grid
        if any(pair.replica in self.counted or not pair.replica for pair in grid.two_processes):
            return Check.TWO_PROCESSES
        if self.quarantined and any(name in self.counted and not _is_heard(grid, name) for name in grid.quarantined):
            return Check.CLOCK
        if grid.has_gateway and self._serves_without_replica(grid):
            return Check.COMPLETIONS_WITHOUT_REPLICA
        return None

    def _serves_without_replica(self, grid: Grid) -> bool:
        """Whether somebody completes requests although there is no replica, and there was none all the while."""
        completions = grid.gateway("completions")
        if not np.nansum(completions) > 0:
            return False
        last = grid.first_s + int(np.flatnonzero(completions > 0)[-1])
        return not any(
            known.state not in _NO_SERVER or known.since_s > last for known in self.state.supply.replicas.values()
        )

    def _learn_replicas(self, grid: Grid) -> None:
        """Let the supply know of replicas that only samples tell of."""
        state = self.state
        if len(grid.replicas) and grid is self.near and grid.heard[:, -1].all() and state.supply.knows(grid.replicas):
            # The steady case: all of them spoke a moment ago, and none is new.
            state.last_heard.update(dict.fromkeys(grid.replicas, self.tick - 1))
            return
        heard = _heard(grid)
        state.supply.infer(heard, frozenset(grid.quarantined))
        state.supply.forget_gone(heard, self.tick - state.span_s)
        # What a quarantined source says does not count; that it speaks does.
        spoken = _heard(self._all_sources()) if self.quarantined else heard
        state.note_heard({name: last for name, (_, _, last) in spoken.items()}, self.tick)

    def _all_sources(self) -> Grid:
        requests, tick = self._window.requests, self.tick
        return requests.grid(self.state.endpoint, tick - self.state.span_s, tick)

    def _views(self) -> Views:
        if not self.near.has_routers:
            return Views(self.near, self.read, None, None)
        names = self._window.requests.sources(self.state.endpoint)
        engines = frozenset(name for name in names if name[1] == "engine")
        routers = names - engines
        if not engines or not routers:
            return Views(self.near, self.read, None, None)
        return Views(self.near, self.read, self._only(routers), self._only(engines))

    def _only(self, silenced: frozenset[tuple[str, str, str]]) -> Callable[[int, int], Grid]:
        """Grids of what is neither in `silenced` nor quarantined."""
        requests, endpoint = self._window.requests, self.state.endpoint
        return lambda first_s, end_s: requests.grid(endpoint, first_s, end_s, silenced | self.quarantined)


def _is_heard(grid: Grid, name: str) -> bool:
    return name in grid.replicas and bool(grid.heard[grid.replicas.index(name)].any())


def _heard(grid: Grid) -> dict[str, tuple[str, int, int]]:
    """name -> (epoch, first and last second heard) of the replicas that were heard in the grid."""
    heard = grid.heard
    if not len(heard):
        return {}
    spoke = np.count_nonzero(heard, axis=1).tolist()
    first = (grid.first_s + heard.argmax(axis=1)).tolist()
    last = (grid.end_s - 1 - heard[:, ::-1].argmax(axis=1)).tolist()
    rows = zip(grid.replicas, grid.epochs, spoke, first, last, strict=True)
    return {name: (epoch, begin, end) for name, epoch, count, begin, end in rows if count}
