"""JSON: what goes in comes out, and what cannot be read is named."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records.enums import BadInput, Source
from records.policy import EndpointPolicy
from records.telemetry import RequestSample
from tests.wire.record_strategies import records
from wire.codec import DecodeError, decode, encode
from wire.topics import TOPICS

GOOD = b'{"endpoint":"e","replica":"r","at_s":5,"source":"engine"%s}'


@pytest.mark.parametrize("topic", TOPICS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_records_come_back(topic: str, data: st.DataObject) -> None:
    record = data.draw(records(TOPICS[topic].record))
    assert decode(topic, encode(record)) == record


# rest of the object, then: reason, field, value
BAD_SAMPLES = [
    (b',"arrivals":-1', BadInput.OUT_OF_RANGE, "arrivals", "-1"),
    (b',"arrivals":99999999999', BadInput.OUT_OF_RANGE, "arrivals", "99999999999"),
    (b',"arrivals":5.5', BadInput.WRONG_TYPE, "arrivals", "5.5"),
    (b',"arrivals":"3"', BadInput.WRONG_TYPE, "arrivals", '"3"'),
    (b',"arrivals":true', BadInput.WRONG_TYPE, "arrivals", "true"),
    (b',"source":"proxy"', BadInput.INVALID, "source", '"proxy"'),
    (b',"kv_cache_usage":1.01', BadInput.OUT_OF_RANGE, "kv_cache_usage", "1.01"),
    (b',"running":NaN', BadInput.NOT_FINITE, "running", "nan"),
    (b',"running":-Infinity', BadInput.NOT_FINITE, "running", "-inf"),
    (b',"running":1e16', BadInput.OUT_OF_RANGE, "running", "1e16"),
    (b',"endpoint":""', BadInput.OUT_OF_RANGE, "endpoint", '""'),
    (
        b',"ttft_ms":{"explicit_bounds":[1,2],"bucket_counts":[1,-2,3]}',
        BadInput.OUT_OF_RANGE,
        "ttft_ms.bucket_counts[1]",
        "-2",
    ),
    (
        b',"ttft_ms":{"explicit_bounds":[1,2],"bucket_counts":[1,2]}',
        BadInput.INVALID,
        "ttft_ms",
        '{"explicit_bounds":[1,2],"bucket_counts":[1,2]}',
    ),
    (
        b',"ttft_ms":{"explicit_bounds":[2,1],"bucket_counts":[1,2,3]}',
        BadInput.INVALID,
        "ttft_ms",
        '{"explicit_bounds":[2,1],"bucket_counts":[1,2,3]}',
    ),
    (b',"ttft_ms":{"explicit_bounds":[1]}', BadInput.MISSING_FIELD, "ttft_ms.bucket_counts", None),
]


@pytest.mark.parametrize(("rest", "reason", "field", "value"), BAD_SAMPLES, ids=[str(row[0]) for row in BAD_SAMPLES])
def test_a_bad_field_is_named_with_its_value(rest: bytes, reason: BadInput, field: str, value: str | None) -> None:
    with pytest.raises(DecodeError) as caught:
        decode("telemetry.requests", GOOD % rest)
    error = caught.value
    assert (error.reason, error.field) == (reason, field)
    if value is not None:
        assert error.value is not None
        assert msgspec_equal(error.value, value)
    assert field in str(error)
    assert error.detail


def msgspec_equal(found: str, expected: str) -> bool:
    """The same number or text; 1e16 and 10000000000000000.0 are."""
    try:
        return bool(msgspec.json.decode(found.encode()) == msgspec.json.decode(expected.encode()))
    except msgspec.DecodeError:
        return found == expected


@pytest.mark.parametrize(
    ("value", "reason", "field"),
    [
        (None, BadInput.EMPTY, None),
        (b"", BadInput.EMPTY, None),
        (b'{"endpoint":"e","repl', BadInput.MALFORMED, None),
        (b"[1,2]", BadInput.WRONG_TYPE, None),
        (b"null", BadInput.WRONG_TYPE, None),
        (b"{}", BadInput.MISSING_FIELD, "endpoint"),
        (GOOD % b',"x":' + b"[" * 100_000, BadInput.MALFORMED, None),
        (GOOD % b',"epoch":"\xff"', BadInput.MALFORMED, None),
        (GOOD % b"" + b" trailing", BadInput.MALFORMED, None),
        (b"\x00\x01\xfe", BadInput.MALFORMED, None),
    ],
    ids=str,
)
def test_what_is_no_object_is_refused_whole(value: bytes | None, reason: BadInput, field: str | None) -> None:
    with pytest.raises(DecodeError) as caught:
        decode("telemetry.requests", value)
    assert (caught.value.reason, caught.value.field) == (reason, field)


@settings(max_examples=200, deadline=None)
@given(value=st.binary(max_size=60) | st.text(max_size=60).map(str.encode), topic=st.sampled_from(list(TOPICS)))
def test_any_bytes_are_a_record_or_a_decode_error(value: bytes, topic: str) -> None:
    with suppress(DecodeError):
        assert isinstance(decode(topic, value), TOPICS[topic].record)


def test_unknown_fields_are_ignored_and_null_is_unknown() -> None:
    sample = decode("telemetry.requests", GOOD % b',"new_field":[{"a":1}],"arrivals":null,"completions":0')
    assert isinstance(sample, RequestSample)
    assert sample.arrivals is None
    assert sample.completions == 0
    assert sample.source is Source.ENGINE


def test_a_long_value_is_cut() -> None:
    with pytest.raises(DecodeError) as caught:
        decode("telemetry.requests", GOOD % (b',"epoch":"' + b"x" * 1000 + b'"'))
    assert caught.value.value == '"' + "x" * 199


@pytest.mark.parametrize(
    "value",
    [
        b'{"\\ud800":NaN}',
        b'{"a":{"\\udfff":[1,Infinity]}}',
        b'{"%s":NaN}' % (b"k" * 100_000),
        b'{"endpoint":"e","replica":"r","at_s":1,"source":"%s"}' % (b"x" * 100_000),
    ],
    ids=["half a pair", "half a pair within", "a long name", "a long value in the detail"],
)
def test_what_an_error_tells_can_be_written_and_is_short(value: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decode("telemetry.requests", value)
    assert len(f"{caught.value}{caught.value.field}{caught.value.detail}".encode()) < 3_000


def test_policies_have_the_keys_of_the_document() -> None:
    value = (
        b'{"endpoint":"e","minReplicas":1,"maxReplicas":4,"metrics":[{"name":"ttft","percentile":"p95","target":500}],'
        b'"scaleUp":{"maxFactor":3},"schedules":[{"zone":"UTC","days":"mon","from":"07:30","to":"19:00","min":2}]}'
    )
    policy = decode("policies", value)
    assert isinstance(policy, EndpointPolicy)
    assert (policy.max_replicas, policy.scale_up.max_factor, policy.scale_up.window_seconds) == (4, 3.0, 20)
    assert policy.schedules[0].from_ == "07:30"
    text = encode(policy)
    assert b'"minReplicas":1' in text
    assert b'"from":"07:30"' in text
    with pytest.raises(DecodeError, match="maxReplicas"):
        decode("policies", value.replace(b'"maxReplicas":4,', b""))
    with pytest.raises(DecodeError) as caught:
        decode("policies", value.replace(b'"ttft"', b'"tft"'))
    assert (caught.value.field, caught.value.value) == ("metrics[0].name", '"tft"')
