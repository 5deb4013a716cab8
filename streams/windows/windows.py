"""One-second buckets of event time of every series, kept for as long as the longest window needs them.

What a window holds is a function of the samples that were added, in their order, and of nothing else: not of how they
were cut into batches. Nothing is ever summed up in passing; sums are made from the buckets, in the order of names.
"""

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from records.epoch_memory import EpochSeen
from streams.windows.add_report import AddReport
from streams.windows.columns import SampleColumns
from streams.windows.epochs import speaker_of
from streams.windows.grid import Grid
from streams.windows.grid_source import NO_SOURCES, GridReader, SourceName
from streams.windows.histogram_rings import HistogramRings
from streams.windows.plain import PlainReader
from streams.windows.rings import BucketRings, RingSeconds, Seconds, lap_of, row_parts
from streams.windows.series import NEVER_QUIET_S, UNATTRIBUTED, UNSEEN, Endpoint, SeriesKey, SeriesTable
from streams.windows.steady import SteadyWriter
from streams.windows.waiting import WaitingSamples

__all__ = ["SPAN_S", "AddReport", "Windows"]

SPAN_S = 302
"""The longest default window and the allowed lateness (decisions.md): 300 s and 2 s."""
SPAN_MIN_S = 64
"""A ring's laps are 32 bits up to the year 9999."""

Rows = NDArray[np.int64]
_NONE = np.zeros(0, np.int64)


class Windows:
    """Buckets of the endpoints of one partition.

    Of each endpoint, `span_s` seconds are kept, from its floor on. The floor follows the endpoint's newest sample,
    until the caller moves it with `keep_from`: then samples beyond the span wait until the floor has come nearer, so
    that a clock that runs ahead cannot push out what the next tick needs.
    """

    def __init__(self, span_s: int = SPAN_S) -> None:
        if span_s < SPAN_MIN_S:
            raise ValueError(f"span_s must be at least {SPAN_MIN_S}, got {span_s}")
        self.span_s = span_s
        self._table = SeriesTable()
        self._buckets = BucketRings(span_s)
        self._histograms = HistogramRings(span_s)
        self._waiting = WaitingSamples()
        self.plain_reader = PlainReader(self._table, self._buckets, self._histograms, self._waiting)
        self._steady = SteadyWriter(self._table, self._buckets, self._histograms)
        self._readers: dict[str, GridReader] = {}

    @property
    def series(self) -> int:
        """How many are kept."""
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that are really used; names and dictionaries (under 1 KB a series) not counted."""
        return self._table.nbytes + self._buckets.nbytes + self._histograms.nbytes

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Those of which anything is kept."""
        return tuple(self._table.endpoints)

    def add(self, columns: SampleColumns, rows: Rows | None = None) -> AddReport:
        """Take the samples at `rows` (rising; None: all), in log order.

        A batch that is wider than the span is taken in pieces: none of its samples may push out another in passing.
        """
        if (rows is None or rows is columns.identities.all_rows) and self._steady.write(columns):
            return AddReport(
                accepted=len(columns), replaced=0, duplicate=0, late=0, unattributed=0, late_rows=_NONE, new_epochs=()
            )
        selected = columns.identities.all_rows if rows is None else rows
        at_s = columns.at_s[selected]
        if len(at_s) and at_s.max() - at_s.min() >= self.span_s:
            half = len(selected) // 2
            return self.add(columns, selected[:half]).then(self.add(columns, selected[half:]))
        series_rows = self._table.rows_of(columns.series)[columns.series_code[selected]]
        new_epochs: list[EpochSeen] = []
        if (series_rows == UNSEEN).any():
            late = self._enter_new(columns, selected, series_rows, new_epochs)
        else:
            late = at_s < self._floors(self._table.endpoint_of_row[series_rows], at_s)
        kept = np.flatnonzero(~late & (series_rows >= 0))
        unattributed = np.count_nonzero(series_rows == UNATTRIBUTED)
        late_rows = _NONE
        if len(kept) != len(selected):
            selected, series_rows, at_s, late_rows = selected[kept], series_rows[kept], at_s[kept], selected[late]
        accepted, replaced = self._take(columns, selected, series_rows, at_s)
        return AddReport(
            accepted=accepted,
            replaced=replaced,
            duplicate=len(selected) - accepted - replaced,
            late=len(late_rows),
            unattributed=int(unattributed),
            late_rows=late_rows,
            new_epochs=tuple(new_epochs),
        )

    def keep_from(self, endpoint: str, first_s: int) -> int:
        """Say that no window will be read that begins before `first_s`: what is older is given up, and from now on the
        floor moves with these calls alone. It never goes back; it is returned."""
        known, table = self._table.endpoint(endpoint), self._table
        table.pinned[known.code] = True
        floor_s = table.floor_s[known.code] = max(first_s, int(table.floor_s[known.code]))
        for columns, selected, rows in self._waiting.take(endpoint, floor_s + self.span_s):
            due = columns.at_s[selected] >= floor_s
            self._write(columns, selected[due], rows[due], columns.at_s[selected[due]])
        self._free_ended(known)
        return floor_s

    def grid(self, endpoint: str, first_s: int, end_s: int, quarantined: frozenset[SourceName] = NO_SOURCES) -> Grid:
        """The endpoint's seconds `[first_s, end_s)`; `quarantined` sources are read as if they were silent.

        Seconds outside the span are unknown. The grid shows the windows as they are now: read it before the next add.
        """
        return Grid(self.reader(endpoint).read(first_s, end_s, quarantined), first_s)

    def sources(self, endpoint: str) -> frozenset[SourceName]:
        """Who spoke of the endpoint's replicas inside the span."""
        known = self._table.endpoints.get(endpoint)
        rows = known.rows if known is not None else ()
        return frozenset((key.replica, key.source, key.reporter) for key in rows)

    def version(self, endpoint: str) -> int:
        """Rises with each change of who speaks, and with which epochs."""
        known = self._table.endpoints.get(endpoint)
        return -1 if known is None else known.version

    def epochs(self, endpoint: str) -> tuple[EpochSeen, ...]:
        """What a restarted worker has to know of the epochs' order, for `restore_epochs`."""
        known = self._table.endpoints.get(endpoint)
        if known is None:
            return ()
        for key, row in known.rows.items():
            known.epochs.see(key.speaker, key.epoch, int(self._table.first_s[row]), int(self._table.last_s[row]))
        return tuple(known.epochs)

    def lasting_epochs(self, endpoint: str) -> tuple[EpochSeen, ...]:
        """Of `epochs`, what reading the span again would not find: not those that are the only one of a speaker who
        spoke inside it. When a speaker's oldest epoch began says nothing and may be out of the log's reach: it is 0."""
        known = self._table.endpoints.get(endpoint)
        if known is None:
            return ()
        reader = self.reader(endpoint)
        if not reader.restarted and len(known.epochs) == reader.speaker_count:
            return ()
        heard = {key.speaker for key in reader.keys}
        lasting = []
        for seen in self.epochs(endpoint):
            speaker = speaker_of(seen.replica, seen.reporter)
            spans = known.epochs.of(speaker)
            if len(spans) > 1 or speaker not in heard:
                is_oldest = spans[0].epoch == seen.epoch
                lasting.append(msgspec.structs.replace(seen, first_s=0) if is_oldest else seen)
        return tuple(lasting)

    def restore_epochs(self, endpoint: str, seen: Iterable[EpochSeen]) -> None:
        known = self._table.endpoint(endpoint)
        known.epochs.restore(seen)
        known.version += 1

    def forget(self, endpoint: str) -> None:
        """Free all that is kept of an endpoint, its epochs too."""
        known = self._table.endpoints.get(endpoint)
        if known is not None:
            for key in list(known.rows):
                self._free(key)
            self._table.drop(endpoint)
        self._waiting.forget(endpoint)
        self._readers.pop(endpoint, None)

    def reader(self, name: str) -> GridReader:
        """How the endpoint's series are read, as long as the same speak."""
        reader = self._readers.get(name)
        known = self._table.endpoints.get(name) or Endpoint(name, -1)
        if reader is None or reader.version != known.version or reader.endpoint is not known:
            reader = GridReader(known, self._table, self._buckets, self._histograms)
            if known.code >= 0:
                self._readers[name] = reader
        return reader

    def _enter_new(
        self, columns: SampleColumns, selected: Rows, series_rows: Rows, new_epochs: list[EpochSeen]
    ) -> NDArray[np.bool_]:
        """Give rows to the series that have none, in `series_rows`, and tell which samples are late: those get none."""
        table = self._table
        unseen = series_rows == UNSEEN
        nobody = columns.identities.names_nobody[columns.series_code[selected]]
        series_rows[unseen & nobody] = UNATTRIBUTED
        codes = table.endpoint_of_row[np.maximum(series_rows, 0)]
        new = np.flatnonzero(unseen & ~nobody)
        endpoint_code = columns.endpoint_code[selected[new]]
        of_endpoint = np.zeros(len(columns.endpoints), np.int32)
        for place in np.flatnonzero(np.bincount(endpoint_code)).tolist():
            of_endpoint[place] = table.endpoint(columns.endpoints[place]).code
        codes[new] = of_endpoint[endpoint_code]
        at_s = columns.at_s[selected]
        attributed = series_rows != UNATTRIBUTED
        late = np.zeros(len(selected), np.bool_)
        late[attributed] = at_s[attributed] < self._floors(codes[attributed], at_s[attributed])
        for index in new[~late[new]].tolist():
            identity = columns.series[columns.series_code[selected[index]]]
            row = series_rows[index] = self._row_of_new(table.key_of(identity), int(at_s[index]), new_epochs)
            table.remember(identity, row)
        return late

    def _row_of_new(self, key: SeriesKey, at_s: int, new_epochs: list[EpochSeen]) -> int:
        row = self._table.endpoint(key.endpoint).rows.get(key)
        if row is None:
            row = self._buckets.take_row()
            self._histograms.reserve(row + 1)
            seen = self._table.enter(key, row, at_s)
            if seen is not None:
                new_epochs.append(seen)
        return row

    def _floors(self, codes: NDArray[np.int32], at_s: Seconds) -> Seconds:
        """Each sample's floor, int64 (n,), as it is when the sample's turn comes; the endpoints' floors follow."""
        table = self._table
        floors = table.floor_s[codes]
        free = ~table.pinned[codes]
        if not free.any():
            return floors
        step = np.int64(2**40)
        order = np.flatnonzero(free)[np.argsort(codes[free], kind="stable")]
        segment = np.cumsum(np.diff(codes[order], prepend=codes[order[0]]) != 0) * step
        newest = np.maximum.accumulate(at_s[order] + segment) - segment
        floors[order] = np.maximum(floors[order], newest - self.span_s + 1)
        np.maximum.at(table.floor_s, codes[order], floors[order])
        return floors

    def _take(self, columns: SampleColumns, selected: Rows, series_rows: Rows, at_s: Seconds) -> tuple[int, int]:
        """Write the winners of samples that are not late; how many were new, and how many replaced one."""
        if not len(selected):
            return 0, 0
        floors = self._table.floor_s[self._table.endpoint_of_row[series_rows]]
        ahead = (at_s >= floors + self.span_s) & self._table.pinned[self._table.endpoint_of_row[series_rows]]
        self._table.see_times(series_rows, at_s)
        accepted = replaced = 0
        if ahead.any():
            accepted, replaced = self._waiting.put(columns.take(selected[ahead]), series_rows[ahead])
            selected, series_rows, at_s = selected[~ahead], series_rows[~ahead], at_s[~ahead]
        winners, new, newer = self._judge(series_rows, at_s, columns.seq[selected])
        if len(winners):
            self._write(columns, selected[winners], series_rows[winners], at_s[winners])
        return accepted + new, replaced + newer

    def _judge(self, series_rows: Rows, at_s: Seconds, seq: Seconds) -> tuple[Rows, int, int]:
        """Which samples stay (of one identity the first with the highest seq), how many are new, how many replace."""
        slots = self.span_s
        places = series_rows * slots + at_s % slots
        stored_lap, stored_seq = self._buckets.read_marks(places)
        held = stored_lap == lap_of(at_s, slots)
        wins = ~held | (seq > stored_seq)
        if len(np.unique(places)) == len(places):
            return np.flatnonzero(wins), int(np.count_nonzero(~held)), int(np.count_nonzero(held & wins))
        best: dict[int, tuple[int, int]] = {}
        new = newer = 0
        for index in np.flatnonzero(wins).tolist():
            place, own_seq = int(places[index]), int(seq[index])
            rival = best.get(place)
            if rival is not None and own_seq <= rival[0]:
                continue
            new += rival is None and not held[index]
            newer += rival is not None or bool(held[index])
            best[place] = own_seq, index
        return np.array(sorted(index for _, index in best.values()), np.int64), new, newer

    def _write(self, columns: SampleColumns, selected: Rows, series_rows: Rows, at_s: Seconds) -> None:
        seconds = RingSeconds(at_s, self.span_s)
        self._buckets.write(row_parts(series_rows, self.span_s), seconds, columns.buckets[selected])
        histograms = columns.histograms
        if len(selected) != len(columns):
            histograms = columns.histograms_at(selected)
        for name, rings in self._histograms.fields.items():
            rings.write(series_rows, at_s, histograms.get(name, ()))

    def _free_ended(self, known: Endpoint) -> None:
        table, floor_s = self._table, int(self._table.floor_s[known.code])
        if known.quiet_s < floor_s:
            for key in [key for key, row in known.rows.items() if table.last_s[row] < floor_s]:
                self._free(key)
            known.quiet_s = int(table.last_s[self.reader(known.name).rows].min(initial=NEVER_QUIET_S))
        if len(known.epochs) > known.speaker_count:
            alive = frozenset(key.speaker for key in known.rows)
            known.epochs.forget_silent(alive, floor_s - self.span_s)

    def _free(self, key: SeriesKey) -> None:
        row = self._table.leave(key)
        self._histograms.free(row)
        self._buckets.give_back(row)
