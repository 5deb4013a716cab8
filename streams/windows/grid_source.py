"""How one endpoint's series become one value for each replica, second and field.

Rules of contract.md: different reporters of one source add; for a replica, second and field the engine's value counts
where it is known, else the routers'; of two epochs in one second the newer one counts, never both.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from records.enums import Source
from streams.windows.columns import FIELD_INDEX
from streams.windows.histogram_reader import HistogramReader
from streams.windows.histogram_rings import HistogramRings
from streams.windows.ring_reader import RingReader
from streams.windows.rings import BucketRings
from streams.windows.series import LONG_AGO_S, Endpoint, SeriesKey, SeriesTable
from streams.windows.stretch import Mask, Matrix, Rows, Stretch

FRACTION_FIELDS = frozenset({"kv_cache_usage", "cpu", "streamed_fraction"})
"""Fractions of one whole: of these several reporters' mean counts, not their sum."""

SourceName = tuple[str, str, str]
"""replica, source, reporter (the replica itself where a sample names none)."""
NO_SOURCES: frozenset[SourceName] = frozenset()

SHORT_S = 32
"""Stretches up to this long have all their fields read at once: 22 small reads cost more than one of all."""

Ranks = np.ndarray[tuple[int, int], np.dtype[np.int64]]


class GridReader:
    """How one endpoint's series are read, until they change: in the order of replica, source, reporter and epoch."""

    def __init__(
        self, endpoint: Endpoint, table: SeriesTable, buckets: BucketRings, histograms: HistogramRings
    ) -> None:
        self.endpoint, self.version = endpoint, endpoint.version
        self.table, self.slots = table, buckets.slots
        self.keys = sorted(endpoint.rows, key=lambda key: (key.replica, key.source, key.reporter, key.epoch))
        self.rows: Rows = np.array([endpoint.rows[key] for key in self.keys], np.int64)
        self.buckets = RingReader(self.rows, buckets)
        self.histograms = HistogramReader(self.rows, histograms)
        self.groups = tuple(dict.fromkeys(key.replica for key in self.keys))
        """Replica names, sorted; "" is one of them."""
        self.has_gateway = "" in self.groups
        self.group_starts = _starts([key.replica for key in self.keys])
        self._index_sources()
        self._index_epochs()

    def _index_sources(self) -> None:
        """Segments of rows of one replica and source, and where each replica's two segments are; -1: it has none."""
        names = [(key.replica, key.source) for key in self.keys]
        self.segment_starts = _starts(names)
        segments = [names[start] for start in self.segment_starts.tolist()]
        place = {name: index for index, name in enumerate(segments)}
        self.engine_segment = np.array([place.get((group, Source.ENGINE), -1) for group in self.groups], np.int64)
        self.router_segment = np.array([place.get((group, Source.ROUTER), -1) for group in self.groups], np.int64)
        self.has_routers = bool((self.router_segment >= 0).any())

    def _index_epochs(self) -> None:
        """Each row's speaker and the place of its epoch in the speaker's order, counted from 0."""
        order = {speaker: index for index, speaker in enumerate(dict.fromkeys(key.speaker for key in self.keys))}
        self.speaker_count = len(order)
        self.speaker = np.array([order[key.speaker] for key in self.keys], np.int64)
        self.epochs = [self.endpoint.epochs.of(speaker) for speaker in order]
        """By speaker, oldest first."""
        ranks = [{span.epoch: rank for rank, span in enumerate(spans)} for spans in self.epochs]
        self.rank = np.array(
            [ranks[speaker][key.epoch] for speaker, key in zip(self.speaker.tolist(), self.keys, strict=True)], np.int64
        )
        self.restarted = [(index, speaker) for speaker, index in order.items() if len(self.epochs[index]) > 1]
        """Speakers with more than one epoch."""

    def read(self, first_s: int, end_s: int, quarantined: frozenset[SourceName]) -> "GridSource":
        """The seconds `[first_s - 1, end_s)`."""
        floor_s = int(self.table.floor_s[self.endpoint.code]) if self.endpoint.code >= 0 else LONG_AGO_S
        return GridSource(self, Stretch(first_s - 1, end_s, floor_s, self.slots), quarantined)

    def first_second(self, speaker: int, rank: int) -> int:
        """The earliest second seen of an epoch."""
        rows = self.rows[(self.speaker == speaker) & (self.rank == rank)]
        return int(self.table.first_s[rows].min(initial=self.epochs[speaker][rank].first_s))


class GridSource:
    """What the grids of one stretch have in common; its first second is the one before the window's.

    `live` bool (series, seconds): what counts; `heard` bool (groups, seconds). `spoken_groups`: which groups were heard
    after the first second, without the gateway; null where that is all of them; `replicas` are their names.
    """

    def __init__(self, reader: GridReader, stretch: Stretch, quarantined: frozenset[SourceName]) -> None:
        self.reader, self.stretch = reader, stretch
        self.spoke = reader.buckets.heard(stretch)
        """bool (series, seconds): where there is a sample of a source that is not quarantined."""
        self.is_quarantining = bool(quarantined)
        self.quarantined = self._silence(quarantined) if quarantined else ()
        self.newest_rank = self._newest_rank() if reader.restarted else None
        """int64 (speakers, seconds): the newest epoch that spoke, -1 for none; None where nobody has two."""
        self.live = self.spoke
        if self.newest_rank is not None:
            self.live = self.spoke & (reader.rank[:, None] == self.newest_rank[reader.speaker])
        self.all_live = bool(self.live.all())
        self.heard: Mask = self.live
        if len(reader.groups) != len(reader.keys):
            self.heard = np.logical_or.reduceat(self.live, reader.group_starts, axis=0)
        self.spoken_groups = self._spoken_groups()
        self.replicas = reader.groups
        if self.spoken_groups is not None:
            self.replicas = tuple(reader.groups[group] for group in self.spoken_groups.tolist())
        self._fields: dict[str, Matrix] = {}

    def _spoken_groups(self) -> Rows | None:
        if not self.reader.groups or (self.all_live and not self.reader.has_gateway and len(self.stretch) > 1):
            return None
        spoke = np.logical_or.reduce(self.heard[:, 1:], axis=1)
        if self.reader.has_gateway:
            spoke[0] = False
        return None if spoke.all() else np.flatnonzero(spoke)

    def field(self, name: str) -> Matrix:
        """float64 (groups, seconds), NaN = unknown."""
        merged = self._fields.get(name)
        if merged is None:
            merged = self._fields[name] = self._merge(self._own(name), mean=name in FRACTION_FIELDS)
        return merged

    def _own(self, name: str) -> Matrix:
        """float64 (series, seconds): each series' own values."""
        if len(self.stretch) <= SHORT_S:
            own: Matrix = self._block[FIELD_INDEX[name]]
            return own
        own = self.reader.buckets.scalar(name, self.stretch)
        if not self.all_live:
            np.putmask(own, ~self.live, np.nan)
        return own

    @cached_property
    def _block(self) -> NDArray[np.float64]:
        """float64 (fields, series, seconds): all of them, read at once."""
        block = self.reader.buckets.scalars(self.stretch)
        if not self.all_live:
            np.copyto(block, np.nan, where=~self.live)
        return block

    @cached_property
    def inflight(self) -> Matrix:
        """As `field`: running + waiting."""
        return self.field("running") + self.field("waiting")

    @cached_property
    def arrivals(self) -> Matrix:
        """As `field`; where nobody counts them they follow from what left and what stayed."""
        counted = self.field("arrivals")
        unknown = np.isnan(counted)
        if not unknown.any() or not unknown[self.heard].any():
            return counted
        followed = followed_arrivals(self.inflight, self.field)
        if self.newest_rank is not None:
            rank = np.array([self.newest_rank[self.reader.speaker[start]] for start in self.reader.group_starts])
            followed[:, 1:][rank[:, 1:] != rank[:, :-1]] = np.nan
        if "" in self.reader.groups:
            followed[self.reader.groups.index("")] = np.nan
        return np.where(unknown, followed, counted)

    def histograms(self, field: str, first_s: int) -> tuple[Stretch, Mask]:
        """The stretch from `first_s` on, and where in it, bool (series, seconds), a histogram is that counts: an
        engine's, else the routers'."""
        stretch = self.stretch.since(first_s)
        present = self.reader.histograms.present(field, stretch)
        chosen = present & self.live[:, first_s - self.stretch.first_s :]
        if len(self.reader.groups) == len(self.reader.keys) or not len(self.reader.keys):
            return stretch, chosen
        by_segment = np.logical_or.reduceat(chosen, self.reader.segment_starts, axis=0)
        for engine, router in zip(
            self.reader.engine_segment.tolist(), self.reader.router_segment.tolist(), strict=True
        ):
            if engine >= 0 and router >= 0:
                start = int(self.reader.segment_starts[router])
                ends = self.reader.segment_starts[router + 1 :]
                chosen[start : int(ends[0]) if len(ends) else None] &= ~by_segment[engine]
        return stretch, chosen

    def _merge(self, own: Matrix, mean: bool) -> Matrix:
        reader = self.reader
        if len(reader.groups) == len(reader.keys):
            return own
        known = ~np.isnan(own)
        total = np.add.reduceat(np.where(known, own, 0.0), reader.segment_starts, axis=0)
        reporters = np.add.reduceat(known, reader.segment_starts, axis=0, dtype=np.int64)
        if mean:
            total /= np.maximum(reporters, 1)
        total[reporters == 0] = np.nan
        segments = np.vstack((total, np.full(total.shape[1], np.nan)))
        engine = segments[reader.engine_segment]
        return np.where(np.isnan(engine), segments[reader.router_segment], engine)

    def _silence(self, quarantined: frozenset[SourceName]) -> tuple[str, ...]:
        """Take quarantined sources out of `spoke`; the replicas that had one speaking."""
        silenced = [index for index, key in enumerate(self.reader.keys) if _source_name(key) in quarantined]
        named = tuple(dict.fromkeys(self.reader.keys[index].replica for index in silenced if self.spoke[index].any()))
        self.spoke[silenced] = False
        return named

    def _newest_rank(self) -> Ranks:
        reader = self.reader
        newest = np.full((len(reader.epochs), len(self.stretch)), -1, np.int64)
        for index, speaker in enumerate(reader.speaker.tolist()):
            np.maximum(newest[speaker], np.where(self.spoke[index], reader.rank[index], -1), out=newest[speaker])
        return newest


def followed_arrivals(inflight: Matrix, field: Callable[[str], Matrix]) -> Matrix:
    """Arrivals (rows, seconds) as they follow from what is inside, and what left; `field` gives the other matrices by
    name. The first second's are unknown."""
    followed = np.full_like(inflight, np.nan)
    followed[:, 1:] = inflight[:, 1:] - inflight[:, :-1]
    followed += field("completions") + field("errors") + field("aborted")
    return followed


def _starts(names: Sequence[object]) -> Rows:
    """Where a new name begins."""
    return np.array([index for index, name in enumerate(names) if not index or names[index - 1] != name], np.int64)


def _source_name(key: SeriesKey) -> SourceName:
    return (key.replica, key.source, key.reporter)
