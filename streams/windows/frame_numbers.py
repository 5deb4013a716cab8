"""Columns of samples out of a frame's bytes: what the windows take, of a frame that need not be decoded."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streams.windows.buckets import (
    BUCKET,
    COUNT_FIELDS,
    GAUGE_FIELDS,
    SCALAR_FIELDS,
    STREAMED_FIELD,
    set_column,
    set_unknown,
)
from streams.windows.columns import HISTOGRAM_FIELDS, HistogramRows, SampleColumns
from streams.windows.identities import Identities

Numbers = NDArray[np.int64] | NDArray[np.float64]


class HistogramColumn(Protocol):
    """`bounds`, and `rows` int64 (m,): which have a histogram."""

    @property
    def bounds(self) -> tuple[float, ...]: ...
    @property
    def rows(self) -> NDArray[np.int64]: ...


class FrameNumbers(Protocol):
    """A frame's numbers, as wire.known_frames.KnownFrame has them."""

    @property
    def null_rows(self) -> Mapping[str, NDArray[np.int64]]: ...
    @property
    def histograms(self) -> Mapping[str, HistogramColumn]: ...
    def numbers(self) -> Iterable[tuple[tuple[str, ...], Numbers]]: ...
    def counts(self, name: str) -> NDArray[np.uint32]: ...


def columns_of_numbers(frame: FrameNumbers, identities: Identities, received_s: NDArray[np.float64]) -> SampleColumns:
    """As SampleColumns.from_arrow of the decoded frame; `identities` are its rows', `received_s` float64 (n,), UNIX
    seconds."""
    found = list(frame.numbers())
    plan = _plan(tuple(names for names, _ in found))
    buckets = np.empty(len(identities), BUCKET)
    targets: dict[str, NDArray[np.generic]] = {"counts": buckets["counts"].T, "gauges": buckets["gauges"].T}
    for (_, matrix), pieces in zip(found, plan.pieces, strict=True):
        for piece in pieces:
            targets[piece.target][piece.into] = matrix[piece.columns]
    own = {name: found[run][1][column] for name, (run, column) in plan.others.items()}
    buckets["seq"] = own["seq"]
    if STREAMED_FIELD in own:
        set_column(buckets, STREAMED_FIELD, own[STREAMED_FIELD])
    for name in plan.absent:
        set_unknown(buckets, name, slice(None))
    for name, rows in frame.null_rows.items():
        if name in SCALAR_FIELDS:
            set_unknown(buckets, name, rows)
    return SampleColumns(
        identities=identities,
        at_s=own["at_s"],
        received_s=received_s,
        buckets=buckets,
        histograms=_histograms(frame, own, len(identities)),
    )


def _histograms(frame: FrameNumbers, own: Mapping[str, Numbers], size: int) -> dict[str, tuple[HistogramRows, ...]]:
    found: dict[str, tuple[HistogramRows, ...]] = dict.fromkeys(HISTOGRAM_FIELDS, ())
    for name, column in frame.histograms.items():
        sums = np.full(size, np.nan)
        known = own.get(f"{name}_sum")
        unknown = frame.null_rows.get(f"{name}_sum")
        if known is not None:
            sums = known.astype(np.float64, copy=unknown is not None)
            if unknown is not None:
                sums[unknown] = np.nan
        if len(column.rows) != size:
            sums = sums[column.rows]
        found[name] = (HistogramRows(column.bounds, column.rows, frame.counts(name), sums),)
    return found


@dataclass(frozen=True, slots=True)
class _Piece:
    """Columns of a run that lie side by side in a bucket: `target` is its field, `into` where in it."""

    target: str
    into: slice
    columns: slice


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the runs of a frame's numbers go: `pieces` by run; the run and the column of `others` by name; scalars
    that are `absent`."""

    pieces: tuple[tuple[_Piece, ...], ...]
    others: Mapping[str, tuple[int, int]]
    absent: tuple[str, ...]


@lru_cache(maxsize=256)
def _plan(runs: tuple[tuple[str, ...], ...]) -> _Plan:
    others = {
        name: (run, column)
        for run, names in enumerate(runs)
        for column, name in enumerate(names)
        if name not in COUNT_FIELDS and name not in GAUGE_FIELDS
    }
    there = {name for names in runs for name in names}
    return _Plan(
        pieces=tuple(tuple(_pieces(names)) for names in runs),
        others=others,
        absent=tuple(name for name in SCALAR_FIELDS if name not in there),
    )


def _pieces(names: tuple[str, ...]) -> Iterator[_Piece]:
    for target, fields in (("counts", COUNT_FIELDS), ("gauges", GAUGE_FIELDS)):
        places = [(column, fields.index(name)) for column, name in enumerate(names) if name in fields]
        start = 0
        for end in range(1, len(places) + 1):
            if end < len(places) and places[end] == (places[end - 1][0] + 1, places[end - 1][1] + 1):
                continue
            (column, field), size = places[start], end - start
            yield _Piece(target, slice(field, field + size), slice(column, column + size))
            start = end
