"""Frames that are laid out as one before them: the same names in the same rows, at the same places in the message.

An agent reports the same replicas each second, so its frames are the same, byte by byte, but for the numbers. A frame
that was read with care once has its layout remembered. Of a later one that begins with the same bytes and has the same
rows, only the numbers have to be looked at: none of them may be out of its range.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from records.fields import COUNT_MAX
from wire.frame_schema import COUNTS, DICTIONARY, FrameColumns, bounds_of
from wire.ipc_limits import DICTIONARY_BATCH, RECORD_BATCH, SCHEMA, IpcMessage, messages_of

ROW_BYTES = 300
"""Names, codes and places of a row's series."""

Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NumberSpan:
    """Columns of int64 or float64 that follow each other without a gap, the first of them at byte `first`.

    `most` uint64 (columns,): the bits of the largest value that each may have. `runs`: those of one type together, as
    (names, which of the columns, type).
    """

    first: int
    most: NDArray[np.uint64]
    runs: tuple[tuple[tuple[str, ...], slice, type], ...]


@dataclass(frozen=True, eq=False)
class CountsPlace:
    """A column of histograms: `rows` int64 (m,) have one; their counts, uint32 (m, len(bounds) + 1), are at byte
    `first`."""

    bounds: tuple[float, ...]
    rows: NDArray[np.int64]
    first: int


@dataclass(frozen=True, eq=False)
class FrameLayout:
    """Where everything is in a frame of `size` bytes and `rows` rows.

    `head` is all that stands before the rows: schema, dictionaries and the batch's own header; `fixed` what else must
    be the same, as (bytes, where): dictionary indices, validity bitmaps, offsets of lists and what follows the rows.
    `null_rows` has, for number columns in which some rows are null, which ones. A column of numbers or histograms that
    is nowhere is null. `received_first` is the byte at which `received_s` begins.
    """

    size: int
    rows: int
    head: bytes
    fixed: tuple[tuple[bytes, int], ...]
    spans: tuple[NumberSpan, ...]
    null_rows: Mapping[str, NDArray[np.int64]]
    counts: Mapping[str, CountsPlace]
    received_first: int | None

    @property
    def nbytes(self) -> int:
        """What it takes to remember it, and with it of each row who speaks: some ROW_BYTES."""
        rows = ROW_BYTES * self.rows + sum(rows.nbytes for rows in self.null_rows.values())
        return len(self.head) + sum(len(part) for part, _ in self.fixed) + rows

    def fits(self, value: bytes) -> bool:
        """Whether a message differs from this layout in its numbers alone."""
        if len(value) != self.size or not value.startswith(self.head):
            return False
        return all(value.startswith(part, place) for part, place in self.fixed)

    def numbers_fit(self, value: bytes) -> bool:
        """Whether none of the numbers of a message that fits is NaN or out of its range; a few good ones are not taken
        for good, as -0.0 and what a null stands over."""
        # As whole numbers, the bits of floats rise as the floats do from 0 on; those of what is below 0 or NaN are
        # above any limit.
        if any((np.maximum.reduce(self._words(value, span), axis=1) > span.most).any() for span in self.spans):
            return False
        return all(int(self.counts_in(value, name).max()) <= COUNT_MAX for name in self.counts)

    def numbers_in(self, value: bytes) -> Iterator[tuple[tuple[str, ...], Numbers]]:
        """Columns of one type that follow each other: their names, and the numbers (columns, rows), not copied."""
        for span in self.spans:
            words = self._words(value, span)
            for names, columns, kind in span.runs:
                yield names, words[columns].view(kind)

    def received_in(self, value: bytes) -> NDArray[np.float64] | None:
        """The rows' own `received_s`, not copied; null where no row has one."""
        if self.received_first is None:
            return None
        return np.frombuffer(value, np.float64, self.rows, self.received_first)

    def counts_in(self, value: bytes, name: str) -> NDArray[np.uint32]:
        """The counts of a histogram column's rows, (m, buckets), not copied."""
        place = self.counts[name]
        buckets = len(place.bounds) + 1
        flat = np.frombuffer(value, np.uint32, len(place.rows) * buckets, place.first)
        return flat.reshape(-1, buckets)

    def _words(self, value: bytes, span: NumberSpan) -> NDArray[np.uint64]:
        flat = np.frombuffer(value, np.uint64, len(span.most) * self.rows, span.first)
        return flat.reshape(-1, self.rows)


def layout_of(value: bytes, columns: FrameColumns) -> FrameLayout | None:
    """The layout of a frame of which all rows are good; null where it is not plainly ours, or something is compressed,
    out of line, or in several parts."""
    messages = list(messages_of(value))
    kinds = [message.kind for message in messages]
    if kinds != [SCHEMA, *[DICTIONARY_BATCH] * len(columns.repeating), RECORD_BATCH]:
        return None
    schema = pa.ipc.read_schema(pa.py_buffer(value))
    if not schema.equals(columns.schema) or any(message.nodes[0][1] for message in messages[1:-1]):
        return None
    body = messages[-1]
    if body.is_compressed or not body.rows or body.first % 8:
        return None
    surveyed = _Survey(value, body, schema, columns)
    return surveyed.layout() if surveyed.is_plain else None


@dataclass(frozen=True)
class _Column:
    """A number column's name and type, and where its values begin."""

    name: str
    kind: type
    first: int


class _Survey:
    """Goes through the columns of a batch in the order of its buffers."""

    def __init__(self, value: bytes, body: IpcMessage, schema: pa.Schema, columns: FrameColumns) -> None:
        self._value, self._body, self._rows, self._columns = value, body, body.rows, columns
        self._all_rows = np.arange(body.rows)
        self._nodes, self._buffers = iter(body.nodes), iter(body.buffers)
        self._fixed: list[tuple[bytes, int]] = [(value[body.end :], body.end)]
        self._numbers: list[_Column] = []
        self._null_rows: dict[str, NDArray[np.int64]] = {}
        self._counts: dict[str, CountsPlace] = {}
        self.is_plain = all(self._take(field) for field in schema)

    def layout(self) -> FrameLayout:
        return FrameLayout(
            size=len(self._value),
            rows=self._rows,
            head=self._value[: self._body.first],
            fixed=tuple(self._fixed),
            spans=tuple(_spans(self._numbers, self._rows, self._columns)),
            null_rows=self._null_rows,
            counts=self._counts,
            received_first=next((each.first for each in self._numbers if each.name == "received_s"), None),
        )

    def _take(self, field: pa.Field) -> bool:
        """Whether the column is one that a layout can have."""
        _, nulls = next(self._nodes)
        known = self._known(next(self._buffers), nulls)
        if field.type == COUNTS:
            return self._take_counts(field, known)
        first, size = next(self._buffers)
        if field.type == DICTIONARY:
            self._fix(first, size)
        elif field.type in (pa.int64(), pa.float64()) and self._columns.limits[field.name][0] == 0:
            if len(known):
                kind = np.int64 if field.type == pa.int64() else np.float64
                self._numbers.append(_Column(field.name, kind, self._body.first + first))
            if 0 < len(known) < self._rows:
                self._null_rows[field.name] = np.setdiff1d(self._all_rows, known)
        else:
            return False
        return not (nulls and field.name in self._columns.defaults) and first % 8 == 0

    def _take_counts(self, field: pa.Field, rows: NDArray[np.int64]) -> bool:
        first, size = next(self._buffers)
        _, nulls = next(self._nodes)
        self._fix(*next(self._buffers))
        values, _ = next(self._buffers)
        if not len(rows):
            return True
        self._fix(first, size)
        edges = np.frombuffer(self._value, np.int32, self._rows + 1, self._body.first + first)
        bounds = bounds_of(field)
        if bounds is None or nulls or edges[-1] - edges[0] != len(rows) * (len(bounds) + 1):
            return False
        place = self._body.first + values + 4 * int(edges[0])
        self._counts[field.name] = CountsPlace(bounds, rows, place)
        return True

    def _known(self, validity: tuple[int, int], nulls: int) -> NDArray[np.int64]:
        """The rows that are not null."""
        self._fix(*validity)
        if not nulls:
            return self._all_rows
        bitmap = np.frombuffer(self._value, np.uint8, (self._rows + 7) // 8, self._body.first + validity[0])
        return np.flatnonzero(np.unpackbits(bitmap, count=self._rows, bitorder="little"))

    def _fix(self, first: int, size: int) -> None:
        if size:
            place = self._body.first + first
            self._fixed.append((self._value[place : place + size], place))


def _spans(numbers: list[_Column], rows: int, columns: FrameColumns) -> Iterator[NumberSpan]:
    """Columns without a gap between them."""
    start = 0
    for end in range(1, len(numbers) + 1):
        if end < len(numbers) and numbers[end].first == numbers[end - 1].first + 8 * rows:
            continue
        members = numbers[start:end]
        most = [_bits(columns.limits[member.name][1], member.kind) for member in members]
        yield NumberSpan(members[0].first, np.array(most, np.uint64), tuple(_runs(members)))
        start = end


def _runs(members: list[_Column]) -> Iterator[tuple[tuple[str, ...], slice, type]]:
    start = 0
    for end in range(1, len(members) + 1):
        if end == len(members) or members[end].kind is not members[start].kind:
            yield tuple(member.name for member in members[start:end]), slice(start, end), members[start].kind
            start = end


def _bits(limit: float, kind: type) -> int:
    return int(limit) if kind is np.int64 else int(np.float64(limit).view(np.uint64))
