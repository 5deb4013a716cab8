"""The workers' controller, whose ticks are had one at a time: a week of them need not be in memory at once."""

from collections.abc import Iterator
from heapq import merge

from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from streams.endpoints.endpoint_state import EndpointState
from streams.endpoints.ticks import TICK_S


class ReplayController(PartitionController):
    """Makes the same ticks in the same order as its parent."""

    def ticks_up_to(self, now_s: float) -> Iterator[TickEffects]:
        """What `advance` returns; each tick is made when it is asked for. Take all before anything else is fed."""
        if self._rebuild is not None:
            yield from self._end_rebuild(self._rebuild)
        if now_s <= self._processed_s:
            return
        has_passed = now_s // TICK_S > self._processed_s // TICK_S
        self._pass_time(now_s)
        if has_passed:
            due = [self._due(state) for state in self._registry.states.values()]
            yield from merge(*due, key=lambda effects: (effects.at_s, effects.endpoint))

    def _due(self, state: EndpointState) -> Iterator[TickEffects]:
        while state.is_due(self._processed_s):
            yield self._tick(state)
