"""What one tick reads of one endpoint: its grid, which replicas are ready, and what is not to be trusted."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from records.enums import ReplicaState
from records.policy import EndpointPolicy
from streams.cross_checks import Check, Finding, Views
from streams.endpoint_state import STALE_S, EndpointState
from streams.endpoint_windows import EndpointWindow
from streams.gpus import GpuWindows
from streams.grid import Grid
from streams.histograms import MergedHistogram
from streams.ready import ReadySeconds, ready_seconds

_NO_SERVER = frozenset(
    {
        ReplicaState.REQUESTED,
        ReplicaState.UNSCHEDULABLE,
        ReplicaState.STARTING,
        ReplicaState.GONE,
        ReplicaState.FAILED,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class WindowReading:
    """One window of a tick: its grid, the seconds in which replicas were ready, and the newest cross-check that failed
    in it.

    `observed_s` is how much of it has been read: the seconds before an endpoint's first record are unknown, not zero.
    """

    tick: "TickReading"
    length_s: int
    grid: Grid
    seconds: ReadySeconds
    failed_check: Check | None
    observed_s: int

    @property
    def observed_share(self) -> float:
        return self.observed_s / self.length_s

    @property
    def first_s(self) -> int:
        return self.grid.first_s


class TickReading:
    """Everything that the signal of one tick is made of; read before the windows change again."""

    def __init__(self, state: EndpointState, window: EndpointWindow, tick: int, offset: int) -> None:
        """`offset`: of telemetry.requests, what is before it had been read."""
        self.state, self.tick = state, tick
        self._window = window
        self.quarantined = state.sources.quarantined(offset)
        self.grid = window.requests.grid(state.endpoint, tick - state.span_s, tick, self.quarantined)
        self._learn_replicas()
        ready = [name for name, known in state.supply.replicas.items() if known.state is ReplicaState.READY]
        patience_s = state.policy.patience_seconds
        self.ready: tuple[str, ...] = tuple(sorted(ready))
        self.unheard = tuple(name for name in self.ready if tick - state.unheard_since_s(name) >= patience_s)
        self.counted = tuple(name for name in self.ready if name not in self.unheard)
        self.findings: tuple[Finding, ...] = state.checks.look(
            self._views(), tick, tick - state.span_s, self.quarantined
        )

    @property
    def policy(self) -> EndpointPolicy:
        return self.state.policy

    @property
    def gpus(self) -> GpuWindows | None:
        return self._window.gpus

    def window(self, length_s: int) -> WindowReading:
        first_s = self.tick - length_s
        grid = self.grid if length_s == self.state.span_s else self.grid.since(first_s)
        seconds = ready_seconds(grid.replicas, self.state.supply.replicas, self.counted, first_s, self.tick)
        observed_s = min(length_s, max(1, self.tick - self.state.observed_from_s))
        return WindowReading(self, length_s, grid, seconds, self._failed_check(length_s, grid), observed_s)

    @cached_property
    def recent(self) -> WindowReading:
        """The last 300 s: how far back something must have been heard to be stale, and what means are taken over."""
        return self.window(STALE_S)

    @cached_property
    def e2e_recent(self) -> MergedHistogram:
        """`e2e_ms` over the last 300 s."""
        return self.recent.grid.histogram("e2e_ms")

    @cached_property
    def gateway_first_s(self) -> int:
        """The first second of the last 300 s in which a router spoke of requests without a replica; the tick if none
        did."""
        heard = self.recent.grid.gateway_heard
        return self.recent.first_s + int(np.argmax(heard)) if heard.any() else self.tick

    def _failed_check(self, length_s: int, grid: Grid) -> Check | None:
        for finding in reversed(self.findings):
            if finding.tick > self.tick - length_s:
                return finding.check
        if any(pair.replica in self.counted or not pair.replica for pair in grid.two_processes):
            return Check.TWO_PROCESSES
        if self.quarantined and any(name in self.counted and not _is_heard(grid, name) for name in grid.quarantined):
            return Check.CLOCK
        if self._serves_without_replica(grid):
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

    def _learn_replicas(self) -> None:
        """Let the supply know of replicas that only samples tell of."""
        state, grid = self.state, self.grid
        heard = _heard(grid)
        kept = frozenset(grid.quarantined)
        state.supply.infer(heard, kept)
        state.supply.forget_gone(heard, self.tick - state.span_s)
        state.note_heard({name: last for name, (_, _, last) in heard.items()}, self.tick)

    def _views(self) -> Views:
        names = self._window.requests.sources(self.state.endpoint)
        engines = frozenset(name for name in names if name[1] == "engine")
        routers = names - engines
        if not engines or not routers:
            return Views(self.grid, None, None)
        return Views(self.grid, self._only(routers), self._only(engines))

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
