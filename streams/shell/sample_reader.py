"""Makes columns of polled messages of RequestSamples, a few hundred at a time.

The records that come between bytes and columns are gone before the next ones are made, and so stay in the processor's
cache. Messages that are anything but plain JSON samples are left to a slower reader, with their neighbours.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from records.telemetry import RequestSample
from streams.shell.histogram_texts import BOUNDS_TEXT, HistogramText, UnusualTextError, read_histograms
from streams.windows.columns import (
    CHUNK_RECORDS,
    HISTOGRAM_FIELDS,
    ColumnsBuilder,
    HistogramGroups,
    SampleColumns,
    fields_of,
)
from streams.windows.packed_fields import Fields, reals
from wire.batches import Message, has_plain_headers, receipts_s
from wire.codec import UNREADABLE


def _text_field(field: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    """The field with histograms as texts; all others, and so what is good input, are the record's own."""
    kind = HistogramText | None if field.name in HISTOGRAM_FIELDS else field.type
    return (field.name, kind) if field.required else (field.name, kind, field.default)


_TextSample: Any = msgspec.defstruct(
    "TextSample", map(_text_field, msgspec.structs.fields(RequestSample)), frozen=True, kw_only=True, gc=False
)
_decode = msgspec.json.Decoder(RequestSample).decode
_decode_text = msgspec.json.Decoder(_TextSample).decode
_NO_HISTOGRAMS: HistogramGroups = dict.fromkeys(HISTOGRAM_FIELDS, ())


Read = tuple[SampleColumns | Sequence[object], NDArray[np.int64], NDArray[np.float64]]
"""Rows of messages in log order, with their messages' offsets int64 (n,) and receipts float64 (n,), UNIX s."""

ReadExactly = Callable[[Sequence[Message]], Iterable[Read]]
"""Reads messages of any kind, one by one."""


def read_samples(messages: Sequence[Message], read_exactly: ReadExactly) -> Iterator[Read]:
    """All samples of messages of one partition, in log order: the same as `read_exactly` gives for all of them."""
    gathered = _Gathered(len(messages))
    for first in range(0, len(messages), CHUNK_RECORDS):
        chunk = messages[first : first + CHUNK_RECORDS]
        if not gathered.take(chunk):
            yield from gathered.end()
            yield from read_exactly(chunk)
            gathered = _Gathered(len(messages) - first - len(chunk))
    yield from gathered.end()


class _Gathered:
    """Plain samples that follow each other, up to `size`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._builder: ColumnsBuilder | None = None
        self._offsets: list[int] = []
        self._received_s: list[NDArray[np.float64]] = []

    def take(self, chunk: Sequence[Message]) -> bool:
        """Whether all messages of the chunk are plain samples; none is taken where one is not."""
        if not all(has_plain_headers(message) for message in chunk if message.headers):
            return False
        try:
            fields, histograms = _read([message.value for message in chunk])  # type: ignore[misc]  # null raises
        except (*UNREADABLE, TypeError, UnusualTextError):
            return False
        if self._builder is None:
            self._builder = ColumnsBuilder(self._size)
        self._builder.add(fields, histograms)
        self._offsets += [message.offset for message in chunk]
        self._received_s.append(receipts_s(chunk, reals(fields["received_s"])))
        return True

    def end(self) -> Iterator[Read]:
        """What was taken, if anything was."""
        if self._builder is not None:
            received_s = np.concatenate(self._received_s)
            yield self._builder.build(received_s), np.array(self._offsets, np.int64), received_s


def _read(values: Sequence[bytes]) -> tuple[Fields, HistogramGroups]:
    """Fields and histograms of messages, at least one. Raises one of UNREADABLE, TypeError, UnusualTextError."""
    # A guess, by which nothing but time is lost: a source sends histograms always or never.
    if BOUNDS_TEXT not in values[0] and BOUNDS_TEXT not in values[-1]:
        fields = fields_of([_decode(value) for value in values])
        if all(fields[name].count(None) == len(values) for name in HISTOGRAM_FIELDS):
            return fields, _NO_HISTOGRAMS
    fields = fields_of([_decode_text(value) for value in values])
    return fields, read_histograms(values, fields)
