"""Histograms of many JSON messages at once: their texts are kept as they stand, and read field by field.

A histogram is some forty numbers, and making an object of each is most of what a full sample costs. Replicas of one
engine have the same bounds, written the same way, and most counts of a second have one digit: so the texts of bounds
are compared, those of counts are read as a matrix of characters, and only what differs is decoded. Wherever this might
give another answer than decoding each message, UnusualTextError is raised, and each message is to be decoded.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from records.fields import Amount, Count
from records.histogram import BOUNDS_MAX, parse_bounds
from streams.windows.columns import HISTOGRAM_FIELDS, HistogramGroups, HistogramRows
from streams.windows.packed_fields import Fields, count_rows, reals

BOUNDS_TEXT = b'"explicit_bounds"'
COUNTS_TEXT = b'"bucket_counts"'

_ZERO = ord("0")
_CountList = Annotated[tuple[Count, ...], Meta(max_length=BOUNDS_MAX + 1)]
_decode_counts = msgspec.json.Decoder(tuple[_CountList, ...]).decode


class UnusualTextError(Exception):
    """The texts may mean something else than they seem to, or nothing."""


class HistogramText(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A Histogram of which the lists are not read yet."""

    explicit_bounds: msgspec.Raw
    bucket_counts: msgspec.Raw
    sum: Amount | None = None


def read_histograms(values: Sequence[bytes], fields: Fields) -> HistogramGroups:
    """The histograms of messages' samples by field; the texts are in `fields`. Raises UnusualTextError.

    The messages' bytes tell whether a list was given twice: of those, a Histogram takes the last, but refuses a bad one
    before it. Keys may be escaped, so no backslash may be there.
    """
    joined = b"".join(values)
    texts = {name: fields[name] for name in HISTOGRAM_FIELDS}
    count = sum(len(column) - column.count(None) for column in texts.values())
    if b"\\" in joined or joined.count(BOUNDS_TEXT) != count or joined.count(COUNTS_TEXT) != count:
        raise UnusualTextError
    return {name: _rows(column) for name, column in texts.items()}


def _rows(column: Sequence[HistogramText | None]) -> tuple[HistogramRows, ...]:
    texts = [text for text in column if text is not None]
    if not texts:
        return ()
    rows = np.arange(len(column))
    if len(texts) < len(column):
        rows = np.flatnonzero([text is not None for text in column])
    first = bytes(texts[0].explicit_bounds)
    if b"".join([text.explicit_bounds for text in texts]) == first * len(texts):
        return (_group(_bounds(first), rows, texts),)
    return _several_bounds(rows, texts)


def _several_bounds(rows: NDArray[np.int64], texts: Sequence[HistogramText]) -> tuple[HistogramRows, ...]:
    """One group for the same bounds, however they are written."""
    places: dict[tuple[float, ...], list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(_bounds(bytes(text.explicit_bounds)), []).append(place)
    return tuple(_group(bounds, rows[chosen], [texts[place] for place in chosen]) for bounds, chosen in places.items())


def _group(bounds: tuple[float, ...], rows: NDArray[np.int64], texts: Sequence[HistogramText]) -> HistogramRows:
    counts = _counts([bytes(text.bucket_counts) for text in texts], len(bounds) + 1)
    return HistogramRows(bounds, rows, counts, reals([text.sum for text in texts]))


def _bounds(text: bytes) -> tuple[float, ...]:
    try:
        return parse_bounds(text)
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise UnusualTextError from error


def _counts(texts: list[bytes], size: int) -> NDArray[np.uint32]:
    """uint32 (len(texts), size)."""
    is_short = [len(text) == 2 * size + 1 for text in texts]
    if all(is_short):
        return _short_counts(texts, size)
    counts = np.empty((len(texts), size), np.uint32)
    if any(is_short):
        counts[is_short] = _short_counts(list(compress(texts, is_short)), size)
    counts[[not short for short in is_short]] = _long_counts(
        [text for text, short in zip(texts, is_short, strict=True) if not short], size
    )
    return counts


def _short_counts(texts: list[bytes], size: int) -> NDArray[np.uint32]:
    """Of texts `[d,d,...]`, whose counts all have one digit; others of the same length are decoded."""
    characters = np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), 2 * size + 1)
    digits = characters[:, 1::2] - np.uint8(_ZERO)
    marks = np.frombuffer(b"[" + b"," * (size - 1) + b"]", np.uint8)
    if (digits <= 9).all() and (characters[:, ::2] == marks).all():
        return digits.astype(np.uint32)
    return _long_counts(texts, size)


def _long_counts(texts: list[bytes], size: int) -> NDArray[np.uint32]:
    try:
        rows = _decode_counts(b"[" + b",".join(texts) + b"]")
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnusualTextError from error
    if any(len(row) != size for row in rows):
        raise UnusualTextError
    return count_rows(rows, size)
