"""Samples that simply go on where their series are: what nearly all batches are, and the quick way for these.

It does what the general way in streams.windows.windows would do with them, for a batch at once.
"""

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from streams.windows.columns import SampleColumns
from streams.windows.histogram_rings import HistogramRings, RingPlaces
from streams.windows.identities import Identities
from streams.windows.rings import BucketRings, ChunkPart, RingSeconds, Seconds, row_parts
from streams.windows.series import SeriesTable

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SeriesPlaces:
    """Where the samples of a batch belong: `rows` int64 (n,) of series, all of them known; `codes` int64 (k,) of their
    endpoints; `parts` of the bucket rings; `rings` by histogram field, as they were last found. `is_distinct`: no two
    samples are of one series, however its identity is spelled."""

    rows: Rows
    codes: Rows
    parts: list[ChunkPart]
    is_distinct: bool
    departures: int
    rings: dict[str, RingPlaces] = field(default_factory=dict)


class SteadyWriter:
    """Writes the batches of one Windows that are steady: all samples newer than all of their series, none twice."""

    def __init__(self, table: SeriesTable, buckets: BucketRings, histograms: HistogramRings) -> None:
        self._table, self._buckets, self._histograms = table, buckets, histograms
        self._places: WeakKeyDictionary[Identities, SeriesPlaces] = WeakKeyDictionary()

    def write(self, columns: SampleColumns) -> bool:
        """Write all samples of a batch if it is steady; False, and nothing was done, if it is not."""
        if not len(columns):
            return False
        places = self._places_of(columns.identities)
        if places is None or not self._is_steady(columns, places):
            return False
        if places.is_distinct:
            self._table.last_s[places.rows] = columns.at_s
        else:
            np.maximum.at(self._table.last_s, places.rows, columns.at_s)
        seconds = RingSeconds(columns.at_s, self._buckets.slots)
        self._buckets.write(places.parts, seconds, columns.buckets)
        for name, rings in self._histograms.fields.items():
            groups = columns.histograms.get(name, ())
            if not rings.write_whole(places.rings, places.rows, seconds, groups):
                rings.write(places.rows, columns.at_s, groups)
        return True

    def _is_steady(self, columns: SampleColumns, places: SeriesPlaces) -> bool:
        """Whether no sample is late, waits, or has the second of another, here or in the batch."""
        table, slots, at_s = self._table, self._buckets.slots, columns.at_s
        # A floor that follows the newest sample moves only with one that is beyond the span.
        floors = table.floor_s[places.codes]
        if at_s.min() < floors.max() or at_s.max() >= floors.min() + slots:
            return False
        # No second of a series is held that is after its last one.
        if not (at_s > table.last_s[places.rows]).all():
            return False
        return places.is_distinct or _are_distinct(places.rows * slots + at_s % slots)

    def _places_of(self, identities: Identities) -> SeriesPlaces | None:
        """Null where a series of the batch has no row."""
        table = self._table
        known = self._places.get(identities)
        if known is None or known.departures != table.departures:
            rows = table.rows_of(identities.series)[identities.code]
            if rows.min() < 0:
                return None
            codes = np.unique(table.endpoint_of_row[rows]).astype(np.int64)
            parts = row_parts(rows, self._buckets.slots)
            known = SeriesPlaces(rows, codes, parts, _are_distinct(rows), table.departures)
            self._places[identities] = known
        return known


def _are_distinct(places: Seconds) -> bool:
    return bool((np.diff(np.sort(places)) > 0).all())
