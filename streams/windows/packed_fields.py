"""Fields of decoded samples, a tuple each, as the numbers that windows store.

`struct` packs what it is told the type of at a quarter of what it costs numpy to look at each value first. It takes no
None, so a field of which some are unknown goes through numpy.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.windows.buckets import COUNT_FIELDS, GAUGE_FIELDS, STREAMED_FIELD, Buckets, set_column

Fields = Mapping[str, Sequence[Any]]
"""The values of each field, in the order of the samples."""


def fill_buckets(buckets: Buckets, fields: Fields) -> None:
    """Put `seq` and all scalars of as many samples as there are buckets (n,) of BUCKET into them."""
    buckets["seq"] = wholes(fields["seq"])
    size = len(buckets)
    try:
        counts = _pack(f"{size * len(COUNT_FIELDS)}I")(*chain.from_iterable(fields[name] for name in COUNT_FIELDS))
        buckets["counts"] = np.frombuffer(counts, np.uint32).reshape(len(COUNT_FIELDS), size).T
    except struct.error:
        for name in COUNT_FIELDS:
            set_column(buckets, name, wholes(fields[name]))
    try:
        gauges = _pack(f"{size * len(GAUGE_FIELDS)}d")(*chain.from_iterable(fields[name] for name in GAUGE_FIELDS))
        buckets["gauges"] = np.frombuffer(gauges, np.float64).reshape(len(GAUGE_FIELDS), size).T
    except struct.error:
        for name in GAUGE_FIELDS:
            set_column(buckets, name, reals(fields[name]))
    set_column(buckets, STREAMED_FIELD, reals(fields[STREAMED_FIELD]))


def wholes(values: Sequence[int | None]) -> NDArray[np.int64] | NDArray[np.float64]:
    """int64 (n,); where one is unknown float64, NaN for those."""
    try:
        return np.frombuffer(_pack(f"{len(values)}q")(*values), np.int64)
    except struct.error:
        return _with_unknown(values)


def reals(values: Sequence[float | None]) -> NDArray[np.float64]:
    """float64 (n,), NaN for the unknown."""
    try:
        return np.frombuffer(_pack(f"{len(values)}d")(*values), np.float64)
    except struct.error:
        return _with_unknown(values)


def count_rows(rows: Iterable[tuple[int, ...]], size: int) -> NDArray[np.uint32]:
    """uint32 (m, size) of m rows of `size` counts each."""
    return np.frombuffer(b"".join(starmap(_pack(f"{size}I"), rows)), np.uint32).reshape(-1, size)


def _with_unknown(values: Sequence[float | None]) -> NDArray[np.float64]:
    """numpy reads None as NaN where it is told that the numbers are float64."""
    if values.count(None) == len(values):
        return np.full(len(values), np.nan)
    return np.array(values, np.float64)


@lru_cache(maxsize=4096)
def _pack(layout: str) -> Callable[..., bytes]:
    return struct.Struct(layout).pack
