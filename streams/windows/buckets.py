"""One second of one series as it is stored: which fields there are, and how many bytes each has."""

import numpy as np
from numpy.typing import NDArray

COUNT_FIELDS = (
    "arrivals",
    "completions",
    "errors",
    "rejections",
    "aborted",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "images",
    "steps",
    "arrived_input_tokens",
    "preemptions",
)
"""Whole numbers, 0 to records.fields.COUNT_MAX."""

GAUGE_FIELDS = (
    "running",
    "running_max",
    "waiting",
    "deferred",
    "arrived_output_tokens_estimate",
    "kv_cache_usage",
    "concurrency_limit",
    "active_sessions",
    "cpu",
)
"""Values that need all digits of a float64."""

STREAMED_FIELD = "streamed_fraction"
SCALAR_FIELDS = (*COUNT_FIELDS, *GAUGE_FIELDS, STREAMED_FIELD)
FIELD_INDEX = {name: index for index, name in enumerate(SCALAR_FIELDS)}
"""Where each scalar is in a block of all of them."""

UNKNOWN_COUNT = np.uint32(2**32 - 1)
"""Marks an unknown count: one above records.fields.COUNT_MAX."""

BUCKET = np.dtype(
    [
        ("seq", np.int64),
        ("gauges", np.float64, (len(GAUGE_FIELDS),)),
        ("counts", np.uint32, (len(COUNT_FIELDS),)),
        ("streamed", np.float32),
        ("lap", np.uint32),
    ]
)
"""One second of one series, 136 bytes. `lap` tells which second the slot of a ring holds, see
streams.windows.rings.lap_of; 0: none yet.

`streamed` keeps 7 digits: of streamed_fraction only a known 0 means something.
"""
WHOLE_BUCKET = np.dtype((np.void, BUCKET.itemsize))
"""A bucket as one item: numpy moves it at once, and not field by field."""
STREAMED_MIN = np.float32(np.finfo(np.float32).tiny)

Buckets = NDArray[np.void]


def whole(buckets: Buckets) -> Buckets:
    """The same buckets as items of WHOLE_BUCKET, not copied."""
    return buckets.view(WHOLE_BUCKET)


def set_column(buckets: Buckets, name: str, values: NDArray[np.float64] | NDArray[np.int64]) -> None:
    """Fill one scalar of all buckets (n,) from int64 or float64 (n,), NaN = unknown. KeyError for another name."""
    index = FIELD_INDEX[name]
    if index < len(COUNT_FIELDS):
        if values.dtype != np.int64:
            values = np.where(np.isnan(values), float(UNKNOWN_COUNT), values)
        buckets["counts"][:, index] = values
    elif name == STREAMED_FIELD:
        buckets["streamed"] = np.where(values > 0, np.maximum(values, STREAMED_MIN), values)
    else:
        buckets["gauges"][:, index - len(COUNT_FIELDS)] = values


def set_unknown(buckets: Buckets, name: str, rows: NDArray[np.int64] | slice) -> None:
    """Say of one scalar of the buckets at `rows` that it is not known. KeyError for another name."""
    index = FIELD_INDEX[name]
    if index < len(COUNT_FIELDS):
        buckets["counts"][rows, index] = UNKNOWN_COUNT
    elif name == STREAMED_FIELD:
        buckets["streamed"][rows] = np.nan
    else:
        buckets["gauges"][rows, index - len(COUNT_FIELDS)] = np.nan


def read_column(buckets: Buckets, name: str) -> NDArray[np.float64]:
    """One scalar of all buckets, float64 (n,), NaN = unknown. KeyError for another name."""
    index = FIELD_INDEX[name]
    if name == STREAMED_FIELD:
        return buckets["streamed"].astype(np.float64)
    if index >= len(COUNT_FIELDS):
        gauges: NDArray[np.float64] = buckets["gauges"][:, index - len(COUNT_FIELDS)]
        return gauges
    counts = buckets["counts"][:, index]
    return np.where(counts == UNKNOWN_COUNT, np.nan, counts)
