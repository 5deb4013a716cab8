"""Which seconds of which replicas a window is about: those that are ready, and those that are merely alive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from records.enums import ReplicaState
from records.supply_memory import ReplicaMemory

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

FRESH_COVERAGE = 0.9
"""Share of the ready replicas' seconds from which on a value is fresh (decisions.md)."""
_ROUNDING = 1e-9
"""A share is a product of quotients: 18/19 of 19/20 comes out a little below 0.9."""
_ENDED = frozenset({ReplicaState.GONE, ReplicaState.FAILED})
_ALWAYS_S = 2**60


def is_covered(share: float) -> bool:
    """Whether a share of the ready replicas' seconds makes a value fresh."""
    return share >= FRESH_COVERAGE - _ROUNDING


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """The replicas `names` of a grid, in its order, `place` by name: each is ready from `ready_s` on (never, if it is
    not ready now or given up hearing), and alive before `ended_s`; `last_ready_s` and `first_ended_s` are the latest
    and the earliest of these. `silent_s`: since when the ready ones are ready that the grid has not."""

    names: tuple[str, ...]
    place: Mapping[str, int]
    ready_at: tuple[int, ...]
    ended_at: tuple[int, ...]
    ready_s: Ints
    ended_s: Ints
    silent_s: tuple[int, ...]
    last_ready_s: int
    first_ended_s: int

    def is_like(self, other: "Roster | None") -> bool:
        """Whether the same seconds of the same replicas are ready and alive."""
        if other is None or self.names != other.names:
            return False
        return self.ready_at == other.ready_at and self.ended_at == other.ended_at

    def counts_all(self, first_s: int, end_s: int) -> bool:
        """Whether all are ready and alive in all of `[first_s, end_s)`."""
        return self.last_ready_s <= first_s and self.first_ended_s >= end_s

    def counts_from_now(self, now_s: int) -> bool:
        """Whether all are ready and alive at `now_s`."""
        return self.last_ready_s <= now_s and self.first_ended_s == _ALWAYS_S

    def leaves_out(self, heard: Mask, first_s: int) -> bool:
        """Whether any was heard, bool (replicas, seconds) from `first_s` on, while it was not ready or not alive."""
        ready, alive = self.masks(first_s, first_s + heard.shape[1])
        return any(mask is not None and bool((heard & ~mask).any()) for mask in (ready, alive))

    def masks(self, first_s: int, end_s: int) -> tuple[Mask | None, Mask | None]:
        """bool (replicas, seconds) of `[first_s, end_s)`: ready, and alive; null where all are."""
        ready = alive = None
        if self.last_ready_s > first_s:
            ready = np.arange(first_s, end_s) >= self.ready_s[:, None]
        if self.first_ended_s < end_s:
            alive = np.arange(first_s, end_s) < self.ended_s[:, None]
        return ready, alive


def make_roster(names: Sequence[str], replicas: Mapping[str, ReplicaMemory], counted: Sequence[str]) -> Roster:
    """`counted` are the ready replicas that are not given up hearing."""
    ready_s = [_ALWAYS_S] * len(names)
    ended_s = [_ALWAYS_S] * len(names)
    place = {name: index for index, name in enumerate(names)}
    silent = []
    for name in counted:
        index = place.get(name)
        if index is None:
            silent.append(replicas[name].since_s)
        else:
            ready_s[index] = replicas[name].since_s
    for index, name in enumerate(names):
        known = replicas.get(name)
        if known is not None and known.state in _ENDED:
            ended_s[index] = known.since_s
    return Roster(
        tuple(names),
        place,
        tuple(ready_s),
        tuple(ended_s),
        np.array(ready_s, np.int64),
        np.array(ended_s, np.int64),
        tuple(silent),
        max(ready_s, default=0),
        min(ended_s, default=_ALWAYS_S),
    )


class ReadySeconds:
    """The seconds `[first_s, end_s)` of the replicas of a roster, in its order.

    `expected` int64 (replicas,): ready seconds of each; `heard`: of all of them; `seconds`: those of the ready
    replicas that the grid has not, too.
    """

    def __init__(self, roster: Roster, first_s: int, end_s: int) -> None:
        self._roster, self._first_s, self._end_s = roster, first_s, end_s
        length = end_s - first_s
        silent = sum(length - min(length, max(0, since_s - first_s)) for since_s in roster.silent_s)
        if roster.last_ready_s <= first_s:
            self.expected = np.full(len(roster.names), length)
            self.heard = length * len(roster.names)
        else:
            self.expected = length - np.minimum(np.maximum(roster.ready_s - first_s, 0), length)
            self.heard = int(self.expected.sum())
        self.seconds = self.heard + silent

    @cached_property
    def _masks(self) -> tuple[Mask | None, Mask | None]:
        return self._roster.masks(self._first_s, self._end_s)

    @property
    def ready(self) -> Mask | None:
        """bool (replicas, seconds): in which each is ready; null where in all."""
        return self._masks[0]

    @property
    def alive(self) -> Mask | None:
        """bool (replicas, seconds): in which each had not ended; null where in all."""
        return self._masks[1]
