"""How long requests last at endpoints that stand: their newest seconds are read together."""

import numpy as np
from numpy.typing import NDArray

from streams.endpoints.ticks import TICK_S
from streams.signals.standing import E2E
from streams.signals.standing_windows import StandingWindows
from streams.windows.grid import Grid
from streams.windows.histograms import EMPTY, MergedHistogram
from streams.windows.plain import HeardSeconds
from streams.windows.stretch import starts_of


class StandingHistograms:
    """`e2e_ms` of the members at a tick; most engines report it, and a few report none."""

    def __init__(self, windows: StandingWindows) -> None:
        self._members, self._tick = windows.members, windows.tick
        members = windows.members
        may_have = members.any(members.kind.requests.plain_reader.may_have(E2E, members.rows))
        self.members = np.flatnonzero(may_have).tolist()
        """The places of those that may have any."""
        self._reporting = frozenset(self.members)
        for index in np.flatnonzero(~may_have).tolist():
            members.states[index].blocks.histograms.pop(E2E, None)
        following = np.array([E2E in state.blocks.histograms for state in members.states], np.bool_)
        if following.any():
            self._follow(windows, following)

    def _follow(self, windows: StandingWindows, following: NDArray[np.bool_]) -> None:
        """Move those that have blocks on to the tick."""
        members, span = windows.members, range(self._tick - TICK_S, self._tick)
        rows = np.flatnonzero(np.repeat(following, members.replicas))
        starts = starts_of(members.replicas[following])
        seconds = HeardSeconds(span, windows.newest_heard[rows])
        newest = members.kind.requests.plain_reader.merged(E2E, members.rows[rows], starts, seconds)
        for index, merged in zip(np.flatnonzero(following).tolist(), newest, strict=True):
            found = self._read(index, span.start, span.stop).histogram(E2E) if merged is None else merged
            members.states[index].blocks.follow_histogram(E2E, found)

    def over(self, index: int, length_s: int) -> MergedHistogram:
        """That of a member over a window."""
        if index not in self._reporting:
            return EMPTY
        blocks = self._members.states[index].blocks
        found = blocks.histogram(E2E, length_s // TICK_S, lambda first_s, end_s: self._read(index, first_s, end_s))
        if found is None:
            found = self._read(index, self._tick - length_s, self._tick).histogram(E2E)
        return found

    def _read(self, index: int, first_s: int, end_s: int) -> Grid:
        return self._members.kind.requests.grid(self._members.states[index].endpoint, first_s, end_s)
