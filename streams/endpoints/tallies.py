"""A field's seconds of one window, added up for each replica."""

from math import isnan

import msgspec
import numpy as np
from numpy.typing import NDArray

from streams.endpoints.ready import ReadySeconds

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Tally(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Of each replica, (replicas,): the sum and the number of its known seconds, of all in which it was alive, and of
    those in which it was ready (the same arrays where these are all). `is_whole`: all replicas, at least one, were
    ready and known in all seconds. A dozen are made each tick."""

    sums: Matrix
    counts: Ints
    ready_sums: Matrix
    ready_counts: Ints
    is_whole: bool = False

    @property
    def is_known(self) -> bool:
        """Whether anything is."""
        return self.is_whole or bool(self.counts.any())

    @property
    def measured(self) -> int:
        """How many ready replicas have a known second."""
        return len(self.sums) if self.is_whole else int(np.count_nonzero(self.ready_counts))

    def coverage(self, seconds: ReadySeconds) -> float:
        """The share of the ready replicas' seconds that is known; 0 where there are none."""
        if not seconds.seconds:
            return 0.0
        known = seconds.heard if self.is_whole else int(self.ready_counts.sum())
        return known / seconds.seconds

    def is_above_zero(self) -> bool:
        return bool((self.sums > 0).any())


def tally(matrix: Matrix, seconds: ReadySeconds) -> Tally:
    """`matrix` float64 (replicas, seconds), NaN = unknown; each replica's seconds are added in their order."""
    sums = np.add.reduce(matrix, axis=1)
    if seconds.alive is None and not isnan(np.add.reduce(sums)):
        if seconds.ready is None:
            return Tally(sums, seconds.expected, sums, seconds.expected, bool(len(sums)))
        counts = np.full(len(sums), matrix.shape[1], np.int64)
        return Tally(sums, counts, _masked_sums(matrix, seconds.ready), seconds.expected)
    known = ~np.isnan(matrix)
    alive = known if seconds.alive is None else known & seconds.alive
    ready = known if seconds.ready is None else known & seconds.ready
    sums, counts = _masked_sums(matrix, alive), np.count_nonzero(alive, axis=1)
    if ready is alive:
        return Tally(sums, counts, sums, counts)
    return Tally(sums, counts, _masked_sums(matrix, ready), np.count_nonzero(ready, axis=1))


def tally_mask(mask: Mask, seconds: ReadySeconds) -> Ints:
    """(replicas,): how many ready seconds `mask` (replicas, seconds) marks."""
    counts: Ints = np.count_nonzero(mask if seconds.ready is None else mask & seconds.ready, axis=1)
    return counts


def _masked_sums(matrix: Matrix, mask: Mask) -> Matrix:
    sums: Matrix = np.where(mask, matrix, 0.0).sum(axis=1)
    return sums
