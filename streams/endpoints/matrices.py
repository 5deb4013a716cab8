"""What ticks read of a grid by name: its fields, and what follows from several of them."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Seconds(Protocol):
    """Some seconds of some replicas, as a Grid has them: matrices (replicas, seconds), NaN = unknown."""

    @property
    def heard(self) -> Mask: ...
    @property
    def inflight(self) -> Matrix: ...
    @property
    def arrivals(self) -> Matrix: ...
    def field(self, name: str) -> Matrix: ...
    def present(self, field: str) -> Mask: ...


PRESENT = "present:"
"""Before a histogram field's name: the seconds that have such a histogram."""


def matrix_of(grid: Seconds, name: str) -> Matrix:
    """float64 (replicas, seconds), NaN = unknown.

    `name` is a scalar field (`arrivals` also where they follow from others), `inflight` (running + waiting),
    `streamed_tokens` (output tokens of seconds of which it is not known that nothing was streamed), `hits` and `reads`
    (cached and input tokens where both are known); or one that marks seconds by 0: `heard`, `idle` (nothing came, left,
    ran or waited), `unstreamed`, `present:FIELD`.
    """
    derived = _DERIVED.get(name)
    if derived is not None:
        return derived(grid)
    if name.startswith(PRESENT):
        return _marked(grid.present(name.removeprefix(PRESENT)))
    return grid.field(name)


def _marked(mask: Mask) -> Matrix:
    return np.where(mask, 0.0, np.nan)


def _idle(grid: Seconds) -> Matrix:
    idle: Mask = grid.arrivals == 0
    for name in ("completions", "running", "waiting"):
        idle &= grid.field(name) == 0
    return _marked(idle)


def _streamed_tokens(grid: Seconds) -> Matrix:
    return np.where(grid.field("streamed_fraction") == 0, np.nan, grid.field("output_tokens"))


def _hits(grid: Seconds) -> Matrix:
    return np.where(np.isnan(grid.field("input_tokens")), np.nan, grid.field("cached_tokens"))


def _reads(grid: Seconds) -> Matrix:
    return np.where(np.isnan(grid.field("cached_tokens")), np.nan, grid.field("input_tokens"))


_DERIVED: dict[str, Callable[[Seconds], Matrix]] = {
    "arrivals": lambda grid: grid.arrivals,
    "inflight": lambda grid: grid.inflight,
    "heard": lambda grid: _marked(grid.heard),
    "idle": _idle,
    "unstreamed": lambda grid: _marked(grid.field("streamed_fraction") == 0),
    "streamed_tokens": _streamed_tokens,
    "hits": _hits,
    "reads": _reads,
}
