"""A batch of RequestSamples as columns: what the windows take, whether it came as JSON records or as a frame.

Scalars are packed at once as the windows store them, one bucket a sample; identities are coded.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from operator import attrgetter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from records.histogram import BOUNDS_KEY, Histogram, parse_bounds
from records.telemetry import RequestSample
from streams.windows.buckets import (
    BUCKET,
    COUNT_FIELDS,
    FIELD_INDEX,
    GAUGE_FIELDS,
    SCALAR_FIELDS,
    STREAMED_FIELD,
    STREAMED_MIN,
    Buckets,
    read_column,
    set_column,
)
from streams.windows.identities import IDENTITY_FIELDS, Identities, SeriesIdentity

__all__ = [
    "COUNT_FIELDS",
    "FIELD_INDEX",
    "GAUGE_FIELDS",
    "HISTOGRAM_FIELDS",
    "IDENTITY_FIELDS",
    "SCALAR_FIELDS",
    "HistogramRows",
    "SampleColumns",
    "SeriesIdentity",
]

HISTOGRAM_FIELDS = ("ttft_ms", "tpot_ms", "e2e_ms", "queue_ms")

_pack_bucket = struct.Struct(f"=q{len(GAUGE_FIELDS)}d{len(COUNT_FIELDS)}If4x").pack
"""Makes a BUCKET of numbers, at half of what it costs numpy to look for what they are."""

_identity_of = attrgetter(*IDENTITY_FIELDS)
_at_s_of = attrgetter("at_s")
_numbers_of = attrgetter("seq", *GAUGE_FIELDS, *COUNT_FIELDS, STREAMED_FIELD)


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


HistogramGroups = Mapping[str, tuple[HistogramRows, ...]]
"""By field, one entry for each set of bounds."""


@dataclass(frozen=True, eq=False)
class SampleColumns:
    """`n` samples in log order.

    `at_s` int64 (n,) UNIX seconds; `received_s` float64 (n,) UNIX seconds; `buckets` (n,) of BUCKET: the scalars and
    `seq`, which is 0 where absent; its `lap` means nothing here. `histograms` by field, one entry for each set of
    bounds in the batch.
    """

    identities: Identities
    at_s: NDArray[np.int64]
    received_s: NDArray[np.float64]
    buckets: Buckets
    histograms: HistogramGroups

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def series(self) -> tuple[SeriesIdentity, ...]:
        """Each identity of the batch once, in the order of its first sample."""
        return self.identities.series

    @property
    def series_code(self) -> NDArray[np.int32]:
        """int32 (n,): each sample's place in `series`."""
        return self.identities.code

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Each endpoint of the batch once, in the order of its first sample's series."""
        return self.identities.endpoints

    @property
    def endpoint_code(self) -> NDArray[np.int32]:
        """int32 (n,): each sample's place in `endpoints`."""
        return self.identities.endpoint_code

    @property
    def seq(self) -> NDArray[np.int64]:
        """int64 (n,), a view; 0 where absent."""
        seq: NDArray[np.int64] = self.buckets["seq"]
        return seq

    def field(self, name: str) -> NDArray[np.float64]:
        """float64 (n,), NaN = unknown; KeyError for a name that is no scalar field."""
        return read_column(self.buckets, name)

    def take(self, rows: NDArray[np.int64]) -> "SampleColumns":
        """The samples at `rows` in that order, which must not repeat one; `series` stays as it is."""
        return SampleColumns(
            identities=self.identities.take(rows),
            at_s=self.at_s[rows],
            received_s=self.received_s[rows],
            buckets=self.buckets[rows],
            histograms=self.histograms_at(rows),
        )

    def histograms_at(self, rows: NDArray[np.int64]) -> HistogramGroups:
        """The histograms of the samples at `rows`, each by its place there."""
        if not any(self.histograms.values()):
            return self.histograms
        positions = np.full(len(self), -1, np.int64)
        positions[rows] = np.arange(len(rows))
        return {
            name: tuple(part for part in (group.take(positions) for group in groups) if len(part.rows))
            for name, groups in self.histograms.items()
        }

    def at(self, at_s: NDArray[np.int64]) -> "SampleColumns":
        """The same samples at other seconds, int64 (n,): what a skew correction makes of them."""
        return self if at_s is self.at_s else replace(self, at_s=at_s)

    @classmethod
    def from_records(cls, records: Sequence[RequestSample], received_s: NDArray[np.float64]) -> "SampleColumns":
        """Columns of decoded records; `received_s` float64 (n,), UNIX seconds."""
        return cls(
            identities=Identities.of(map(_identity_of, records)),
            at_s=np.fromiter(map(_at_s_of, records), np.int64, len(records)),
            received_s=np.asarray(received_s, np.float64),
            buckets=_packed(records),
            histograms={name: _histogram_rows(list(map(attrgetter(name), records))) for name in HISTOGRAM_FIELDS},
        )

    @classmethod
    def from_arrow(
        cls, batch: pa.RecordBatch, received_s: NDArray[np.float64], identities: Identities | None = None
    ) -> "SampleColumns":
        """Columns of a decoded frame: all columns of RequestSample, texts as dictionaries, each histogram as a list of
        uint32 counts, one more than the bounds in its field's metadata, with its sums in `FIELD_sum`.

        `received_s` float64 (n,), UNIX seconds; `identities` are the batch's, where they are known. Raises KeyError
        where a column is missing.
        """
        buckets = np.empty(batch.num_rows, BUCKET)
        buckets["seq"] = batch.column("seq").to_numpy()
        for name in SCALAR_FIELDS:
            set_column(buckets, name, batch.column(name).to_numpy(zero_copy_only=False))
        return cls(
            identities=Identities.of_frame(batch) if identities is None else identities,
            at_s=batch.column("at_s").to_numpy(),
            received_s=np.asarray(received_s, np.float64),
            buckets=buckets,
            histograms={name: _listed_histograms(batch, name) for name in HISTOGRAM_FIELDS},
        )


def _packed(records: Sequence[RequestSample]) -> Buckets:
    """(n,) of BUCKET."""
    try:
        buckets = np.frombuffer(bytearray().join(starmap(_pack_bucket, map(_numbers_of, records))), BUCKET)
    except struct.error:
        # A null somewhere: numpy reads it as NaN where it is told that the numbers are float64.
        buckets = np.empty(len(records), BUCKET)
        buckets["seq"] = [record.seq for record in records]
        for name in SCALAR_FIELDS:
            set_column(buckets, name, np.array(list(map(attrgetter(name), records)), np.float64))
        return buckets
    for row in np.flatnonzero(buckets["streamed"] < STREAMED_MIN).tolist():
        if records[row].streamed_fraction:
            buckets["streamed"][row] = STREAMED_MIN
    return buckets


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


def _listed_histograms(batch: pa.RecordBatch, name: str) -> tuple[HistogramRows, ...]:
    column = batch.column(name)
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    if not len(rows):
        return ()
    bounds = parse_bounds((batch.schema.field(name).metadata or {}).get(BOUNDS_KEY, b"[]"))
    counts = column.flatten().to_numpy().reshape(len(rows), len(bounds) + 1)
    sums = batch.column(f"{name}_sum").to_numpy(zero_copy_only=False).astype(np.float64)
    return (HistogramRows(bounds, rows, counts.astype(np.uint32, copy=False), sums[rows]),)
