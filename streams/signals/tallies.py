"""A field's seconds of one window, added up for each replica."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streams.endpoints.blocks import WindowSums
from streams.endpoints.ready import ReadySeconds

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Of each replica, (replicas,): the sum and the number of its known seconds, of all in which it was alive, and of
    those in which it was ready. `is_whole`: all replicas were ready and known in all seconds."""

    sums: Matrix
    counts: Ints
    ready_sums: Matrix
    ready_counts: Ints
    is_whole: bool = False

    @property
    def is_known(self) -> bool:
        """Whether anything is."""
        return bool(self.counts.any())

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
    sums = matrix.sum(axis=1)
    if seconds.alive is None and not np.isnan(sums).any():
        counts = np.full(len(sums), matrix.shape[1], np.int64)
        if seconds.ready is None:
            return Tally(sums, counts, sums, counts, is_whole=bool(len(sums)))
        return Tally(sums, counts, _masked_sums(matrix, seconds.ready), seconds.expected)
    known = ~np.isnan(matrix)
    alive = known if seconds.alive is None else known & seconds.alive
    ready = known if seconds.ready is None else known & seconds.ready
    sums, counts = _masked_sums(matrix, alive), np.count_nonzero(alive, axis=1)
    if ready is alive:
        return Tally(sums, counts, sums, counts)
    return Tally(sums, counts, _masked_sums(matrix, ready), np.count_nonzero(ready, axis=1))


def tally_of(sums: WindowSums, length_s: int) -> Tally:
    """Of blocks that make `length_s` seconds."""
    is_whole = len(sums.counts) > 0 and bool((sums.ready_counts == length_s).all())
    counts = sums.counts.astype(np.int64)
    ready_counts = counts if sums.ready_counts is sums.counts else sums.ready_counts.astype(np.int64)
    return Tally(sums.sums, counts, sums.ready_sums, ready_counts, is_whole)


def tally_mask(mask: Mask, seconds: ReadySeconds) -> Ints:
    """(replicas,): how many ready seconds `mask` (replicas, seconds) marks."""
    counts: Ints = np.count_nonzero(mask if seconds.ready is None else mask & seconds.ready, axis=1)
    return counts


def _masked_sums(matrix: Matrix, mask: Mask) -> Matrix:
    sums: Matrix = np.where(mask, matrix, 0.0).sum(axis=1)
    return sums
