"""Sums over blocks of five seconds of all replicas of a partition, field by field, in rings as long as the windows.

Sums are added up in one order: the seconds of a block from left to right, then the blocks from the oldest to the
newest. So what a window adds up to is the same whichever replicas are read together, and whether its blocks were kept
or made anew.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from streams.endpoints.ticks import TICK_S
from streams.windows.private_pages import PrivatePages
from streams.windows.stretch import compact

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

Number = TypeVar("Number", np.float64, np.uint8)

_LANES_MIN = 64
_LANES_AT_ONCE = 256
"""The blocks of so many fit into the processor's cache."""


class BlockStore:
    """See the module's text. A lane holds the blocks of one replica: a ring of `length` of them, that of the seconds
    from `first_s` on at `first_s // 5 % length`."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._size = _LANES_MIN
        self._used = 0
        self._free: list[int] = []
        self._place: dict[str, int] = {}
        self._sums: Matrix = np.zeros((0, length, _LANES_MIN))
        """(fields, blocks, lanes): of each block the sum of its known seconds."""
        self._counts: NDArray[np.uint8] = np.zeros((0, length, _LANES_MIN), np.uint8)
        """As `_sums`: how many seconds are known."""

    @property
    def nbytes(self) -> int:
        """Of the lanes that were ever in use."""
        return len(self._place) * self.length * self._used * 9

    def take(self, lanes: int) -> Ints:
        """So many lanes, whatever is in them."""
        found = [self._free.pop() for _ in range(min(lanes, len(self._free)))]
        found += range(self._used, self._used + lanes - len(found))
        self._used = max(self._used, max(found, default=-1) + 1)
        if self._used > self._size:
            self._grow(len(self._place), max(self._used, self._size + self._size // 8))
        return np.array(found, np.int64)

    def give_back(self, lanes: Ints) -> None:
        self._free += lanes.tolist()

    def write(self, names: Sequence[str], first_s: int, lanes: Ints, sums: Matrix, counts: Matrix) -> None:
        """Put the blocks, (fields, lanes, blocks), of fields by their names, the first of them that from `first_s`
        on."""
        fields, places = self._fields(names)[:, None, None], self._places(first_s, sums.shape[2])[:, None]
        self._sums[fields, places, lanes] = sums.transpose(0, 2, 1)
        self._counts[fields, places, lanes] = counts.transpose(0, 2, 1)

    def read(self, names: Sequence[str], first_s: int, blocks: int, lanes: Ints) -> tuple[Matrix, Ints]:
        """(fields, lanes) each: the sums of so many blocks from `first_s` on, and the numbers of known seconds."""
        fields, places = self._fields(names).tolist(), self._places(first_s, blocks)
        if len(lanes) <= _LANES_AT_ONCE:
            counts = np.add.reduce(_picked(self._counts, fields, places, lanes), axis=1, dtype=np.uint16)
            return sum_in_order(_picked(self._sums, fields, places, lanes)), counts.astype(np.int64)
        # Many are added up block by block, without picking them out first.
        where, shape = compact(lanes), (len(names), len(lanes))
        sums, counts = np.empty(shape), np.zeros(shape, np.uint16)
        for index, field in enumerate(fields):
            sums[index] = self._sums[field, places[0]][where]
            counts[index] = self._counts[field, places[0]][where]
            for place in places[1:].tolist():
                sums[index] += self._sums[field, place][where]
                counts[index] += self._counts[field, place][where]
        return sums, counts.astype(np.int64)

    def _places(self, first_s: int, blocks: int) -> Ints:
        return (first_s // TICK_S + np.arange(blocks)) % self.length

    def _fields(self, names: Sequence[str]) -> Ints:
        for name in names:
            if name not in self._place:
                self._grow(len(self._place) + 1, self._size)
                self._place[name] = len(self._place)
        return np.array([self._place[name] for name in names], np.int64)

    def _grow(self, fields: int, size: int) -> None:
        sums, counts = self._sums, self._counts
        self._size = size
        self._sums = _zeros((fields, self.length, size), np.float64)
        self._counts = _zeros((fields, self.length, size), np.uint8)
        self._sums[: len(sums), :, : sums.shape[2]] = sums
        self._counts[: len(counts), :, : counts.shape[2]] = counts


def _zeros(shape: tuple[int, int, int], dtype: DTypeLike) -> NDArray[Any]:
    return PrivatePages(math.prod(shape), dtype).flat.reshape(shape)


def _picked(cube: NDArray[Number], fields: Sequence[int], places: Ints, lanes: Ints) -> NDArray[Number]:
    """(fields, places, lanes) of a cube (fields, blocks, lanes)."""
    where = compact(lanes)
    out = np.empty((len(fields), len(places), len(lanes)), cube.dtype)
    for index, field in enumerate(fields):
        out[index] = cube[field, :, where][places] if isinstance(where, slice) else cube[field, places[:, None], lanes]
    return out


def sum_in_order(rows: Matrix) -> Matrix:
    """The sum of `rows` (.., k, n), from the first to the last, for each of n."""
    if rows.shape[-1] == 1:
        # numpy adds a single column pairwise, and several of them row by row.
        rows = np.repeat(rows, 2, axis=-1)
        return np.asarray(np.add.reduce(rows, axis=-2)[..., :1])
    added: Matrix = np.add.reduce(np.ascontiguousarray(rows), axis=-2)
    return added


def blocks_of(matrices: Sequence[Matrix], left_out: Mask | None) -> tuple[Matrix, Matrix]:
    """Sums, and numbers of known seconds, (fields, replicas, blocks), of matrices (replicas, seconds) whose length is a
    multiple of TICK_S; NaN is unknown, and what `left_out` (replicas, seconds) marks does not count."""
    cube = np.array(matrices)
    unknown = np.isnan(cube)
    if left_out is not None:
        unknown |= left_out
    counts = np.full((*cube.shape[:2], cube.shape[2] // TICK_S), float(TICK_S))
    if unknown.any():
        cube[unknown] = 0.0
        for second in range(TICK_S):
            counts -= unknown[:, :, second::TICK_S]
    return block_sums(cube), counts


def block_sums(known: Matrix) -> Matrix:
    """The sums (.., blocks) of the seconds (.., seconds), none of them unknown, of each block from left to right."""
    sums: Matrix = known[..., ::TICK_S] + known[..., 1::TICK_S]
    for second in range(2, TICK_S):
        sums += known[..., second::TICK_S]
    return sums
