"""One poll of one partition: runs in the order of the log, dead letters for the rest."""

from base64 import b64decode

import msgspec
import pytest

from records.enums import BadInput, Source
from records.memory import ControllerMemory
from records.telemetry import RequestSample
from tests.wire.messages import FRAME_HEADERS, consumed, framed
from wire.batches import KEPT_BYTES_MAX, FrameRun, JsonRun, Tombstone, decode_batch
from wire.codec import encode
from wire.topics import TOPICS

TOPIC = "telemetry.requests"
JSON_HEADERS = (("traceparent", b"00-1"), ("content-type", b"application/json"))


def sample(index: int, received_s: float | None = None) -> RequestSample:
    return RequestSample(endpoint="e", replica=f"r{index}", at_s=index, source=Source.ENGINE, received_s=received_s)


def test_json_messages_become_one_run() -> None:
    samples = [sample(0), sample(1, received_s=0.75), sample(2, received_s=9e9)]
    messages = [
        consumed(TOPIC, encode(record), offset=7 + 2 * index, timestamp=1000 + index)
        for index, record in enumerate(samples)
    ]
    decoded = decode_batch(TOPIC, 4, messages)
    (run,) = decoded.runs
    assert isinstance(run, JsonRun)
    assert run.records == samples
    assert run.offsets.tolist() == [7, 9, 11]
    assert run.received_s.tolist() == [1.0, 0.75, 1.002], "nothing is received after Kafka has it"
    assert (decoded.topic, decoded.kafka_topic, decoded.partition) == (TOPIC, "pre." + TOPIC, 4)
    assert decoded.next_offset == 12
    assert decoded.errors == []


def test_bad_messages_are_dead_letters_and_their_neighbours_are_kept() -> None:
    bad = [b"", None, b'{"endpoint":"e"', b'{"endpoint":"e","replica":"r","at_s":-4,"source":"engine"}']
    messages = [consumed(TOPIC, encode(sample(0)), offset=0)]
    for index, value in enumerate(bad):
        messages.append(consumed(TOPIC, value, offset=1 + 2 * index, timestamp=5000))
        messages.append(consumed(TOPIC, encode(sample(index)), offset=2 + 2 * index))
    decoded = decode_batch(TOPIC, 0, messages)
    (run,) = decoded.runs
    assert isinstance(run, JsonRun)
    assert run.offsets.tolist() == [0, 2, 4, 6, 8]
    reasons = [BadInput.EMPTY, BadInput.EMPTY, BadInput.MALFORMED, BadInput.OUT_OF_RANGE]
    assert [letter.reason for letter in decoded.errors] == reasons
    assert [letter.offset for letter in decoded.errors] == [1, 3, 5, 7]
    assert [b64decode(letter.bytes or "") for letter in decoded.errors] == [value or b"" for value in bad]
    last = decoded.errors[-1]
    assert (last.field, last.value, last.detail) == ("at_s", "-4", "Expected `int` >= 0")
    assert (last.source_topic, last.partition, last.row, last.at_s) == ("pre." + TOPIC, 0, 0, 5)


def test_a_header_without_a_value_is_no_frame() -> None:
    message = consumed(TOPIC, encode(sample(0)), offset=0, headers=(("content-type", None),))
    assert decode_batch(TOPIC, 0, [message]).errors == []


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"minReplicas": 5}, "minReplicas"),
        ({"scaleUp": {"everySeconds": 7}}, "scaleUp.everySeconds"),
        ({"scaleDown": {"windowSeconds": 5, "everySeconds": 10}}, "scaleDown.windowSeconds"),
        ({"concurrency": {"target": 1}}, "concurrency.target"),
        ({"concurrency": {"min": 9, "max": 3}}, "concurrency.min"),
        ({"metrics": [{"name": "gpu_utilization", "target": 1.5}]}, "metrics[0].target"),
        ({"metrics": [{"name": "ttft"}, {"name": "ttft", "percentile": "p95"}]}, "metrics[1].name"),
        ({"metrics": [{"name": "ttft", "target": 9}, {"name": "ttft", "target": 8}]}, "metrics[1].name"),
    ],
)
def test_a_policy_that_contradicts_itself_is_a_dead_letter(keys: dict[str, object], field: str) -> None:
    document = {"endpoint": "e", "minReplicas": 1, "maxReplicas": 3, "metrics": [{"name": "ttft", "target": 500}]}
    messages = [
        consumed("policies", msgspec.json.encode(document), offset=0),
        consumed("policies", msgspec.json.encode({**document, **keys}), offset=1),
    ]
    decoded = decode_batch("policies", 0, messages)
    assert [len(run.records) for run in decoded.runs if isinstance(run, JsonRun)] == [1]
    (letter,) = decoded.errors
    assert (letter.offset, letter.field, letter.reason) == (1, field, BadInput.OUT_OF_RANGE)


def test_a_long_message_is_kept_up_to_its_limit() -> None:
    value = b"{" + b"x" * KEPT_BYTES_MAX
    (letter,) = decode_batch(TOPIC, 0, [consumed(TOPIC, value)]).errors
    assert b64decode(letter.bytes or "") == value[:KEPT_BYTES_MAX]


def test_runs_follow_the_log_where_formats_mix() -> None:
    (frame,) = framed(TOPIC, [sample(10), sample(11, received_s=3.5)])
    frame.message.offset, frame.message.timestamp = 1, 9000
    messages = [
        consumed(TOPIC, encode(sample(0)), offset=0),
        frame.message,
        consumed(
            TOPIC,
            encode(sample(1)),
            offset=2,
            headers=JSON_HEADERS,
        ),
        consumed(TOPIC, b"not a frame", offset=3, headers=FRAME_HEADERS),
        consumed(TOPIC, None, offset=4, headers=FRAME_HEADERS),
    ]
    decoded = decode_batch(TOPIC, 0, messages)
    first, second, third = decoded.runs
    assert isinstance(first, JsonRun)
    assert isinstance(second, FrameRun)
    assert isinstance(third, JsonRun)
    assert (second.offset, second.rows.tolist(), second.received_s.tolist()) == (1, [0, 1], [9.0, 3.5])
    assert second.batch.column("replica").to_pylist() == ["r10", "r11"]
    assert [(letter.offset, letter.reason) for letter in decoded.errors] == [
        (3, BadInput.MALFORMED),
        (4, BadInput.EMPTY),
    ]
    assert decoded.next_offset == 5


def test_content_type_is_told_whatever_its_case_and_parameters() -> None:
    (frame,) = framed(TOPIC, [sample(1)])
    frame.message.headers = (("Content-Type", b"Application/VND.apache.arrow.stream; charset=binary"),)
    (run,) = decode_batch(TOPIC, 0, [frame.message]).runs
    assert isinstance(run, FrameRun)


@pytest.mark.parametrize("topic", TOPICS)
def test_null_deletes_only_where_the_contract_says(topic: str) -> None:
    decoded = decode_batch(topic, 0, [consumed(topic, None, offset=3, key=b"chat", timestamp=2500)])
    if topic in ("policies", "controllers"):
        assert decoded.runs == [Tombstone(key="chat", offset=3, received_s=2.5)]
        assert decoded.errors == []
    else:
        assert decoded.runs == []
        assert [letter.reason for letter in decoded.errors] == [BadInput.EMPTY]


def test_an_empty_value_deletes_nothing() -> None:
    decoded = decode_batch("policies", 0, [consumed("policies", b"")])
    assert decoded.runs == []
    assert [letter.reason for letter in decoded.errors] == [BadInput.EMPTY]


def test_a_frame_where_only_json_is_spoken_is_a_dead_letter() -> None:
    (frame,) = framed(TOPIC, [sample(1)])
    decoded = decode_batch("policies", 0, [frame.message])
    assert [letter.reason for letter in decoded.errors] == [BadInput.WRONG_FORMAT]


def test_timestamps_out_of_this_world_are_bounded() -> None:
    messages = [consumed(TOPIC, encode(sample(index)), timestamp=stamp) for index, stamp in enumerate((-1, 2**62))]
    (run,) = decode_batch(TOPIC, 0, messages).runs
    assert isinstance(run, JsonRun)
    assert run.received_s.tolist() == [0.0, 253_402_300_799.0]


def test_records_without_received_s_have_the_messages_time() -> None:
    assert "received_s" not in ControllerMemory.__struct_fields__
    value = b'{"endpoint":"e","at_s":5,"offsets":{},"scaling":{},"supply":{}}'
    (run,) = decode_batch("controllers", 0, [consumed("controllers", value, timestamp=1500)]).runs
    assert isinstance(run, JsonRun)
    assert run.received_s.tolist() == [1.5]


@pytest.mark.parametrize("topic", [name for name, spec in TOPICS.items() if spec.tombstones])
@pytest.mark.parametrize("key", [b"other", b"\xff", b"", None])
def test_a_record_under_another_key_is_a_dead_letter_where_keys_delete(topic: str, key: bytes | None) -> None:
    values = {
        "policies": b'{"endpoint":"e","minReplicas":1,"maxReplicas":3,"metrics":[{"name":"queue_depth","target":2}]}',
        "controllers": b'{"endpoint":"e","at_s":5,"offsets":{},"scaling":{},"supply":{}}',
    }
    messages = [consumed(topic, values[topic], key=name, offset=number) for number, name in enumerate((b"e", key))]
    decoded = decode_batch(topic, 0, messages)
    assert [run.offsets.tolist() for run in decoded.runs if isinstance(run, JsonRun)] == [[0]]
    (letter,) = decoded.errors
    assert (letter.offset, letter.reason, letter.field, letter.value) == (1, "invalid", "endpoint", '"e"')
