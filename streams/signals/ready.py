"""Which seconds of which replicas a window is about: those that are ready, and those that are merely alive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from records.enums import ReplicaState
from records.supply_memory import ReplicaMemory

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

FRESH_COVERAGE = 0.9
"""Share of the ready replicas' seconds from which on a value is fresh (decisions.md)."""
_ENDED = frozenset({ReplicaState.GONE, ReplicaState.FAILED})
_ALWAYS_S = 2**60


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """The replicas `names` of a grid, in its order: each is ready from `ready_s` on (never, if it is not ready now or
    given up hearing), and alive before `ended_s`; `last_ready_s` and `first_ended_s` are the latest and the earliest of
    these. `silent_s`: since when the ready ones are ready that the grid has not."""

    names: tuple[str, ...]
    ready_s: Ints
    ended_s: Ints
    silent_s: tuple[int, ...]
    last_ready_s: int
    first_ended_s: int


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
        np.array(ready_s, np.int64),
        np.array(ended_s, np.int64),
        tuple(silent),
        max(ready_s, default=0),
        min(ended_s, default=_ALWAYS_S),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ReadySeconds:
    """A window of the replicas in a grid's order.

    `expected` int64 (replicas,): ready seconds of each; `heard`: of all of them; `seconds`: those of the ready
    replicas that the grid has not, too.
    `ready` and `alive` bool (replicas, seconds): which seconds these are, and which are not those of replicas that
    have ended; null where all of them are.
    """

    expected: Ints
    heard: int
    seconds: int
    ready: Mask | None
    alive: Mask | None


def ready_seconds(roster: Roster, first_s: int, end_s: int) -> ReadySeconds:
    length = end_s - first_s
    silent = sum(length - min(length, max(0, since_s - first_s)) for since_s in roster.silent_s)
    if roster.last_ready_s <= first_s and roster.first_ended_s >= end_s:
        heard = length * len(roster.names)
        return ReadySeconds(np.full(len(roster.names), length), heard, heard + silent, None, None)
    starts = np.minimum(np.maximum(roster.ready_s - first_s, 0), length)
    expected = length - starts
    column = np.arange(length)
    ready = column >= starts[:, None] if starts.any() else None
    alive = column < (roster.ended_s - first_s)[:, None] if (roster.ended_s < end_s).any() else None
    heard = int(expected.sum())
    return ReadySeconds(expected, heard, heard + silent, ready, alive)
