"""Histograms as in OpenTelemetry: explicit upper bounds, counts per bucket, not cumulative."""

import itertools
from functools import lru_cache
from math import isfinite
from typing import Annotated

import msgspec
from msgspec import Meta

from records.fields import Amount, Count

BOUNDS_MAX = 200
"""Most bounds of one histogram. vLLM's longest has 22; an attacker's may not fill a worker's memory."""

BOUNDS_TEXT_BYTES_MAX = 16 * 1024
"""Most bytes of bounds as text, three times what BOUNDS_MAX numbers of full length need: texts are kept."""

BOUND_MAX = 1e15

BOUNDS_KEY = b"explicit_bounds"
"""Key, in the metadata of a frame's histogram column, of its upper bounds as a JSON array."""

_checked: set[tuple[float, ...]] = set()


def _check_bounds(bounds: tuple[float, ...]) -> None:
    """Raise ValueError unless the bounds rise strictly; bounds seen before cost one look-up."""
    if bounds in _checked:
        return
    for lower, upper in itertools.pairwise(bounds):
        if not lower < upper:
            raise ValueError(f"explicit_bounds must rise strictly, got {lower} before {upper}")
    if len(_checked) < 1024:
        _checked.add(bounds)


@lru_cache(maxsize=1024)
def parse_bounds(text: bytes) -> tuple[float, ...]:
    """The bounds that a JSON array has, as they stand at BOUNDS_KEY. Raises ValueError for bad ones."""
    if len(text) > BOUNDS_TEXT_BYTES_MAX:
        raise ValueError(f"{len(text)} bytes of text, allowed {BOUNDS_TEXT_BYTES_MAX}")
    bounds = msgspec.json.decode(text, type=tuple[float, ...])
    if len(bounds) > BOUNDS_MAX:
        raise ValueError(f"{len(bounds)} bounds, allowed {BOUNDS_MAX}")
    if any(lower >= upper for lower, upper in itertools.pairwise(bounds)):
        raise ValueError("must rise strictly")
    if not all(isfinite(bound) and abs(bound) <= BOUND_MAX for bound in bounds):
        raise ValueError(f"allowed -{BOUND_MAX} to {BOUND_MAX}")
    return bounds


class Histogram(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Counts of one second; the unit is that of the field that holds it (`ttft_ms`: milliseconds).

    `bucket_counts[i]` counts values in `(explicit_bounds[i-1], explicit_bounds[i]]`; the last counts those above the
    last bound, so there is one count more than there are bounds. `sum` is the sum of the values, null where the
    reporter does not keep it.
    """

    explicit_bounds: Annotated[
        tuple[Annotated[float, Meta(ge=-BOUND_MAX, le=BOUND_MAX)], ...], Meta(max_length=BOUNDS_MAX)
    ]
    bucket_counts: Annotated[tuple[Count, ...], Meta(max_length=BOUNDS_MAX + 1)]
    sum: Amount | None = None

    def __post_init__(self) -> None:
        if len(self.bucket_counts) != len(self.explicit_bounds) + 1:
            raise ValueError(
                f"bucket_counts must have one value more than explicit_bounds, "
                f"got {len(self.bucket_counts)} for {len(self.explicit_bounds)} bounds"
            )
        _check_bounds(self.explicit_bounds)
