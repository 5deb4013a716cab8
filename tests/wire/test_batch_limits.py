"""Batches of the log that would grow too large, as they are stored, and frames that would."""

import hashlib
import inspect
import json
import tracemalloc
from collections.abc import Iterable

import cramjam
import pyarrow as pa
import pytest
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import READ_UNCOMMITTED, Fetcher, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition

from records.enums import BadInput, Source
from records.histogram import BOUNDS_KEY, parse_bounds
from records.telemetry import RequestSample
from tests.wire.messages import FRAME_HEADERS, consumed
from wire.batch_limits import DECOMPRESSED_BYTES_MAX, RECORDS_MAX, REFUSED_HEADER, LimitedRecords, limit_batches
from wire.batches import JsonRun, decode_messages
from wire.codec import DecodeError, encode
from wire.frames import decode_frame, encode_frames

TOPIC = "telemetry.requests"
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
SAMPLE = RequestSample(endpoint="e", replica="r", at_s=1_700_000_000, source=Source.ENGINE, arrivals=1)
BODY_AT, COUNT_AT, ATTRIBUTES_AT, CRC_AT = 61, 57, 21, 17


def stored(first: int, values: Iterable[bytes], codec: str = "zstd") -> bytearray:
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, 2**31 - 1)
    for number, value in enumerate(values):
        builder.append(number, 1_700_000_000_000, b"e", value, [])
    built = bytearray(builder.build())
    built[:8] = first.to_bytes(8, "big")
    return built


def with_body(batch: bytearray, body: bytes) -> bytearray:
    """The batch with other records, compressed as they are."""
    made = batch[:BODY_AT] + body
    made[8:12] = (len(made) - 12).to_bytes(4, "big")
    return made


def sealed(batch: bytes | bytearray) -> bytes:
    """With its right checksum, as a hostile producer's is."""
    made = bytearray(batch)
    made[CRC_AT:ATTRIBUTES_AT] = calc_crc32c(bytes(made[ATTRIBUTES_AT:])).to_bytes(4, "big")
    return bytes(made)


def read(*batches: bytes | bytearray) -> PartitionRecords:
    records = LimitedRecords(b"".join(map(sealed, batches)))
    return PartitionRecords(TopicPartition("t", 0), records, (), 0, None, None, False, READ_UNCOMMITTED)


def reasons(*batches: bytes | bytearray) -> tuple[list[str], int]:
    """The dead letters' reasons of what is read, and how many records are good."""
    decoded = decode_messages(TOPIC, TOPIC, 0, list(read(*batches)))
    good = sum(len(run.records) for run in decoded.runs if isinstance(run, JsonRun))
    return [letter.reason for letter in decoded.errors], good


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_a_bomb_is_one_dead_letter_and_its_neighbours_are_read(codec: str) -> None:
    before, after = stored(0, [encode(SAMPLE)] * 3, codec), stored(4, [encode(SAMPLE)] * 2, codec)
    bomb = stored(3, [bytes(DECOMPRESSED_BYTES_MAX + 1)], codec)
    tracemalloc.start()
    assert reasons(before, bomb, after) == ([BadInput.TOO_LARGE], 5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(bomb) * 2 + 4 * 2**20


@pytest.mark.parametrize("codec", CODECS)
def test_the_largest_batch_is_read(codec: str) -> None:
    size = DECOMPRESSED_BYTES_MAX - 2**20
    assert len(next(read(stored(0, [bytes(size)], codec))).value) == size


def test_many_small_blocks_are_counted_by_what_they_hold() -> None:
    """Of compressed blocks the size is not told: those that could be too much are decompressed piece by piece."""
    plain = stored(0, [encode(SAMPLE)] * 20_000, "none")[BODY_AT:]
    step = len(plain) // 400
    body = b"".join(bytes(cramjam.zstd.compress(plain[at : at + step])) for at in range(0, len(plain), step))
    many = with_body(stored(0, [encode(SAMPLE)] * 20_000), body)
    records = list(read(many))
    assert len(records) == 20_000
    assert not any(record.headers for record in records)


def test_a_second_frame_is_seen_too() -> None:
    bomb = stored(0, [bytes(DECOMPRESSED_BYTES_MAX // 2)])
    body = bytes(bomb[BODY_AT:])
    assert reasons(with_body(bomb, body * 3)) == ([BadInput.TOO_LARGE], 0)


def test_millions_of_empty_records_are_a_bomb() -> None:
    assert reasons(stored(0, [b""] * (RECORDS_MAX + 1))) == ([BadInput.TOO_LARGE], 0)
    letters, _ = reasons(stored(0, [b""] * RECORDS_MAX))
    assert set(letters) == {BadInput.EMPTY}


def test_a_batch_that_cannot_be_read_is_passed_by() -> None:
    broken = stored(0, [encode(SAMPLE)] * 3)
    broken[BODY_AT + 10 :] = bytes(len(broken) - BODY_AT - 10)
    headers = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10**6)
    headers.append(0, 1_700_000_000_000, b"e", encode(SAMPLE), [("wrong", b"")])
    unreadable = bytearray(headers.build()).replace(b"wrong", b"\xff\xff\xff\xff\xff")
    unreadable[:8] = (3).to_bytes(8, "big")
    records = read(broken, unreadable, stored(4, [encode(SAMPLE)]))
    decoded = decode_messages(TOPIC, TOPIC, 0, list(records))
    assert [(letter.reason, letter.offset) for letter in decoded.errors] == [
        (BadInput.MALFORMED, 2),
        (BadInput.MALFORMED, 3),
    ]
    assert records.next_fetch_offset == 5
    assert decoded.next_offset == 5


@pytest.mark.parametrize("value", [b"x" * 1000, b"", None])
def test_a_sender_may_set_the_header_and_loses_its_own_record_alone(value: bytes | None) -> None:
    messages = [
        consumed(TOPIC, encode(SAMPLE), headers=((REFUSED_HEADER, value),)),
        consumed(TOPIC, encode(SAMPLE), offset=1),
    ]
    decoded = decode_messages(TOPIC, TOPIC, 0, messages)
    assert [letter.reason for letter in decoded.errors] == [BadInput.MALFORMED]
    assert len(decoded.runs) == 1


def test_consumers_read_limited_batches() -> None:
    limit_batches()
    assert fetcher.MemoryRecords is LimitedRecords
    source = inspect.getsource(Fetcher._proc_fetch_request) + inspect.getsource(PartitionRecords._unpack_records)
    # Of a pinned release: where it changes, look whether it still reads all batches by MemoryRecords.
    assert hashlib.sha256(source.encode()).hexdigest()[:16] == "d03e9ee757b87844"


def expanding(name: str, array: pa.Array, rows: int) -> bytes:
    """A frame of `rows` samples with one column replaced."""
    (frame,) = encode_frames([SAMPLE] * rows, rows_max=rows)
    batch = pa.ipc.open_stream(frame.value).read_next_batch()
    index = batch.schema.get_field_index(name)
    field = pa.field(name, array.type, metadata={BOUNDS_KEY: b"[1, 2]"})
    schema = batch.schema.set(index, field)
    arrays = [array if place == index else batch.column(place) for place in range(batch.num_columns)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return bytes(sink.getvalue())


def long_label(rows: int) -> pa.Array:
    """One value of 4 MB for all rows but one, which is null: the default is filled into plain text."""
    indices = pa.array([None] + [0] * (rows - 1), pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(["x" * 4_000_000]))


def lists_of_nulls(rows: int) -> pa.Array:
    offsets = pa.array([0] * rows + [2**31 - 1], pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.nulls(2**31 - 1))


@pytest.mark.parametrize(("name", "make"), [("epoch", long_label), ("ttft_ms", lists_of_nulls)])
def test_a_column_that_grows_without_its_encoding_is_refused(name: str, make: object) -> None:
    assert callable(make)
    value = expanding(name, make(1000), 1000)
    assert len(value) < 300_000
    with pytest.raises(DecodeError, match="without its encoding") as caught:
        decode_frame(TOPIC, value)
    assert caught.value.reason is BadInput.TOO_LARGE
    assert caught.value.field == name
    decoded = decode_messages(TOPIC, TOPIC, 0, [consumed(TOPIC, value, headers=FRAME_HEADERS)])
    assert [letter.reason for letter in decoded.errors] == [BadInput.TOO_LARGE]


def test_long_texts_of_bounds_are_not_kept() -> None:
    with pytest.raises(ValueError, match="bytes of text"):
        parse_bounds(b"[1,%s 2]" % (b" " * 100_000))
    longest = json.dumps([-1e15 + number * 1.1234567890123 for number in range(200)]).encode()
    assert len(parse_bounds(longest)) == 200
