"""Columns of a received frame brought to our types, and the rows that may be bad, found column by column."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from records.enums import BadInput
from records.fields import COUNT_MAX
from wire.codec import DecodeError
from wire.frame_schema import COUNTS, DICTIONARY, FrameColumns, TextLimit, bounds_of

EXPANDED_BYTES_MAX = 64 * 1024 * 1024
"""Most bytes of one column without its encoding. A dictionary's one value may stand in every row, and lists of nulls
have no values at all: both are small until somebody needs them plain."""
_NUMBER_BYTES = 8


def refuse_expanding(received: pa.RecordBatch, columns: FrameColumns) -> None:
    """Raise DecodeError for a frame that holds a column of ours which would be too large without its encoding."""
    for name in columns.schema.names:
        index = received.schema.get_field_index(name)
        size = 0 if index < 0 else _expanded_bytes(received.column(index))
        if size > EXPANDED_BYTES_MAX:
            raise DecodeError(
                BadInput.TOO_LARGE, name, f"{size} bytes", f"allowed {EXPANDED_BYTES_MAX} bytes without its encoding"
            )


def _expanded_bytes(array: pa.Array) -> int:
    """At most; 0 for what cannot grow."""
    if pa.types.is_dictionary(array.type):
        values = array.dictionary
        is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        longest = pc.max(pc.binary_length(values)).as_py() if is_text else values.nbytes
        return int(longest or 0) * len(array)
    is_list = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    if is_list or pa.types.is_fixed_size_list(array.type):
        return len(array.values) * _NUMBER_BYTES
    return 0


def conform(received: pa.RecordBatch, columns: FrameColumns) -> pa.RecordBatch:
    """The batch with exactly the columns of `columns.schema`. Raises DecodeError for the whole frame.

    Values out of their type's range may wrap; `suspicious_rows` looks at the received ones.
    """
    if _is_ours(received, columns):
        for name in columns.histograms:
            _checked_bounds(received.schema.field(name), columns.schema.field(name))
        return received
    arrays, fields = [], []
    for wanted in columns.schema:
        index = received.schema.get_field_index(wanted.name)
        if index < 0:
            if twice := received.schema.get_all_field_indices(wanted.name):
                raise DecodeError(BadInput.INVALID, wanted.name, None, f"the column is there {len(twice)} times")
            if wanted.name in columns.required:
                raise DecodeError(BadInput.MISSING_COLUMN, wanted.name, None, "a required column is missing")
            arrays.append(_absent(wanted, received.num_rows, columns))
            fields.append(wanted)
            continue
        field = received.schema.field(index)
        array = _cast(received.column(index), wanted)
        default = columns.defaults.get(wanted.name)
        if default is not None and array.null_count:
            array = _cast(pc.fill_null(_plain(array), str(default) if wanted.type == DICTIONARY else default), wanted)
        arrays.append(array)
        fields.append(_checked_bounds(field, wanted) if wanted.name in columns.histograms else wanted)
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _is_ours(received: pa.RecordBatch, columns: FrameColumns) -> bool:
    """Whether the columns are what our own encoder writes, so that nothing needs a look but the values."""
    if not received.schema.equals(columns.schema):
        return False
    if any(received.column(name).null_count for name in columns.defaults):
        return False
    return not any(received.column(name).dictionary.null_count for name in columns.repeating)


def _absent(wanted: pa.Field, rows: int, columns: FrameColumns) -> pa.Array:
    default = columns.defaults.get(wanted.name)
    if default is None:
        return pa.nulls(rows, wanted.type)
    return _cast(pa.repeat(default, rows), wanted)


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _checked_bounds(field: pa.Field, wanted: pa.Field) -> pa.Field:
    """The wanted field with the received bounds. Raises DecodeError where they are no rising list of numbers."""
    try:
        bounds = bounds_of(field)
    except ValueError as error:
        raise DecodeError(BadInput.INVALID, wanted.name, None, f"explicit_bounds: {error}") from error
    return wanted if bounds is None else wanted.with_metadata(field.metadata)


def _cast(array: pa.Array, wanted: pa.Field) -> pa.Array:
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        array = array.dictionary_decode()
    if array.type == wanted.type:
        return array
    if not _fits(array.type, wanted.type):
        raise DecodeError(BadInput.WRONG_TYPE, wanted.name, str(array.type), f"Expected a column of {wanted.type}")
    if wanted.type == DICTIONARY and not pa.types.is_dictionary(array.type):
        return pc.dictionary_encode(array.cast(pa.string())).cast(DICTIONARY)
    return array.cast(wanted.type, safe=False)


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of type `found` may stand for one of `wanted`: the same kind in another width."""
    value = found.value_type if pa.types.is_dictionary(found) else found
    if pa.types.is_null(found) or found == wanted:
        fits = True
    elif wanted == DICTIONARY or pa.types.is_string(wanted):
        fits = pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value)
    elif pa.types.is_list(wanted):
        is_list = pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found)
        fits = is_list and _fits(found.value_type, wanted.value_type)
    elif pa.types.is_integer(wanted):
        fits = pa.types.is_integer(found)
    else:
        fits = pa.types.is_floating(wanted) and (pa.types.is_integer(found) or found in (pa.float32(), pa.float64()))
    return bool(fits)


def suspicious_rows(received: pa.RecordBatch, batch: pa.RecordBatch, columns: FrameColumns) -> NDArray[np.bool_]:
    """Bool `(n,)`: rows that may be bad. No bad row is missing; a good one may be among them."""
    suspects = _numbers(received, columns)
    for name in columns.required:
        column = batch.column(name)
        if column.null_count:
            suspects |= column.is_null().to_numpy(zero_copy_only=False)
    for name, limit in columns.texts.items():
        column = batch.column(name)
        if not _surely_good(_distinct(column), limit):
            suspects |= _bad_texts(column, limit)
    for name in columns.histograms:
        index = received.schema.get_field_index(name)
        if index >= 0 and received.column(index).null_count < len(suspects):
            suspects |= _histograms(received.column(index), received.schema.field(index))
    return suspects


def _numbers(received: pa.RecordBatch, columns: FrameColumns) -> NDArray[np.bool_]:
    """Rows with a number out of its range or not finite; all numeric columns at once, as one float64 matrix."""
    numbers, low, high = _numeric(received, columns)
    values = numbers.to_tensor(null_to_nan=True, row_major=False).to_numpy()
    nulls = sum(column.null_count for column in numbers.columns)
    unknown = np.isnan(values)
    if len(values) and np.count_nonzero(unknown) == nulls:
        lowest, highest = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        if not ((lowest < low) | (highest > high)).any():
            return np.zeros(len(values), np.bool_)
    bad = (values < low) | (values > high)
    if np.count_nonzero(unknown) != nulls:
        valid = [column.is_valid().to_numpy(zero_copy_only=False) for column in numbers.columns]
        bad |= unknown & np.column_stack(valid)
    found: NDArray[np.bool_] = bad.any(axis=1)
    return found


def _numeric(
    received: pa.RecordBatch, columns: FrameColumns
) -> tuple[pa.RecordBatch, NDArray[np.float64], NDArray[np.float64]]:
    """The numeric columns that are there, and the limits of each."""
    if received.schema.equals(columns.schema):
        return received.select(list(columns.limits)), columns.low, columns.high
    there = np.array([_has_values(received, name) for name in columns.limits], np.bool_)
    names = [name for name, is_there in zip(columns.limits, there, strict=True) if is_there]
    return received.select(names), columns.low[there], columns.high[there]


def _has_values(received: pa.RecordBatch, name: str) -> bool:
    index = received.schema.get_field_index(name)
    return index >= 0 and not pa.types.is_null(received.column(index).type)


def _distinct(array: pa.Array) -> pa.Array:
    """The values of a text column; of a dictionary each once."""
    return array.dictionary if pa.types.is_dictionary(array.type) else array


def _surely_good(values: pa.Array, limit: TextLimit) -> bool:
    """A look at the lengths in bytes, which are never under those in characters, or at a few values."""
    if limit.allowed is not None:
        return len(values) <= len(limit.allowed) and set(values.to_pylist()) <= set(limit.allowed)
    if limit.chars_max is None or not len(values):
        return True
    edges = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    lengths = edges[1:] - edges[:-1]
    if limit.chars_min and lengths.min() < limit.chars_min:
        return False
    return bool(edges[-1] - edges[0] <= limit.chars_max or lengths.max() <= limit.chars_max)


def _bad_texts(array: pa.Array, limit: TextLimit) -> NDArray[np.bool_]:
    """Rows whose text is too short, too long or not of its closed set."""
    known = array.is_valid().to_numpy(zero_copy_only=False)
    texts = _plain(array)
    if limit.allowed is not None:
        good = pc.is_in(texts, pa.array(limit.allowed)).to_numpy(zero_copy_only=False)
    else:
        lengths = pc.utf8_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
        good = (lengths >= limit.chars_min) & (lengths <= (limit.chars_max or 0))
    found: NDArray[np.bool_] = known & ~good
    return found


def _histograms(array: pa.Array, field: pa.Field) -> NDArray[np.bool_]:
    """Rows whose counts are not one more than the bounds, or hold a null or a number that is no count."""
    bounds = bounds_of(field)
    if bounds is None:
        found: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
        return found
    if array.type == COUNTS and not array.null_count and _surely_counts(array, len(bounds) + 1):
        return np.zeros(len(array), np.bool_)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    bad: NDArray[np.bool_] = (lengths != len(bounds) + 1) & valid
    counts = array.flatten()
    wrong = pc.invert(pc.and_(pc.greater_equal(counts, 0), pc.less_equal(counts, COUNT_MAX))).fill_null(True)
    if wrong.true_count:
        rows = pc.list_parent_indices(array).to_numpy()
        bad[rows[wrong.to_numpy(zero_copy_only=False)]] = True
    return bad


def _surely_counts(array: pa.Array, length: int) -> bool:
    edges = array.offsets.to_numpy()
    counts = array.values
    if counts.null_count or (np.diff(edges) != length).any():
        return False
    return bool(counts.to_numpy()[edges[0] : edges[-1]].max() <= COUNT_MAX)
