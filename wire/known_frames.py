"""Reads the frames of one topic's partition, and those that are laid out as one before without decoding them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wire.frame_layout import CountsPlace, FrameLayout, Numbers, layout_of
from wire.frame_schema import frame_columns
from wire.frames import Frame, RowError, decode_frame

KNOWN_BYTES_MAX = 4 * 1024 * 1024
"""Most bytes of layouts that one reader remembers: some 20 of frames of 500 rows, hundreds of small ones."""
TURNS = 8
"""Once that is full, one new layout of so many takes the place of the oldest."""


@dataclass(frozen=True, eq=False)
class KnownFrame:
    """A frame whose rows are good, laid out as `layout` says."""

    topic: str
    layout: FrameLayout
    value: bytes

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """As that of wire.frames.Frame: decoded when it is asked for."""
        return decode_frame(self.topic, self.value).batch

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        return np.arange(self.layout.rows)

    @property
    def errors(self) -> list[RowError]:
        return []

    @property
    def null_rows(self) -> Mapping[str, NDArray[np.int64]]:
        """For number columns in which some rows are null, which."""
        return self.layout.null_rows

    @property
    def histograms(self) -> Mapping[str, CountsPlace]:
        """The histogram columns that are not null in all rows."""
        return self.layout.counts

    def numbers(self) -> Iterator[tuple[tuple[str, ...], Numbers]]:
        """Columns of one type: their names, and their values (columns, rows). One that is missing is null."""
        return self.layout.numbers_in(self.value)

    def received_s(self, default_s: float) -> NDArray[np.float64]:
        """As that of wire.frames.Frame."""
        own = self.layout.received_in(self.value)
        if own is None:
            return np.full(self.layout.rows, default_s)
        received_s: NDArray[np.float64] = np.fmin(own, default_s)
        if "received_s" in self.null_rows:
            received_s[self.null_rows["received_s"]] = default_s
        return received_s

    def counts(self, name: str) -> NDArray[np.uint32]:
        """A histogram column's counts (rows that have one, buckets). KeyError for one that is null in all rows."""
        return self.layout.counts_in(self.value, name)


class FrameReader:
    """See the module's text."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._by_size: dict[int, list[FrameLayout]] = {}
        self._in_order: dict[FrameLayout, None] = {}
        self._is_full = False
        self._turned_away = 0
        self.nbytes = 0
        """Of all layouts."""

    def read(self, value: bytes) -> Frame | KnownFrame:
        """As wire.frames.decode_frame. Raises DecodeError as that does."""
        layout = self._find(value)
        if layout is not None and layout.numbers_fit(value):
            return KnownFrame(self._topic, layout, value)
        frame = decode_frame(self._topic, value)
        if layout is None and not frame.errors and self._has_room():
            self._remember(value)
        return frame

    def _find(self, value: bytes) -> FrameLayout | None:
        """Agents' frames come in turns, so the one that came longest ago is looked at first."""
        layouts = self._by_size.get(len(value), [])
        for place, layout in enumerate(layouts):
            if layout.fits(value):
                layouts.append(layouts.pop(place))
                return layout
        return None

    def _has_room(self) -> bool:
        """More layouts than fit take turns: were each to push out another, none would be found again."""
        if not self._is_full:
            return True
        self._turned_away = (self._turned_away + 1) % TURNS
        return not self._turned_away

    def _remember(self, value: bytes) -> None:
        layout = layout_of(value, frame_columns(self._topic))
        if layout is None:
            return
        self._by_size.setdefault(layout.size, []).append(layout)
        self._in_order[layout] = None
        self.nbytes += layout.nbytes
        while self.nbytes > KNOWN_BYTES_MAX:
            self._is_full = True
            self._forget(next(iter(self._in_order)))

    def _forget(self, layout: FrameLayout) -> None:
        del self._in_order[layout]
        self.nbytes -= layout.nbytes
        same_size = self._by_size[layout.size]
        same_size.remove(layout)
        if not same_size:
            del self._by_size[layout.size]
