"""Arrow frames: one row a sample; bad rows alone are refused, and hostile frames whole."""

import json
import struct
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.enums import BadInput, Source
from records.histogram import Histogram
from records.telemetry import RequestSample
from tests.wire.record_strategies import records
from wire.codec import DecodeError, decode, encode
from wire.frame_schema import DICTIONARY, bounds_of, frame_columns
from wire.frames import FRAME_BYTES_MAX, FRAME_ROWS_MAX, decode_frame, encode_frames, histogram_at
from wire.topics import TOPICS

TOPIC = "telemetry.requests"
FRAME_TOPICS = [name for name, spec in TOPICS.items() if spec.frames]


def sample(index: int = 0, **rest: Any) -> RequestSample:
    return RequestSample(endpoint="e", replica=f"r{index}", at_s=100 + index, source=Source.ENGINE, **rest)


def histogram(bounds: tuple[float, ...], total: float | None = 5.0) -> Histogram:
    return Histogram(explicit_bounds=bounds, bucket_counts=tuple(range(len(bounds) + 1)), sum=total)


def stream(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def plain(**columns: Any) -> pa.RecordBatch:
    """A frame as a stranger writes it: two rows, plain types, only what he knows."""
    base = {"endpoint": ["e", "e"], "replica": ["a", "b"], "at_s": [1, 2], "source": ["engine", "engine"]}
    return pa.record_batch({name: pa.array(value) for name, value in (base | columns).items()})


def rows_as_records(topic: str, batch: pa.RecordBatch) -> list[Any]:
    """The rows, read through JSON: an independent way to the records."""
    found = []
    for row in range(batch.num_rows):
        fields: dict[str, Any] = {}
        for name in TOPICS[topic].record.__struct_fields__:
            value = batch.column(name)[row].as_py()
            if value is not None and name in frame_columns(topic).histograms:
                value = json.loads(encode(histogram_at(batch, name, row)))  # type: ignore[arg-type]  # it is there
            if value is not None:
                fields[name] = value
        found.append(decode(topic, json.dumps(fields).encode()))
    return found


@pytest.mark.parametrize("topic", FRAME_TOPICS)
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_samples_come_back_in_frames(topic: str, compression: Any, data: st.DataObject) -> None:
    sent = data.draw(st.lists(records(TOPICS[topic].record), min_size=1, max_size=6))
    frames = encode_frames(sent, compression=compression)
    assert sorted(id(record) for frame in frames for record in frame.samples) == sorted(map(id, sent))
    for frame in frames:
        decoded = decode_frame(topic, frame.value)
        assert decoded.errors == []
        assert decoded.rows.tolist() == list(range(len(frame.samples)))
        assert decoded.batch.schema.equals(frame_columns(topic).schema, check_metadata=False)
        assert rows_as_records(topic, decoded.batch) == frame.samples


def test_samples_with_other_bounds_travel_in_another_frame() -> None:
    low, high = (1.0, 2.0), (10.0, 20.0, 30.0)
    sent = [
        sample(0, ttft_ms=histogram(low), e2e_ms=histogram(high)),
        sample(1, ttft_ms=histogram(high)),
        sample(2),
        sample(3, ttft_ms=histogram(low), e2e_ms=histogram(low)),
        sample(4, e2e_ms=histogram(high)),
    ]
    frames = encode_frames(sent)
    assert [[record.replica for record in frame.samples] for frame in frames] == [["r0", "r2", "r4"], ["r1"], ["r3"]]
    first = decode_frame(TOPIC, frames[0].value).batch
    assert bounds_of(first.schema.field("ttft_ms")) == low
    assert bounds_of(first.schema.field("e2e_ms")) == high
    assert bounds_of(first.schema.field("tpot_ms")) is None
    assert histogram_at(first, "e2e_ms", 0) == histogram(high)
    assert histogram_at(first, "ttft_ms", 1) is None


def test_frames_have_at_most_the_rows_asked_for() -> None:
    frames = encode_frames([sample(index) for index in range(7)], rows_max=3)
    assert [len(frame.samples) for frame in frames] == [3, 3, 1]
    assert encode_frames([]) == []


def test_numbers_are_read_where_they_lie() -> None:
    (frame,) = encode_frames([sample(index, arrivals=index) for index in range(100)])
    batch = decode_frame(TOPIC, frame.value).batch
    message = pa.py_buffer(frame.value)
    buffer = batch.column("arrivals").buffers()[1]
    assert message.address <= buffer.address < message.address + message.size


def test_strangers_types_become_ours() -> None:
    received = plain(
        endpoint=pa.array(["e", "e"], pa.large_string()),
        replica=pa.array(["a", "b"]).dictionary_encode(),
        at_s=pa.array([1, 2], pa.uint16()),
        running=pa.array([1.5, None], pa.float32()),
        waiting=pa.array([2, 3], pa.int8()),
        arrivals=pa.array([None, None]),
        unknown_column=[1, 2],
    )
    decoded = decode_frame(TOPIC, stream(received))
    assert decoded.errors == []
    batch = decoded.batch
    assert batch.schema.equals(frame_columns(TOPIC).schema)
    assert batch.column("replica").type == DICTIONARY
    assert batch.column("replica").to_pylist() == ["a", "b"]
    assert batch.column("running").to_pylist() == [1.5, None]
    assert batch.column("waiting").to_pylist() == [2.0, 3.0]
    assert batch.column("arrivals").null_count == 2
    assert (batch.column("epoch").to_pylist(), batch.column("seq").to_pylist()) == (["", ""], [0, 0])


def test_several_batches_in_a_stream_are_one_frame() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain().schema) as writer:
        writer.write_batch(plain())
        writer.write_batch(plain())
    assert decode_frame(TOPIC, bytes(sink.getvalue())).batch.num_rows == 4


@pytest.mark.parametrize("after", [stream(plain()), b"\0" * 8, b"x"], ids=["a stream", "zeros", "a byte"])
def test_a_frame_with_bytes_after_its_end_is_refused(after: bytes) -> None:
    """Rows of a second stream would be lost without a word."""
    with pytest.raises(DecodeError, match="after the end") as caught:
        decode_frame(TOPIC, stream(plain()) + after)
    assert caught.value.reason is BadInput.MALFORMED


def test_a_frame_without_rows_is_empty() -> None:
    assert decode_frame(TOPIC, stream(plain().slice(0, 0))).batch.num_rows == 0
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, plain().schema).close()
    assert decode_frame(TOPIC, bytes(sink.getvalue())).batch.num_rows == 0


@pytest.mark.parametrize("column", ["endpoint", "replica", "at_s", "source"])
def test_a_missing_required_column_refuses_the_frame(column: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_frame(TOPIC, stream(plain().drop_columns([column])))
    assert (caught.value.reason, caught.value.field) == (BadInput.MISSING_COLUMN, column)


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"arrivals": ["1", "2"]}, "arrivals"),
        ({"arrivals": [1.0, 2.0]}, "arrivals"),
        ({"running": [True, False]}, "running"),
        ({"at_s": pa.array([1, 2], pa.timestamp("s"))}, "at_s"),
        ({"endpoint": [b"e", b"e"]}, "endpoint"),
        ({"ttft_ms": [1, 2]}, "ttft_ms"),
        ({"ttft_ms": [[1.5], [2.5]]}, "ttft_ms"),
    ],
    ids=["text", "fractions", "truths", "timestamps", "bytes", "plain", "fractional"],
)
def test_a_column_of_another_kind_refuses_the_frame(columns: dict[str, Any], field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_frame(TOPIC, stream(plain(**columns)))
    assert (caught.value.reason, caught.value.field) == (BadInput.WRONG_TYPE, field)


def bucketed(counts: list[Any], bounds: str | None = "[1.0, 2.0]", kind: pa.DataType | None = None) -> pa.RecordBatch:
    batch = plain(ttft_ms=pa.array(counts, kind or pa.list_(pa.int64())), ttft_ms_sum=[1.0, 2.0])
    if bounds is None:
        return batch
    field = batch.schema.field("ttft_ms").with_metadata({"explicit_bounds": bounds})
    return batch.cast(batch.schema.set(batch.schema.get_field_index("ttft_ms"), field))


# columns, then: reason and field of row 1's dead letter
BAD_ROWS = [
    (plain(arrivals=[1, -2]), BadInput.OUT_OF_RANGE, "arrivals"),
    (plain(arrivals=[1, 2**32]), BadInput.OUT_OF_RANGE, "arrivals"),
    (plain(seq=pa.array([1, 2**63 + 5], pa.uint64())), BadInput.OUT_OF_RANGE, "seq"),
    (plain(running=[1.0, float("nan")]), BadInput.NOT_FINITE, "running"),
    (plain(running=[None, float("nan")]), BadInput.NOT_FINITE, "running"),
    (plain(running=[1.0, float("inf")]), BadInput.NOT_FINITE, "running"),
    (plain(kv_cache_usage=[1.0, 1.5]), BadInput.OUT_OF_RANGE, "kv_cache_usage"),
    (plain(at_s=[1, None]), BadInput.MISSING_FIELD, "at_s"),
    (plain(endpoint=["e", None]), BadInput.MISSING_FIELD, "endpoint"),
    (plain(endpoint=["e", ""]), BadInput.OUT_OF_RANGE, "endpoint"),
    (plain(endpoint=["e", "ü" * 254]), BadInput.OUT_OF_RANGE, "endpoint"),
    (plain(source=["engine", "proxy"]), BadInput.INVALID, "source"),
    (plain(source=["engine", None]), BadInput.MISSING_FIELD, "source"),
    (bucketed([[1, 2, 3], [1, 2]]), BadInput.INVALID, "ttft_ms"),
    (bucketed([[1, 2, 3], [1, -2, 3]]), BadInput.OUT_OF_RANGE, "ttft_ms.bucket_counts[1]"),
    (bucketed([[1, 2, 3], [1, 2**40, 3]]), BadInput.OUT_OF_RANGE, "ttft_ms.bucket_counts[1]"),
    (bucketed([[1, 2, 3], [1, None, 3]]), BadInput.WRONG_TYPE, "ttft_ms.bucket_counts[1]"),
    (bucketed([[1, 2, 3], [1, 2]], kind=pa.large_list(pa.int32())), BadInput.INVALID, "ttft_ms"),
    (bucketed([None, [1]], bounds=None), BadInput.WRONG_TYPE, "ttft_ms.explicit_bounds"),
]


@pytest.mark.parametrize(("received", "reason", "field"), BAD_ROWS, ids=[f"{row[1]}-{row[2]}" for row in BAD_ROWS])
@pytest.mark.parametrize("dictionaries", [False, True])
def test_a_bad_row_is_refused_alone(received: pa.RecordBatch, reason: BadInput, field: str, dictionaries: bool) -> None:
    if dictionaries:
        encoded = [column.dictionary_encode() if column.type == pa.string() else column for column in received.columns]
        fields = [received.schema.field(index).with_type(column.type) for index, column in enumerate(encoded)]
        received = pa.record_batch(encoded, schema=pa.schema(fields))
    decoded = decode_frame(TOPIC, stream(received))
    assert decoded.rows.tolist() == [0]
    assert decoded.batch.column("replica").to_pylist() == ["a"]
    decoded.batch.validate(full=True)
    (bad,) = decoded.errors
    assert (bad.row, bad.error.reason, bad.error.field) == (1, reason, field)
    assert json.loads(bad.json)["replica"] == "b"


def test_a_text_of_253_long_characters_is_good() -> None:
    received = plain(endpoint=["e", "ü" * 253])
    assert decode_frame(TOPIC, stream(received)).errors == []


def test_a_row_without_a_histogram_is_good_where_bounds_are_unknown() -> None:
    decoded = decode_frame(TOPIC, stream(bucketed([None, None], bounds=None)))
    assert decoded.errors == []


@pytest.mark.parametrize("bounds", ["[2.0, 1.0]", "[1.0, 1.0]", "nonsense", "[NaN]", "[1e400]", str(list(range(201)))])
def test_bad_bounds_refuse_the_frame(bounds: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_frame(TOPIC, stream(bucketed([[1, 2, 3], [1, 2, 3]], bounds)))
    assert (caught.value.reason, caught.value.field) == (BadInput.INVALID, "ttft_ms")


def test_frames_of_nested_records_are_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_frame("policies", stream(plain()))
    assert caught.value.reason is BadInput.WRONG_FORMAT
    with pytest.raises(KeyError):
        encode_frames(
            [decode("policies", b'{"endpoint":"e","minReplicas":0,"maxReplicas":1,"metrics":[{"name":"ttft"}]}')]
        )


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_frame_that_swells_is_refused_unread(compression: str) -> None:
    text = "x" * (FRAME_BYTES_MAX // 2 + 1)
    value = stream(plain(epoch=[text, text]), compression)
    assert len(value) < 1024 * 1024
    before = pa.total_allocated_bytes()
    with pytest.raises(DecodeError) as caught:
        decode_frame(TOPIC, value)
    assert caught.value.reason is BadInput.TOO_LARGE
    assert pa.total_allocated_bytes() - before < 1024 * 1024


def test_a_frame_that_lies_about_its_size_is_refused() -> None:
    """The length before compression, in front of a buffer, says a terabyte."""
    value = stream(plain(epoch=["x" * 5000, "y" * 5000]), "zstd")
    claimed = struct.pack("<q", 10_000)
    assert value.count(claimed) >= 1
    with pytest.raises(DecodeError) as caught:
        decode_frame(TOPIC, value.replace(claimed, struct.pack("<q", 2**40)))
    assert caught.value.reason is BadInput.TOO_LARGE
    with pytest.raises(DecodeError) as caught:
        decode_frame(TOPIC, value.replace(claimed, struct.pack("<q", -5)))
    assert caught.value.reason is BadInput.MALFORMED


def test_a_frame_of_too_many_rows_is_refused() -> None:
    count = FRAME_ROWS_MAX + 1
    columns = {"endpoint": ["e"] * count, "replica": ["r"] * count, "at_s": [1] * count, "source": ["engine"] * count}
    with pytest.raises(DecodeError) as caught:
        decode_frame(TOPIC, stream(pa.record_batch({name: pa.array(value) for name, value in columns.items()})))
    assert caught.value.reason is BadInput.TOO_LARGE


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_frames_never_do_worse_than_a_decode_error(data: st.DataObject) -> None:
    """Bytes changed, cut or moved: offsets that point outside would end the process if they were believed."""
    compression: Any = data.draw(st.sampled_from([None, "zstd"]))
    sent = [sample(index, ttft_ms=histogram((1.0, 2.0)), arrivals=index, epoch=f"epoch {index}") for index in range(4)]
    (frame,) = encode_frames(sent, compression=compression)
    value = bytearray(frame.value)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(value) - 1))
        value[place] = data.draw(st.sampled_from([0, 1, 127, 128, 255]))
    cut = data.draw(st.integers(0, len(value)))
    for damaged in (bytes(value), bytes(value[:cut])):
        try:
            decoded = decode_frame(TOPIC, damaged)
        except DecodeError:
            continue
        decoded.batch.validate(full=True)
        assert len(decoded.rows) == decoded.batch.num_rows
        assert all(lower < upper for lower, upper in pairwise(decoded.rows.tolist()))


@settings(max_examples=100, deadline=None)
@given(
    arrivals=st.lists(st.none() | st.integers(-3, 3) | st.integers(2**32 - 4, 2**32), min_size=1, max_size=8),
    running=st.lists(st.none() | st.floats(), min_size=8, max_size=8),
)
def test_a_row_is_good_where_its_json_is(arrivals: list[int | None], running: list[float | None]) -> None:
    rows = len(arrivals)
    columns = {
        "endpoint": pa.array(["e"] * rows),
        "replica": pa.array(["r"] * rows),
        "at_s": pa.array([1] * rows),
        "source": pa.array(["engine"] * rows),
        "arrivals": pa.array(arrivals, pa.int64()),
        "running": pa.array(running[:rows], pa.float64()),
    }
    decoded = decode_frame(TOPIC, stream(pa.record_batch(columns)))
    good = [index for index in range(rows) if is_good(arrivals[index], running[index])]
    assert decoded.rows.tolist() == good
    assert sorted(error.row for error in decoded.errors) == sorted(set(range(rows)) - set(good))


def is_good(arrivals: int | None, running: float | None) -> bool:
    fields = {"endpoint": "e", "replica": "r", "at_s": 1, "source": "engine", "arrivals": arrivals, "running": running}
    try:
        decode(TOPIC, json.dumps(fields).encode())
    except DecodeError:
        return False
    return True


def test_columns_without_nulls_are_numpy_views() -> None:
    (frame,) = encode_frames([sample(index, running=index / 2) for index in range(5)])
    found = decode_frame(TOPIC, frame.value).batch.column("running").to_numpy(zero_copy_only=True)
    assert found.tolist() == np.arange(0, 2.5, 0.5).tolist()
