"""How long requests last at endpoints that stand: histograms are merged one endpoint after the other."""

import numpy as np

from streams.endpoints.ticks import TICK_S
from streams.signals.standing import E2E
from streams.signals.standing_windows import Members
from streams.windows.grid import Grid
from streams.windows.histograms import EMPTY, MergedHistogram


class StandingHistograms:
    """`e2e_ms` of the members at a tick; most engines report it, and a few report none."""

    def __init__(self, members: Members, tick: int) -> None:
        self._members, self._tick = members, tick
        may_have = members.any(members.kind.requests.plain_reader.may_have(E2E, members.rows))
        self.members = np.flatnonzero(may_have).tolist()
        """The places of those that may have any."""
        self._reporting = frozenset(self.members)
        for index, state in enumerate(members.states):
            if index in self._reporting and E2E in state.blocks.histograms:
                state.blocks.follow_histograms(self._read(index, tick - TICK_S, tick))
            else:
                state.blocks.histograms.pop(E2E, None)

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
