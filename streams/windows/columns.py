"""A batch of RequestSamples as columns: what the windows take, whether it came as JSON records or as a frame.

Scalars are one float64 matrix of shape (samples, len(FIELDS)); NaN is unknown. Identities are coded: `series` holds
each identity of the batch once, in the order of its first sample, `series_code` points into it.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from operator import attrgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from records.histogram import BOUNDS_KEY, Histogram, parse_bounds
from records.telemetry import RequestSample

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

SCALAR_FIELDS = (*COUNT_FIELDS, *GAUGE_FIELDS, "streamed_fraction")
HISTOGRAM_FIELDS = ("ttft_ms", "tpot_ms", "e2e_ms", "queue_ms")

FIELD_INDEX = {name: index for index, name in enumerate(SCALAR_FIELDS)}
"""Where each scalar is in a batch's `values`."""

SeriesIdentity = tuple[str, str, str, str, str | None]
"""endpoint, replica, epoch, source, reporter; a reporter of None is the replica itself."""

IDENTITY_FIELDS = ("endpoint", "replica", "epoch", "source", "reporter")
_ROW = np.dtype([("at_s", np.int64), ("seq", np.int64), ("values", np.float64, (len(SCALAR_FIELDS),))])
_pack_row = struct.Struct(f"qq{len(SCALAR_FIELDS)}d").pack
"""Makes a _ROW of numbers, at half of what it costs numpy to look for what they are."""

_identity_of = attrgetter(*IDENTITY_FIELDS)
_scalars_of = attrgetter(*SCALAR_FIELDS)
_numbers_of = attrgetter("at_s", "seq", *SCALAR_FIELDS)


@dataclass(frozen=True, eq=False)
class HistogramRows:
    """Histograms of one field that share their bounds.

    `rows` int64 (m,): the samples they belong to, rising; `counts` uint32 (m, len(bounds) + 1); `sums` float64 (m,),
    NaN where the reporter keeps none.
    """

    bounds: tuple[float, ...]
    rows: NDArray[np.int64]
    counts: NDArray[np.uint32]
    sums: NDArray[np.float64]

    def take(self, positions: NDArray[np.int64]) -> "HistogramRows":
        """Those whose sample has a position of 0 or more in `positions`, at that position, in its order."""
        moved = positions[self.rows]
        kept = np.flatnonzero(moved >= 0)
        kept = kept[np.argsort(moved[kept], kind="stable")]
        return HistogramRows(self.bounds, moved[kept], self.counts[kept], self.sums[kept])


@dataclass(frozen=True, eq=False)
class SampleColumns:
    """`n` samples in log order.

    `series_code` int32 (n,) points into `series`; `at_s` int64 (n,) UNIX seconds; `seq` int64 (n,), 0 where absent;
    `received_s` float64 (n,) UNIX seconds; `values` float64 (n, len(SCALAR_FIELDS)), NaN = unknown; `histograms` by
    field, one entry for each set of bounds in the batch.
    """

    series: tuple[SeriesIdentity, ...]
    series_code: NDArray[np.int32]
    at_s: NDArray[np.int64]
    seq: NDArray[np.int64]
    received_s: NDArray[np.float64]
    values: NDArray[np.float64]
    histograms: dict[str, tuple[HistogramRows, ...]]

    def __len__(self) -> int:
        return len(self.at_s)

    @cached_property
    def endpoints(self) -> tuple[str, ...]:
        """Each endpoint of the batch once, in the order of its first sample's series."""
        return tuple(dict.fromkeys(identity[0] for identity in self.series))

    @cached_property
    def endpoint_code(self) -> NDArray[np.int32]:
        """int32 (n,): each sample's place in `endpoints`."""
        code = {endpoint: index for index, endpoint in enumerate(self.endpoints)}
        of_series = np.fromiter((code[identity[0]] for identity in self.series), np.int32, len(self.series))
        return of_series[self.series_code]

    def field(self, name: str) -> NDArray[np.float64]:
        """float64 (n,), a view; KeyError for a name that is no scalar field."""
        return self.values[:, FIELD_INDEX[name]]

    def take(self, rows: NDArray[np.int64]) -> "SampleColumns":
        """The samples at `rows` in that order, which must not repeat one; `series` stays as it is."""
        positions = np.full(len(self), -1, np.int64)
        positions[rows] = np.arange(len(rows))
        return SampleColumns(
            series=self.series,
            series_code=self.series_code[rows],
            at_s=self.at_s[rows],
            seq=self.seq[rows],
            received_s=self.received_s[rows],
            values=self.values[rows],
            histograms={
                name: tuple(part for part in (group.take(positions) for group in groups) if len(part.rows))
                for name, groups in self.histograms.items()
            },
        )

    def at(self, at_s: NDArray[np.int64]) -> "SampleColumns":
        """The same samples at other seconds, int64 (n,): what a skew correction makes of them."""
        return replace(self, at_s=at_s)

    @classmethod
    def from_records(cls, records: Sequence[RequestSample], received_s: NDArray[np.float64]) -> "SampleColumns":
        """Columns of decoded records; `received_s` float64 (n,), UNIX seconds."""
        codes: dict[SeriesIdentity, int] = {}
        series_code = [codes.setdefault(identity, len(codes)) for identity in map(_identity_of, records)]
        rows = _rows(records)
        return cls(
            series=tuple(codes),
            series_code=np.array(series_code, np.int32),
            at_s=np.ascontiguousarray(rows["at_s"]),
            seq=np.ascontiguousarray(rows["seq"]),
            received_s=np.asarray(received_s, np.float64),
            values=np.ascontiguousarray(rows["values"]),
            histograms={name: _histogram_rows(list(map(attrgetter(name), records))) for name in HISTOGRAM_FIELDS},
        )

    @classmethod
    def from_arrow(cls, batch: pa.RecordBatch, received_s: NDArray[np.float64]) -> "SampleColumns":
        """Columns of a decoded frame: all columns of RequestSample, texts as dictionaries, each histogram as a list of
        uint32 counts, one more than the bounds in its field's metadata, with its sums in `FIELD_sum`.

        `received_s` float64 (n,), UNIX seconds. Raises KeyError where a column is missing.
        """
        series, series_code = _identities(batch)
        values = np.empty((batch.num_rows, len(SCALAR_FIELDS)))
        for index, name in enumerate(SCALAR_FIELDS):
            values[:, index] = batch.column(name).to_numpy(zero_copy_only=False)
        return cls(
            series=series,
            series_code=series_code,
            at_s=batch.column("at_s").to_numpy(),
            seq=batch.column("seq").to_numpy(),
            received_s=np.asarray(received_s, np.float64),
            values=values,
            histograms={name: _listed_histograms(batch, name) for name in HISTOGRAM_FIELDS},
        )


def _rows(records: Sequence[RequestSample]) -> NDArray[np.void]:
    """(n,) of _ROW; null becomes NaN."""
    try:
        return np.frombuffer(b"".join(starmap(_pack_row, map(_numbers_of, records))), _ROW)
    except struct.error:
        # numpy reads None as NaN where it is told that the numbers are float64.
        rows = np.empty(len(records), _ROW)
        rows["at_s"], rows["seq"] = [record.at_s for record in records], [record.seq for record in records]
        rows["values"] = np.array(list(map(_scalars_of, records)), np.float64)
        return rows


def _histogram_rows(histograms: Sequence[Histogram | None]) -> tuple[HistogramRows, ...]:
    """Group one field's histograms by their bounds."""
    if not any(histograms):
        return ()
    groups: dict[tuple[float, ...], list[int]] = {}
    for row, histogram in enumerate(histograms):
        if histogram is not None:
            groups.setdefault(histogram.explicit_bounds, []).append(row)
    made = []
    for bounds, rows in groups.items():
        members = [histogram for row in rows if (histogram := histograms[row]) is not None]
        counts = np.array([member.bucket_counts for member in members], np.uint32)
        sums = np.array([member.sum for member in members], np.float64)
        made.append(HistogramRows(bounds, np.array(rows, np.int64), counts, sums))
    return tuple(made)


def _identities(batch: pa.RecordBatch) -> tuple[tuple[SeriesIdentity, ...], NDArray[np.int32]]:
    """Each identity once, in the order of its first row, and each row's place among them."""
    combined, size = np.zeros(batch.num_rows, np.int64), 1
    codes: list[NDArray[np.int64]] = []
    names: list[list[str | None]] = []
    for field in IDENTITY_FIELDS:
        column = batch.column(field)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        names.append([*column.dictionary.to_pylist(), None])
        codes.append(column.indices.fill_null(len(column.dictionary)).to_numpy().astype(np.int64))
        if size * len(names[-1]) > 2**62:
            combined = np.unique(combined, return_inverse=True)[1]
            size = batch.num_rows
        combined = combined * len(names[-1]) + codes[-1]
        size *= len(names[-1])
    _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    parts = [[own[code] for code in column[first[order]].tolist()] for own, column in zip(names, codes, strict=True)]
    return tuple(zip(*parts, strict=True)), place[inverse]


def _listed_histograms(batch: pa.RecordBatch, name: str) -> tuple[HistogramRows, ...]:
    column = batch.column(name)
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if not len(rows):
        return ()
    bounds = parse_bounds((batch.schema.field(name).metadata or {}).get(BOUNDS_KEY, b"[]"))
    counts = column.flatten().to_numpy().reshape(len(rows), len(bounds) + 1)
    sums = batch.column(f"{name}_sum").to_numpy(zero_copy_only=False).astype(np.float64)
    return (HistogramRows(bounds, rows, counts.astype(np.uint32, copy=False), sums[rows]),)
