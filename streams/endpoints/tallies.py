"""A field's seconds of one window, added up for each replica."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from streams.endpoints.block_store import block_sums, sum_in_order
from streams.endpoints.ready import ReadySeconds
from streams.endpoints.ticks import TICK_S

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
SumsAndCounts = tuple[Matrix, Ints]


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


def make_tally(alive: SumsAndCounts, ready: SumsAndCounts, length_s: int) -> Tally:
    """Of sums and counts (replicas,) over a window; the same arrays where all replicas were ready."""
    is_whole = bool(len(alive[0])) and bool((ready[1] == length_s).all())
    return Tally(alive[0], alive[1], ready[0], ready[1], is_whole)


def tally(matrix: Matrix, seconds: ReadySeconds) -> Tally:
    """`matrix` float64 (replicas, seconds), NaN = unknown; added up as the blocks of a BlockStore are."""
    alive = _added(matrix, seconds.alive)
    ready = alive
    if seconds.ready is not None or seconds.alive is not None:
        ready = _added(matrix, seconds.ready)
    return make_tally(alive, ready, matrix.shape[1])


def tally_mask(mask: Mask, seconds: ReadySeconds) -> Ints:
    """(replicas,): how many ready seconds `mask` (replicas, seconds) marks."""
    counts: Ints = np.count_nonzero(mask if seconds.ready is None else mask & seconds.ready, axis=1)
    return counts


def _added(matrix: Matrix, counted: Mask | None) -> SumsAndCounts:
    """Of the seconds that `counted` marks (null: all)."""
    unknown = np.isnan(matrix)
    if counted is not None:
        unknown |= ~counted
    filled, counts = matrix, np.full(len(matrix), matrix.shape[1], np.int64)
    if unknown.any():
        filled, counts = np.where(unknown, 0.0, matrix), counts - np.count_nonzero(unknown, axis=1)
    parts = filled if matrix.shape[1] % TICK_S else block_sums(filled)
    return sum_in_order(parts.T), counts
