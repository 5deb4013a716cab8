"""Many endpoints' series read at once, where each is the only one of its replica and nobody else speaks of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streams.windows.buckets import COUNT_FIELDS, FIELD_INDEX, STREAMED_FIELD
from streams.windows.grid_source import GridReader, followed_arrivals
from streams.windows.histogram_rings import HistogramRings
from streams.windows.histogram_totals import StoredHistograms, merged_blocks
from streams.windows.histograms import MergedHistogram
from streams.windows.rings import UNKNOWN_COUNT, BucketRings
from streams.windows.series import Endpoint, SeriesTable
from streams.windows.stretch import Mask, Matrix, Rows, Stretch, starts_of
from streams.windows.waiting import WaitingSamples

STREAMED_INDEX = FIELD_INDEX[STREAMED_FIELD]


@dataclass(frozen=True, slots=True, eq=False)
class PlainSeries:
    """An endpoint's series, in the order of its replicas' names: one a replica, of one epoch each, and no router's.
    True until `is_current` is not."""

    endpoint: Endpoint
    version: int
    names: tuple[str, ...]
    rows: Rows

    @property
    def is_current(self) -> bool:
        """Whether the same speak of the endpoint still, with the same epochs."""
        return self.endpoint.version == self.version


def plain_series(reader: GridReader) -> PlainSeries | None:
    """Null where an endpoint is not plain, or has no series."""
    is_plain = len(reader.groups) == len(reader.keys) and not (reader.restarted or reader.has_routers)
    if not is_plain or not reader.keys or reader.has_gateway or len(reader.endpoint.epochs) != reader.speaker_count:
        return None
    return PlainSeries(reader.endpoint, reader.version, reader.groups, reader.rows)


@dataclass(frozen=True, slots=True, eq=False)
class PlainReader:
    """Reads series by their rows, of whichever plain endpoints of some windows they are."""

    table: SeriesTable
    buckets: BucketRings
    histograms: HistogramRings
    waiting: WaitingSamples

    def seconds(self, rows: Rows, fields: Sequence[str], span: range) -> "PlainSeconds":
        """The seconds of `span`, at most as long as the rings."""
        return PlainSeconds(self.table, self.buckets, rows, fields, span)

    def keep_from(self, series: Sequence[PlainSeries], first_s: NDArray[np.int64]) -> bool:
        """As `Windows.keep_from`, each endpoint from its own of `first_s` (n,) on, where all of the series were heard
        since; False, and nothing is done, while any samples wait for that."""
        if self.waiting:
            return False
        codes = np.array([one.endpoint.code for one in series], np.int64)
        self.table.pinned[codes] = True
        self.table.floor_s[codes] = np.maximum(first_s, self.table.floor_s[codes])
        return True

    def may_have(self, field: str, rows: Rows) -> Mask:
        """bool (n,): whether each series may have histograms of a field."""
        rings = self.histograms.fields[field]
        if rings.odd:
            return np.ones(len(rows), np.bool_)
        found: Mask = rings.pool[rows] >= 0
        return found

    def merged(self, field: str, rows: Rows, starts: Rows, seconds: "HeardSeconds") -> list[MergedHistogram | None]:
        """Of each endpoint, whose series are the `rows` (n,) from one of `starts` on, all histograms of a field as one;
        null where their bounds differ, or are stored in different ways."""
        rings, found = self.histograms.fields[field], dict[int, MergedHistogram]()
        sizes = np.diff(starts, append=len(rows))
        ring = (rings.pool[rows].astype(np.int64) << 32) + rings.bounds[rows]
        of_endpoint = ring[starts]
        alike = np.logical_and.reduceat(ring == np.repeat(of_endpoint, sizes), starts) & (of_endpoint >= 0)
        if rings.odd:
            alike[:] = False
        for code in np.unique(of_endpoint[alike]).tolist():
            chosen = alike & (of_endpoint == code)
            series = np.flatnonzero(np.repeat(chosen, sizes))
            begins = starts_of(sizes[chosen])
            pool, bounds = self.histograms.pools[code >> 32], self.histograms.bounds[code & 0xFFFFFFFF]
            stored = StoredHistograms(bounds, *pool.read(rings.ring_row[rows[series]].astype(np.int64), seconds.span))
            counted = stored.present & seconds.heard[series]
            merged = merged_blocks(stored, counted, begins, len(seconds.span))
            found |= {at: one for at, (one,) in zip(np.flatnonzero(chosen).tolist(), merged, strict=True)}
        return [found.get(at) for at in range(len(starts))]


@dataclass(frozen=True, slots=True, eq=False)
class HeardSeconds:
    """Seconds, at most as long as the rings, and in which of them each of some series (n,) was heard: bool
    (n, seconds)."""

    span: range
    heard: Mask


@dataclass(frozen=True, slots=True, eq=False)
class FieldSplit:
    """How some scalars are stored: `counts` and `gauges` are their places among all of those. `place` has where each
    is read to: counts first."""

    counts: Rows
    gauges: Rows
    place: Mapping[str, int]

    @classmethod
    def of(cls, fields: Sequence[str]) -> "FieldSplit":
        """KeyError for a name that is no scalar field."""
        ordered = sorted(fields, key=FIELD_INDEX.__getitem__)
        index = np.array([FIELD_INDEX[name] for name in ordered], np.int64)
        gauges = index[(index >= len(COUNT_FIELDS)) & (index < STREAMED_INDEX)] - len(COUNT_FIELDS)
        return cls(index[index < len(COUNT_FIELDS)], gauges, {name: place for place, name in enumerate(ordered)})

    def read(self, chunk: NDArray[np.void], at: tuple[Rows | slice, slice]) -> NDArray[np.float64]:
        """(fields, rows, seconds): what is stored, unknown counts as UNKNOWN_COUNT."""
        counts = chunk["counts"][at].transpose(2, 0, 1)
        gauges = chunk["gauges"][at].transpose(2, 0, 1)
        found = np.empty((len(self.place), *counts.shape[1:]))
        gauges_to = len(self.counts) + len(self.gauges)
        found[: len(self.counts)] = counts[self.counts]
        found[len(self.counts) : gauges_to] = gauges[self.gauges]
        if gauges_to < len(found):
            found[-1] = chunk["streamed"][at]
        return found


class PlainSeconds:
    """The seconds `[first_s, end_s)` of the series at `rows` (k,); `fields` are the scalars that are read.

    Matrices are as a Grid's, a row each series, and have the same values.
    """

    def __init__(
        self, table: SeriesTable, buckets: BucketRings, rows: Rows, fields: Sequence[str], span: range
    ) -> None:
        self.first_s, self.end_s = span.start, span.stop
        self._split = FieldSplit.of(fields)
        self.heard: Mask = np.zeros((len(rows), len(span)), np.bool_)
        """bool (k, seconds): whether there is a sample."""
        self._values = np.empty((len(fields), len(rows), len(span)))
        pieces = Stretch(self.first_s, self.end_s, self.first_s, buckets.slots).pieces
        for where, chunk, local in buckets.parts_of(rows):
            for piece in pieces:
                self.heard[where, piece.columns] = chunk["lap"][local, piece.slots] == piece.lap
                self._values[:, where, piece.columns] = self._split.read(chunk, (local, piece.slots))
        floors = table.floor_s[table.endpoint_of_row[rows]]
        if int(floors.max(initial=self.first_s)) > self.first_s:
            # What was given up may not be written over yet.
            self.heard &= np.arange(self.first_s, self.end_s) >= floors[:, None]
        counts = self._values[: len(self._split.counts)]
        np.putmask(counts, counts == float(UNKNOWN_COUNT), np.nan)
        if not self.heard.all():
            self._values[:, ~self.heard] = np.nan

    def present(self, field: str) -> Mask:
        """Histograms are not read here: KeyError."""
        raise KeyError(field)

    def field(self, name: str) -> Matrix:
        """float64 (k, seconds), NaN = unknown. KeyError for a field that was not read."""
        found: Matrix = self._values[self._split.place[name]]
        return found

    @cached_property
    def inflight(self) -> Matrix:
        """As `field`: running + waiting."""
        return self.field("running") + self.field("waiting")

    @cached_property
    def arrivals(self) -> Matrix:
        """As a Grid's, but that the first second's are unknown where they follow from the second before."""
        counted = self.field("arrivals")
        unknown = np.isnan(counted)
        if not unknown.any():
            return counted
        return np.where(unknown, followed_arrivals(self.inflight, self.field), counted)
