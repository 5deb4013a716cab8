"""The Delta tables' columns, and the rows of decoded batches: one table a topic, one row a record.

First the columns that find a row: `date` (the partition, UTC, of the event time), `at` (the event time), `received_at`,
and `kafka_topic, kafka_partition, kafka_offset, row`; then the record's own fields under their own names. `at` and
`received_at` of a record without an event time are both the time of its message. Types are plain ones that every
reader knows: timestamps are microseconds UTC, counts are long, text is string, nested records are structs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import inspect
from numpy.typing import NDArray

from records.outcomes import DeadLetter
from wire.arrow_columns import Build, arrow_type, builder, json_builder
from wire.batches import DecodedBatch, FrameRun, JsonRun, Run, Tombstone
from wire.frame_schema import bounds_of, frame_columns
from wire.topics import TOPICS

DEAD_LETTERS = "deadletters"
"""Name of the table of what could not be read; it has no topic."""

DELETED = "deleted"
"""Column of the tables whose topics delete: true in the row of a tombstone, which has its key and no other field."""

TIMESTAMP = pa.timestamp("us", tz="UTC")

ORIGIN = (
    pa.field("date", pa.date32(), nullable=False),
    pa.field("at", TIMESTAMP, nullable=False),
    pa.field("received_at", TIMESTAMP, nullable=False),
    pa.field("kafka_topic", pa.string(), nullable=False),
    pa.field("kafka_partition", pa.int32(), nullable=False),
    pa.field("kafka_offset", pa.int64(), nullable=False),
    pa.field("row", pa.int64(), nullable=False),
)

INSTANTS: Mapping[str, str] = MappingProxyType({"processed_s": "processed_at", "target_at_s": "target_at"})
"""Further instants of records that get a timestamp column, beside the raw field."""

EVENT_TIMES: Mapping[str, int] = MappingProxyType({"at_s": 1_000_000, "at_ms": 1_000})
"""Fields that hold the event time, and their unit in microseconds."""

JSON_TEXT = frozenset({"controllers", "policies"})
"""Topics whose nested fields are kept as JSON text: they are documents that grow with the program, and deltalake
1.6.3 aborts the process at a slice of structs inside structs with nulls among them."""

_DAY_US = 86_400_000_000


@lru_cache(maxsize=32)
def delta_schema(topic: str) -> pa.Schema:
    """Schema of the table of a logical topic, or of `deadletters`. Raises KeyError for another name.

    Everything of the record may be null but the origin, so that a later field needs no rewrite of the table.
    """
    fields = list(ORIGIN)
    if _has_tombstones(topic):
        fields.append(pa.field(DELETED, pa.bool_(), nullable=False))
    for column in _columns(topic):
        fields.append(pa.field(column.name, column.type))
        if column.field in INSTANTS:
            fields.append(pa.field(INSTANTS[column.field], TIMESTAMP))
    return pa.schema(fields)


def _has_tombstones(topic: str) -> bool:
    return topic != DEAD_LETTERS and TOPICS[topic].tombstones


class _Column(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a record as a column: `name` is the wire's, `field` the attribute."""

    name: str
    field: str
    type: Any
    get: Callable[[Any], Any]
    build: Build


@lru_cache(maxsize=32)
def _columns(topic: str) -> tuple[_Column, ...]:
    record = DeadLetter if topic == DEAD_LETTERS else TOPICS[topic].record
    taken = {field.name for field in ORIGIN}
    columns = []
    for field in msgspec.structs.fields(record):
        if field.name in taken:
            continue
        kind = inspect.type_info(field.type)
        as_text = topic in JSON_TEXT and pa.types.is_nested(arrow_type(kind))
        columns.append(
            _Column(
                name=field.encode_name,
                field=field.name,
                type=pa.string() if as_text else arrow_type(kind),
                get=attrgetter(field.name),
                build=json_builder(kind) if as_text else builder(kind),
            )
        )
    return tuple(columns)


def to_table(batch: DecodedBatch) -> pa.Table:
    """The rows of a decoded batch, with `delta_schema(batch.topic)`: one for each record, good row and tombstone."""
    schema = delta_schema(batch.topic)
    tables = [_run_table(batch, run) for run in batch.runs]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def dead_letters_table(letters: Sequence[DeadLetter]) -> pa.Table:
    """The rows of dead letters, with `delta_schema("deadletters")`; `at` and `received_at` are their `at_s`."""
    times_us = np.array([letter.at_s for letter in letters], np.int64) * 1_000_000
    found = _record_arrays(DEAD_LETTERS, letters) | {
        **_times(times_us, times_us),
        "kafka_topic": pa.array([letter.source_topic for letter in letters], pa.string()),
        "kafka_partition": pa.array([letter.partition for letter in letters], pa.int32()),
        "kafka_offset": pa.array([letter.offset for letter in letters], pa.int64()),
        "row": pa.array([letter.row for letter in letters], pa.int64()),
    }
    return _table(DEAD_LETTERS, found)


def _table(topic: str, arrays: Mapping[str, pa.Array]) -> pa.Table:
    schema = delta_schema(topic)
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _run_table(batch: DecodedBatch, run: Run) -> pa.Table:
    match run:
        case JsonRun(records=records, offsets=offsets, received_s=received_s):
            found = _record_arrays(batch.topic, records)
            rows = np.zeros(len(records), np.int64)
        case FrameRun(batch=frame, rows=rows, received_s=received_s):
            found = _frame_arrays(batch.topic, frame)
            offsets = np.full(len(rows), run.offset, np.int64)
        case Tombstone():
            found = _tombstone_arrays(batch.topic, run.key)
            rows, offsets = np.zeros(1, np.int64), np.array([run.offset], np.int64)
            received_s = np.array([run.received_s])
    if _has_tombstones(batch.topic):
        found[DELETED] = pa.repeat(isinstance(run, Tombstone), len(rows))
    received_us = _microseconds(received_s)
    origin = {
        **_times(_event_us(found, received_us), received_us),
        "kafka_topic": pa.repeat(batch.kafka_topic, len(rows)),
        "kafka_partition": pa.repeat(pa.scalar(batch.partition, pa.int32()), len(rows)),
        "kafka_offset": pa.array(offsets),
        "row": pa.array(rows),
    }
    return _table(batch.topic, found | origin)


def _microseconds(times_s: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(times_s * 1e6).astype(np.int64)


def _event_us(found: Mapping[str, pa.Array], received_us: NDArray[np.int64]) -> NDArray[np.int64]:
    for name, unit_us in EVENT_TIMES.items():
        if name in found and not found[name].null_count:
            times: NDArray[np.int64] = found[name].to_numpy() * unit_us
            return times
    return received_us


def _times(event_us: NDArray[np.int64], received_us: NDArray[np.int64]) -> dict[str, pa.Array]:
    return {
        "date": pa.array((event_us // _DAY_US).astype(np.int32)).cast(pa.date32()),
        "at": pa.array(event_us).cast(TIMESTAMP),
        "received_at": pa.array(received_us).cast(TIMESTAMP),
    }


def _record_arrays(topic: str, records: Sequence[Any]) -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {}
    for column in _columns(topic):
        array = column.build(list(map(column.get, records)))
        found[column.name] = array
        if column.field in INSTANTS:
            found[INSTANTS[column.field]] = _instants(array)
    return found


def _instants(seconds: pa.Array) -> pa.Array:
    unknown = seconds.is_null().to_numpy(zero_copy_only=False)
    times_us = _microseconds(seconds.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64))
    return pa.array(times_us, mask=unknown).cast(TIMESTAMP)


def _tombstone_arrays(topic: str, key: str) -> dict[str, pa.Array]:
    found = {field.name: pa.nulls(1, field.type) for field in delta_schema(topic)}
    return found | {TOPICS[topic].key: pa.array([key])}


def _frame_arrays(topic: str, frame: pa.RecordBatch) -> dict[str, pa.Array]:
    """A frame's columns as the tables have them: plain text, and histograms with their bounds in each row."""
    columns = frame_columns(topic)
    found: dict[str, pa.Array] = {}
    for column in _columns(topic):
        array = frame.column(column.name)
        if column.name in columns.histograms:
            bounds = bounds_of(frame.schema.field(column.name))
            array = _histograms(array, frame.column(f"{column.name}_sum"), bounds or (), column.type)
        elif array.type != column.type:
            array = array.cast(column.type)
        found[column.name] = array
    return found


def _histograms(counts: pa.Array, sums: pa.Array, bounds: tuple[float, ...], wanted: pa.DataType) -> pa.Array:
    rows = len(counts)
    starts = pa.array(np.arange(rows + 1, dtype=np.int32) * len(bounds))
    edges = pa.ListArray.from_arrays(starts, pa.array(np.tile(np.array(bounds, np.float64), rows)))
    children = [edges, counts.cast(wanted.field("bucket_counts").type), sums]
    mask = counts.is_null() if counts.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
