"""Where in a ring a stretch of seconds lies."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of seconds that lies in one go of the ring: `columns` of the matrix are `slots` of the ring."""

    columns: slice
    slots: slice
    lap: int


class Stretch:
    """The seconds `[first_s, end_s)`, of which the ring holds `[held_from_s, held_to_s)`: those from `floor_s` on."""

    def __init__(self, first_s: int, end_s: int, floor_s: int, slots: int) -> None:
        self.first_s, self.end_s = first_s, end_s
        self._floor_s, self._slots = floor_s, slots
        self.held_from_s, self.held_to_s = max(first_s, floor_s), min(end_s, floor_s + slots)
        self.pieces: list[Piece] = []
        at_s = self.held_from_s
        while at_s < self.held_to_s:
            slot = at_s % slots
            count = min(self.held_to_s - at_s, slots - slot)
            columns = slice(at_s - first_s, at_s - first_s + count)
            self.pieces.append(Piece(columns, slice(slot, slot + count), at_s // slots + 1))
            at_s += count

    def __len__(self) -> int:
        return self.end_s - self.first_s

    def since(self, first_s: int) -> "Stretch":
        """Its end, from `first_s` on."""
        return Stretch(first_s, self.end_s, self._floor_s, self._slots)


def compact(indices: Rows) -> Rows | slice:
    """A slice where the indices follow one another: numpy reads it without copying."""
    if len(indices) and indices[-1] - indices[0] == len(indices) - 1 and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def starts_of(sizes: Rows) -> Rows:
    """Where each of groups that follow one another begins, by their `sizes` (n,)."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)[:-1]))
