"""Rows of the Delta tables: every record comes back as it went in, whatever wire format it travelled in."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from duckdb_extensions import import_extension
from hypothesis import given, settings
from hypothesis import strategies as st

from records.outcomes import DeadLetter
from records.telemetry import RequestSample
from tests.wire.messages import consumed, framed, keyed
from tests.wire.record_strategies import records
from wire.batches import decode_batch
from wire.codec import encode
from wire.delta_schemas import (
    DEAD_LETTERS,
    JSON_TEXT,
    ORIGIN,
    dead_letters_table,
    delta_schema,
    to_table,
)
from wire.topics import TOPICS

ORIGIN_NAMES = [field.name for field in ORIGIN]


def as_written(record: Any, topic: str) -> dict[str, Any]:
    """What a row shall say of a record: its JSON object, nested ones as text where the topic keeps text."""
    found: dict[str, Any] = msgspec.json.decode(encode(record))
    for name, value in list(found.items()):
        if topic in JSON_TEXT and isinstance(value, dict | list):
            field = next(field for field in msgspec.structs.fields(record) if field.encode_name == name)
            found[name] = encode(getattr(record, field.name)).decode()
    return found


def as_read(row: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """The record's part of a row of `Table.to_pylist(maps_as_pydicts="strict")`."""
    return {name: row[name] for name in record}


@pytest.mark.parametrize("topic", TOPICS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_json_records_become_the_same_rows(topic: str, data: st.DataObject) -> None:
    written = data.draw(st.lists(records(TOPICS[topic].record), min_size=1, max_size=4))
    messages = keyed(topic, written, first_offset=10)
    decoded = decode_batch(topic, 3, messages)
    assert decoded.errors == []
    table = to_table(decoded)
    table.validate(full=True)
    assert table.schema == delta_schema(topic)
    rows = table.to_pylist(maps_as_pydicts="strict")
    for index, (row, record) in enumerate(zip(rows, written, strict=True)):
        expected = as_written(record, topic)
        assert as_read(row, expected) == expected
        assert (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]) == ("pre." + topic, 3, 10 + index)
        assert row["row"] == 0


@pytest.mark.parametrize("topic", [name for name, spec in TOPICS.items() if spec.frames])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_frames_become_the_rows_of_their_records(topic: str, data: st.DataObject) -> None:
    written = data.draw(st.lists(records(TOPICS[topic].record), min_size=1, max_size=6))
    frames = framed(topic, written)
    sent = [sample for frame in frames for sample in frame.samples]
    from_frames = to_table(decode_batch(topic, 0, [frame.message for frame in frames]))
    from_json = to_table(decode_batch(topic, 0, [consumed(topic, encode(sample)) for sample in sent]))
    own = [name for name in delta_schema(topic).names if not name.startswith("kafka_") and name != "row"]
    assert from_frames.select(own).to_pylist() == from_json.select(own).to_pylist()
    assert from_frames.column("row").to_pylist() == [row for frame in frames for row in range(len(frame.samples))]


def test_times_are_timestamps_in_utc() -> None:
    value = b'{"endpoint":"e","replica":"r","at_s":1700000000,"source":"engine","received_s":1700092800.25}'
    message = consumed("telemetry.requests", value, timestamp=1_800_000_000_000)
    row = to_table(decode_batch("telemetry.requests", 0, [message])).to_pylist()[0]
    assert row["at"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert row["date"] == date(2023, 11, 14)
    assert row["received_at"] == datetime(2023, 11, 16, 0, 0, 0, 250_000, tzinfo=UTC)
    value = b'{"endpoint":"e","request_id":"r","at_ms":1700000000123}'
    row = to_table(decode_batch("inference.requests", 0, [consumed("inference.requests", value)])).to_pylist()[0]
    assert row["at"] == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


def test_a_record_without_event_time_has_that_of_its_message() -> None:
    value = b'{"endpoint":"e","minReplicas":0,"maxReplicas":1,"metrics":[{"name":"ttft"}]}'
    messages = [
        consumed("policies", value, timestamp=1_700_000_000_500),
        consumed("policies", None, key=b"e", offset=1, timestamp=1_700_000_001_500),
    ]
    rows = to_table(decode_batch("policies", 0, messages)).to_pylist()
    assert [row["at"].timestamp() for row in rows] == [1_700_000_000.5, 1_700_000_001.5]
    assert [(row["endpoint"], row["deleted"]) for row in rows] == [("e", False), ("e", True)]
    assert {value for name, value in rows[1].items() if name not in [*ORIGIN_NAMES, "endpoint", "deleted"]} == {None}


def test_an_empty_batch_is_an_empty_table_with_its_columns() -> None:
    decoded = decode_batch("signals", 0, [consumed("signals", b"{")])
    assert to_table(decoded).schema == delta_schema("signals")
    assert to_table(decoded).num_rows == 0


def test_dead_letters_have_their_place_in_the_log() -> None:
    letter = DeadLetter(
        source_topic="pre.signals", partition=2, offset=7, row=4, at_s=1_700_000_000, reason="malformed", bytes="e30="
    )
    (row,) = dead_letters_table([letter]).to_pylist()
    assert dead_letters_table([letter]).schema == delta_schema(DEAD_LETTERS)
    assert [row[name] for name in ORIGIN_NAMES[3:]] == ["pre.signals", 2, 7, 4]
    assert row["at"].timestamp() == 1_700_000_000
    assert (row["reason"], row["bytes"], row["source_topic"], row["offset"]) == ("malformed", "e30=", "pre.signals", 7)


@pytest.mark.parametrize("topic", [*TOPICS, DEAD_LETTERS])
def test_schemas_hold_plain_types_once_each(topic: str) -> None:
    schema = delta_schema(topic)
    assert schema.names[: len(ORIGIN)] == ORIGIN_NAMES
    assert len({name.lower() for name in schema.names}) == len(schema.names)
    text = str(schema)
    assert "dictionary" not in text
    assert "uint" not in text


@settings(max_examples=1, deadline=None)
@given(data=st.data())
def test_tables_are_read_by_deltalake_polars_and_duckdb(data: st.DataObject, tmp_path_factory: Any) -> None:
    folder: Path = tmp_path_factory.mktemp("delta")
    database = duckdb.connect()
    import_extension("delta", con=database)
    for topic in TOPICS:
        written = [data.draw(records(TOPICS[topic].record)) for _ in range(2)]
        messages = keyed(topic, written, first_offset=0)
        table = to_table(decode_batch(topic, 0, messages))
        address = str(folder / topic)
        write_deltalake(address, table.slice(0, 1), partition_by=["date"])
        write_deltalake(address, table.slice(1, 1), mode="append")
        rows = DeltaTable(address).to_pyarrow_table().sort_by("kafka_offset")
        assert rows.select(table.schema.names).cast(table.schema).to_pylist() == table.to_pylist()
        assert pl.scan_delta(address).select(pl.len()).collect().item() == 2
        counted = database.sql(f"select count(*), max(kafka_offset) from delta_scan('{address}')").fetchall()
        assert counted == [(2, 1)]


def test_request_samples_keep_every_field_of_the_contract() -> None:
    names = set(delta_schema("telemetry.requests").names)
    assert set(RequestSample.__struct_fields__) <= names
    assert pa.types.is_struct(delta_schema("telemetry.requests").field("ttft_ms").type)
