"""Which RequestSamples of a run are taken at all: no more series of an endpoint than its windows may hold, and no more
sets of histogram bounds."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from streams.endpoints.effects import Count, Counts
from streams.endpoints.intake import BOUNDS_MAX, PERIOD_S, SERIES_LABEL_BYTES_MAX, SERIES_MAX, RecentNames, label_bytes
from streams.windows.columns import HistogramRows, SampleColumns
from streams.windows.identities import Identities, SeriesIdentity

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_NO_ROW = 2**62
"""Behind all rows there are."""
_NO_ROWS = np.zeros(0, np.int64)


def _series_names() -> RecentNames:
    return RecentNames(SERIES_MAX, SERIES_LABEL_BYTES_MAX)


def _bounds_names() -> RecentNames:
    return RecentNames(BOUNDS_MAX, BOUNDS_MAX)


@dataclass(slots=True)
class _EndpointNames:
    series: RecentNames = field(default_factory=_series_names)
    bounds: defaultdict[str, RecentNames] = field(default_factory=lambda: defaultdict(_bounds_names))


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Names that all have their places in `period`, and the bounds, by field, that all of their endpoints have."""

    period: int
    turns: int
    bounds: frozenset[tuple[str, tuple[float, ...]]]


@dataclass(frozen=True, slots=True, eq=False)
class Admitted:
    """`columns` without the histograms whose bounds were refused; `rows` (m,) without the samples whose series were;
    how many of each were refused, and `refused` (k,), the rows that lost either, rising."""

    columns: SampleColumns
    rows: Ints
    samples_refused: int = 0
    histograms_refused: int = 0
    refused: Ints = field(default_factory=lambda: _NO_ROWS)

    def count(self, counts: Counts) -> None:
        counts.add(Count.TOO_MANY_SERIES, self.samples_refused)
        counts.add(Count.TOO_MANY_BOUNDS, self.histograms_refused)


class SampleIntake:
    """What is remembered of the names that a partition's endpoints have used."""

    def __init__(self) -> None:
        self._names: defaultdict[str, _EndpointNames] = defaultdict(_EndpointNames)
        self._turns = 0
        """How often some endpoint began a new period, or was forgotten."""
        self._known: WeakKeyDictionary[Identities, _Known] = WeakKeyDictionary()

    def forget(self, endpoint: str) -> None:
        self._names.pop(endpoint, None)
        self._turns += 1

    def admit(self, columns: SampleColumns, rows: Ints) -> Admitted:
        """Of the samples at `rows`, rising, those that are taken."""
        if not len(rows):
            return Admitted(columns, rows)
        if rows is columns.identities.all_rows and self._is_known(columns):
            return Admitted(columns, rows)
        period = (columns.received_s[rows] // PERIOD_S).astype(np.int64)
        kept = [self._series(columns, rows[part], int(period[part.start])) for part in _constant(period)]
        taken = np.concatenate(kept) if len(kept) > 1 else kept[0]
        if len(taken) == len(rows):
            taken = rows
        admitted, cut = self._bounds(columns, taken)
        if taken is columns.identities.all_rows and not len(cut) and (period == period[0]).all():
            self._remember(columns, int(period[0]))
        left_out = _NO_ROWS if taken is rows else np.setdiff1d(rows, taken, assume_unique=True)
        return Admitted(admitted, taken, len(left_out), len(cut), np.union1d(left_out, cut))

    def _is_known(self, columns: SampleColumns) -> bool:
        """Whether the same samples' names and bounds were all admitted in this period, in which every endpoint still
        is: asking again would change nothing."""
        known = self._known.get(columns.identities)
        if known is None or known.turns != self._turns:
            return False
        begins_s = known.period * PERIOD_S
        if columns.received_s.min() < begins_s or columns.received_s.max() >= begins_s + PERIOD_S:
            return False
        return all(
            (name, group.bounds) in known.bounds for name, groups in columns.histograms.items() for group in groups
        )

    def _remember(self, columns: SampleColumns, period: int) -> None:
        names = [self._names[endpoint] for endpoint in columns.endpoints]
        if any(own.series.period != period for own in names):
            return
        whole = {
            (name, group.bounds)
            for name, groups in columns.histograms.items()
            for group in groups
            if all(own.bounds[name].knows(group.bounds, period) and own.bounds[name].period == period for own in names)
        }
        self._known[columns.identities] = _Known(period, self._turns, frozenset(whole))

    def _series(self, columns: SampleColumns, rows: Ints, period: int) -> Ints:
        """The rows, all received in one period, of series that have a place."""
        series = columns.series
        code = columns.series_code[rows]
        refused = [one for one in _in_order(code, len(series)) if not self._has_place(series[one], period)]
        return rows[~np.isin(code, refused)] if refused else rows

    def _has_place(self, identity: SeriesIdentity, period: int) -> bool:
        endpoint, replica, epoch, _, reporter = identity
        names = self._names[endpoint].series
        self._turns += period > names.period
        return names.knows(identity, period) or names.admit(identity, label_bytes(replica, epoch, reporter), period)

    def _bounds(self, columns: SampleColumns, rows: Ints) -> tuple[SampleColumns, Ints]:
        """Without the histograms of an endpoint that has too many sets of bounds in the field; the row of each."""
        made: dict[str, tuple[HistogramRows, ...]] = {}
        cut: list[Ints] = []
        for name, groups in columns.histograms.items():
            places = self._places(columns, name, groups, rows)
            if places:
                made[name] = tuple(
                    _without(columns, group, places[number]) if number in places else group
                    for number, group in enumerate(groups)
                )
                cut += [
                    np.setdiff1d(before.rows, after.rows, assume_unique=True)
                    for before, after in zip(groups, made[name], strict=True)
                ]
        if not made:
            return columns, _NO_ROWS
        return replace(columns, histograms={**columns.histograms, **made}), np.concatenate(cut)

    def _places(
        self, columns: SampleColumns, name: str, groups: tuple[HistogramRows, ...], rows: Ints
    ) -> dict[int, set[int]]:
        """By group the endpoints that may not have its bounds. In the order of each one's first sample, since the
        first ones to come are those that have room."""
        taken = np.zeros(len(columns), np.bool_)
        taken[rows] = True
        refused: defaultdict[int, set[int]] = defaultdict(set)
        for row, number, endpoint in sorted(_first_rows(columns, groups, taken)):
            period = int(columns.received_s[row] // PERIOD_S)
            names = self._names[columns.endpoints[endpoint]].bounds[name]
            self._turns += period > names.period
            if not names.admit(groups[number].bounds, 1, period):
                refused[number].add(endpoint)
        return refused


def _constant(period: Ints) -> Iterator[slice]:
    """Where the period stays the same."""
    edges = np.flatnonzero(np.diff(period)) + 1
    starts = [0, *edges.tolist()]
    return (slice(start, end) for start, end in zip(starts, [*starts[1:], len(period)], strict=True))


def _in_order(code: NDArray[np.int32], count: int) -> list[int]:
    """Each code once, in the order of its first row; codes are given in that order in the whole run."""
    if len(code) and count == 1:
        return [int(code[0])]
    present = np.flatnonzero(np.bincount(code, minlength=count))
    first = np.full(count, _NO_ROW)
    first[code[::-1]] = np.arange(len(code))[::-1]
    ordered: list[int] = present[np.argsort(first[present], kind="stable")].tolist()
    return ordered


def _first_rows(
    columns: SampleColumns, groups: tuple[HistogramRows, ...], taken: Mask
) -> Iterator[tuple[int, int, int]]:
    """(first row, group, endpoint) of each endpoint that has a taken sample in a group."""
    for number, group in enumerate(groups):
        rows = group.rows[taken[group.rows]]
        if len(rows):
            first = np.full(len(columns.endpoints), _NO_ROW)
            first[columns.endpoint_code[rows][::-1]] = rows[::-1]
            for endpoint in np.flatnonzero(first < _NO_ROW).tolist():
                yield int(first[endpoint]), number, endpoint


def _without(columns: SampleColumns, group: HistogramRows, endpoints: set[int]) -> HistogramRows:
    kept = np.flatnonzero(~np.isin(columns.endpoint_code[group.rows], sorted(endpoints)))
    return HistogramRows(group.bounds, group.rows[kept], group.counts[kept], group.sums[kept])
