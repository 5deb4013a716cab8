"""Which seconds of which replicas a window is about: those that are ready, and those that are merely alive."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from records.enums import ReplicaState
from records.supply_memory import ReplicaMemory

Mask = NDArray[np.bool_]

FRESH_COVERAGE = 0.9
"""Share of the ready replicas' seconds from which on a value is fresh (decisions.md)."""
_ENDED = frozenset({ReplicaState.GONE, ReplicaState.FAILED})


@dataclass(frozen=True, slots=True, eq=False)
class ReadySeconds:
    """A window `[first_s, end_s)` of the replicas in a grid's order.

    `ready` bool (replicas, seconds): seconds in which the replica was ready, of replicas that are ready now and not
    given up hearing. `alive` the same shape: all but what came from replicas after they were gone. `expected` int64
    (replicas,): ready seconds of each; `seconds`: those of all ready replicas, heard or not.
    """

    ready: Mask
    alive: Mask
    expected: NDArray[np.int64]
    seconds: int

    def coverage(self, known: Mask) -> float:
        """The share of the ready seconds that `known` (replicas, seconds) marks; 0 where there are none."""
        if not self.seconds:
            return 0.0
        return int(np.count_nonzero(known & self.ready)) / self.seconds


def ready_seconds(
    names: Sequence[str], replicas: dict[str, ReplicaMemory], counted: Sequence[str], first_s: int, end_s: int
) -> ReadySeconds:
    """`counted` are the ready replicas that are not given up hearing."""
    length = end_s - first_s
    starts = np.full(len(names), length, np.int64)
    ends = np.full(len(names), length, np.int64)
    seconds = 0
    place = {name: index for index, name in enumerate(names)}
    for name in counted:
        start = min(length, max(0, replicas[name].since_s - first_s))
        seconds += length - start
        if name in place:
            starts[place[name]] = start
    for index, name in enumerate(names):
        known = replicas.get(name)
        if known is not None and known.state in _ENDED:
            ends[index] = min(length, max(0, known.since_s - first_s))
    column = np.arange(length)
    return ReadySeconds(column >= starts[:, None], column < ends[:, None], length - starts, seconds)
