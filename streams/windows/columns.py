"""A batch of RequestSamples as columns: what the windows take, whether it came as JSON records or as a frame.

Scalars are packed at once as the windows store them, one bucket a sample; identities are coded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import astuple
from numpy.typing import NDArray

from records.histogram import BOUNDS_KEY, Histogram, parse_bounds
from records.telemetry import RequestSample
from streams.windows.buckets import (
    BUCKET,
    COUNT_FIELDS,
    FIELD_INDEX,
    GAUGE_FIELDS,
    SCALAR_FIELDS,
    Buckets,
    read_column,
    set_column,
)
from streams.windows.identities import IDENTITY_FIELDS, Identities, SeriesIdentity
from streams.windows.packed_fields import Fields, count_rows, fill_buckets, reals, wholes

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

CHUNK_RECORDS = 256
"""How many records become columns at once: some 400 KB of them fit into a processor's second cache."""


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

    @cached_property
    def largest(self) -> int:
        """The largest count."""
        return int(self.counts.max(initial=0))

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

    def take(self, rows: NDArray[np.int64], identities: Identities | None = None) -> "SampleColumns":
        """The samples at `rows` in that order, which must not repeat one; `series` stays as it is. `identities` are
        theirs, where they are known."""
        return SampleColumns(
            identities=self.identities.take(rows) if identities is None else identities,
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
        builder = ColumnsBuilder(len(records))
        for first in range(0, len(records), CHUNK_RECORDS):
            fields = fields_of(records[first : first + CHUNK_RECORDS])
            builder.add(fields, {name: _histogram_rows(fields[name]) for name in HISTOGRAM_FIELDS})
        return builder.build(received_s)

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


class ColumnsBuilder:
    """Makes columns of up to `size` samples, a few hundred at a time, so that what one step leaves is still in the
    processor's cache at the next."""

    def __init__(self, size: int) -> None:
        self._places: dict[SeriesIdentity, int] = {}
        self._code: list[int] = []
        self._at_s = np.empty(size, np.int64)
        self._buckets = np.empty(size, BUCKET)
        self._histograms: dict[str, dict[tuple[float, ...], list[HistogramRows]]] = {
            name: {} for name in HISTOGRAM_FIELDS
        }

    def __len__(self) -> int:
        return len(self._code)

    def add(self, fields: Fields, histograms: HistogramGroups) -> None:
        """The next samples; their histograms' rows count from the first of them."""
        places, first = self._places, len(self)
        identities = zip(*(fields[name] for name in IDENTITY_FIELDS), strict=True)
        self._code += [places.setdefault(identity, len(places)) for identity in identities]
        self._at_s[first : len(self)] = wholes(fields["at_s"])
        fill_buckets(self._buckets[first : len(self)], fields)
        for name, groups in histograms.items():
            for group in groups:
                moved = HistogramRows(group.bounds, group.rows + first, group.counts, group.sums)
                self._histograms[name].setdefault(group.bounds, []).append(moved)

    def build(self, received_s: NDArray[np.float64]) -> SampleColumns:
        """Columns of what was added; `received_s` float64 (n,), UNIX seconds. The builder is of no more use."""
        return SampleColumns(
            identities=Identities(tuple(self._places), np.array(self._code, np.int32)),
            at_s=self._at_s[: len(self)],
            received_s=np.asarray(received_s, np.float64),
            buckets=self._buckets[: len(self)],
            histograms={name: tuple(map(_joined, parts.values())) for name, parts in self._histograms.items()},
        )


def fields_of(records: Sequence[msgspec.Struct]) -> dict[str, tuple[Any, ...]]:
    """The values of each field of records of one type, at least one."""
    return dict(zip(records[0].__struct_fields__, zip(*map(astuple, records), strict=True), strict=True))


def _joined(parts: Sequence[HistogramRows]) -> HistogramRows:
    if len(parts) == 1:
        return parts[0]
    return HistogramRows(
        parts[0].bounds,
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.sums for part in parts]),
    )


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
        counts = count_rows((member.bucket_counts for member in members), len(bounds) + 1)
        sums = reals([member.sum for member in members])
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
