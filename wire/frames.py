"""Arrow frames: one IPC stream a message, one row a sample, all rows of one partition.

Text that repeats is dictionary-encoded, counts are int64, histograms are lists of uint32 counts with their upper
bounds once, as a JSON array, in the field's metadata (`explicit_bounds`) and their sums in a column `FIELD_sum`.
Samples with other bounds travel in another frame. A reader takes plain text, other integer widths and other list
types as well, any order of columns, unknown columns, and a missing column where the field may be unknown.
"""

import json
import struct
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from records.enums import BadInput
from records.histogram import BOUNDS_KEY, Histogram
from wire.codec import DecodeError, decode
from wire.frame_checks import conform, refuse_expanding, suspicious_rows
from wire.frame_schema import FrameColumns, bounds_of, frame_columns
from wire.ipc_limits import stream_size
from wire.topics import TOPICS, topic_of

CONTENT_TYPE_HEADER = "content-type"
ARROW_CONTENT_TYPE = b"application/vnd.apache.arrow.stream"

FRAME_BYTES_MAX = 64 * 1024 * 1024
"""Most bytes of one frame once decompressed: a thousand times what 500 full samples need."""
FRAME_ROWS_MAX = 16_384
"""Most rows of one frame; a bad frame of that size costs a reader some 0.3 s in dead letters."""
ROWS_DEFAULT = 500
"""Rows of a frame that we write: at some 320 bytes each far below any message limit, and larger ones gain nothing."""


_UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError, struct.error)
"""What pyarrow and stream_size raise at bytes that are no sound stream."""


class EncodedFrame(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A message's value, and the samples in it, row by row."""

    value: bytes
    samples: list[Any]


class RowError(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A row that is no record: its number in the frame, why, and the row as a JSON object (NaN spelled `NaN`)."""

    row: int
    error: DecodeError
    json: bytes


class Frame(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The good rows of a frame as sent, their numbers (int64 `(n,)`), and the bad ones.

    `batch` has exactly the columns of `frame_columns(topic).schema`; buffers are those of the message where the types
    are ours and no row was bad.
    """

    batch: pa.RecordBatch
    rows: NDArray[np.int64]
    errors: list[RowError]

    def received_s(self, default_s: float) -> NDArray[np.float64]:
        """The rows' own `received_s`, UNIX s; `default_s`, the message's, where a row has none, or a later one."""
        if "received_s" not in self.batch.schema.names:
            return np.full(self.batch.num_rows, default_s)
        own = self.batch.column("received_s").to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        earlier: NDArray[np.float64] = np.fmin(own, default_s)
        return earlier


def encode_frames(
    samples: Sequence[Any], rows_max: int = ROWS_DEFAULT, compression: Literal["zstd", "lz4"] | None = None
) -> list[EncodedFrame]:
    """Frames of samples of one type and one partition: as many as their histograms' bounds and `rows_max` ask for.

    Without `compression` the buffers are plain: Kafka compresses the message, and once is enough.
    Raises KeyError for a record type that does not travel in frames.
    """
    if not samples:
        return []
    columns = frame_columns(topic_of(samples[0]))
    frames = []
    for bounds, group in _by_bounds(samples, columns.histograms):
        for start in range(0, len(group), rows_max):
            rows = group[start : start + rows_max]
            frames.append(EncodedFrame(value=_encode(rows, columns, bounds, compression), samples=rows))
    return frames


Bounds = dict[str, tuple[float, ...]]


def _by_bounds(samples: Sequence[Any], histograms: tuple[str, ...]) -> list[tuple[Bounds, list[Any]]]:
    """Samples in groups within which each field has one set of bounds; a sample without a histogram fits anywhere."""
    if not histograms:
        return [({}, list(samples))]
    getters = [attrgetter(name) for name in histograms]
    columns = [[None if found is None else found.explicit_bounds for found in map(get, samples)] for get in getters]
    combinations = list(zip(*columns, strict=True))
    groups: list[tuple[Bounds, list[Any]]] = []
    group_of: dict[tuple[tuple[float, ...] | None, ...], list[Any]] = {}
    for combination in dict.fromkeys(combinations):
        wanted = {name: edges for name, edges in zip(histograms, combination, strict=True) if edges is not None}
        bounds, group_of[combination] = _fitting(groups, wanted)
        bounds.update(wanted)
    for sample, combination in zip(samples, combinations, strict=True):
        group_of[combination].append(sample)
    return groups


def _fitting(groups: list[tuple[Bounds, list[Any]]], wanted: Bounds) -> tuple[Bounds, list[Any]]:
    """The first group whose bounds contradict none of `wanted`; a new one where there is none."""
    for group in groups:
        if all(group[0].get(name, edges) == edges for name, edges in wanted.items()):
            return group
    groups.append(({}, []))
    return groups[-1]


def _encode(samples: list[Any], columns: FrameColumns, bounds: Bounds, compression: str | None) -> bytes:
    fields, arrays = [], []
    for name in columns.record_fields:
        field = columns.schema.field(name)
        values = list(map(attrgetter(name), samples))
        if name not in columns.histograms:
            fields.append(field)
            arrays.append(pa.array(values, field.type, from_pandas=True))
            continue
        fields += [_with_bounds(field, bounds.get(name)), columns.schema.field(f"{name}_sum")]
        arrays.append(pa.array([found and found.bucket_counts for found in values], field.type))
        arrays.append(pa.array([found and found.sum for found in values], pa.float64(), from_pandas=True))
    sink = pa.BufferOutputStream()
    schema = pa.schema(fields)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return bytes(sink.getvalue())


def _with_bounds(field: pa.Field, bounds: tuple[float, ...] | None) -> pa.Field:
    if bounds is None:
        return field
    return field.with_metadata({BOUNDS_KEY: json.dumps(bounds).encode()})


def decode_frame(topic: str, value: bytes) -> Frame:
    """Reads a frame of a logical topic.

    Raises DecodeError for the whole frame (no stream, a required column missing, a column of another kind, too
    large); single bad rows are in `errors` and the rest is kept. A row is good where its JSON would be.
    """
    if not TOPICS[topic].frames:
        raise DecodeError(BadInput.WRONG_FORMAT, detail=f"frames are not accepted on {topic}, only JSON")
    received = _read(value)
    columns = frame_columns(topic)
    try:
        refuse_expanding(received, columns)
        batch = conform(received, columns)
        suspects = suspicious_rows(received, batch, columns)
    except pa.ArrowException as error:
        raise _malformed(error) from error
    rows = np.arange(batch.num_rows, dtype=np.int64)
    if not suspects.any():
        return Frame(batch=batch, rows=rows, errors=[])
    errors = _bad_rows(topic, received, np.flatnonzero(suspects).tolist())
    good = np.ones(batch.num_rows, np.bool_)
    good[[error.row for error in errors]] = False
    return Frame(batch=batch.filter(pa.array(good)), rows=rows[good], errors=errors)


def _read(value: bytes) -> pa.RecordBatch:
    """All rows of an IPC stream as one batch, checked to be sound: offsets, dictionary indices and UTF-8."""
    if not value:
        raise DecodeError(BadInput.EMPTY, detail="the value is empty")
    try:
        size = stream_size(pa.py_buffer(value))
    except _UNREADABLE as error:
        raise _malformed(error) from error
    if size.nbytes > FRAME_BYTES_MAX or size.rows > FRAME_ROWS_MAX:
        found = f"{size.nbytes} bytes, {size.rows} rows"
        allowed = f"allowed {FRAME_BYTES_MAX} bytes and {FRAME_ROWS_MAX} rows once decompressed"
        raise DecodeError(BadInput.TOO_LARGE, None, found, allowed)
    try:
        with pa.ipc.open_stream(pa.py_buffer(value)) as reader:
            batches = list(reader)
            schema = reader.schema
        batch = batches[0] if len(batches) == 1 else _joined(schema, batches)
        batch.validate(full=True)
    except _UNREADABLE as error:
        raise _malformed(error) from error
    return batch


def _malformed(error: Exception) -> DecodeError:
    return DecodeError(BadInput.MALFORMED, detail=f"no Arrow stream: {error}")


def _joined(schema: pa.Schema, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    joined = table.to_batches()
    return joined[0] if joined else pa.RecordBatch.from_pylist([], schema=schema)


def _bad_rows(topic: str, received: pa.RecordBatch, suspects: list[int]) -> list[RowError]:
    """The verdict on each suspect is that of the JSON decoder, so that both wire formats mean the same."""
    columns = frame_columns(topic)
    errors = []
    for row in suspects:
        text = json.dumps(_row_object(received, columns, row), ensure_ascii=False).encode()
        try:
            decode(topic, text)
        except DecodeError as error:
            errors.append(RowError(row=row, error=error, json=text))
    return errors


def _row_object(received: pa.RecordBatch, columns: FrameColumns, row: int) -> dict[str, Any]:
    """One row as the JSON object of its record; what is null is left out."""
    found: dict[str, Any] = {}
    for name in columns.record_fields:
        index = received.schema.get_field_index(name)
        value = received.column(index)[row].as_py() if index >= 0 else None
        if value is None:
            continue
        if name in columns.histograms:
            sums = received.schema.get_field_index(f"{name}_sum")
            value = {
                "explicit_bounds": bounds_of(received.schema.field(index)),
                "bucket_counts": value,
                "sum": received.column(sums)[row].as_py() if sums >= 0 else None,
            }
        found[name] = value
    return found


def histogram_at(batch: pa.RecordBatch, name: str, row: int) -> Histogram | None:
    """The histogram of one row of a decoded batch, None where it is null: for readers that want records."""
    counts = batch.column(name)[row].as_py()
    if counts is None:
        return None
    bounds = bounds_of(batch.schema.field(name)) or ()
    total = batch.column(f"{name}_sum")[row].as_py()
    return Histogram(explicit_bounds=bounds, bucket_counts=tuple(counts), sum=total)
