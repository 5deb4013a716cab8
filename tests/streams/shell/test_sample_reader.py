"""Samples read a few hundred at a time are those that are read one by one, whatever the messages hold."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from records.histogram import Histogram
from records.outcomes import DeadLetter
from records.telemetry import RequestSample
from streams.shell.histogram_texts import HistogramText
from streams.shell.sample_reader import Read, read_samples
from streams.windows.columns import CHUNK_RECORDS, HISTOGRAM_FIELDS, SampleColumns
from tests.wire.messages import FRAME_HEADERS, Consumed, consumed, framed
from tests.wire.record_strategies import records
from wire.batch_limits import REFUSED_HEADER
from wire.batches import FrameRun, JsonRun, Message, decode_messages
from wire.codec import encode

TOPIC = "telemetry.requests"
BEGIN = b'{"endpoint":"e","replica":"r","at_s":7,"source":"engine",'
GOOD = BEGIN + b'"ttft_ms":{"explicit_bounds":[10,20],"bucket_counts":[0,1,2],"sum":3.5}}'


def with_histogram(inside: bytes, around: bytes = b'"ttft_ms":{%s}') -> bytes:
    return BEGIN + around % inside + b"}"


ODD = (
    None,
    b"",
    b" " + GOOD + b"\n",
    GOOD + GOOD,
    GOOD + b"," + GOOD,
    b"[" + GOOD + b"]",
    GOOD[:-1],
    GOOD[1:],
    GOOD.replace(b"3.5", b"NaN"),
    GOOD.replace(b"3.5", b"1e999"),
    GOOD.replace(b"3.5", b"-1"),
    GOOD.replace(b"3.5", b"null"),
    GOOD.replace(b'"e"', b'"\xff\xfe"'),
    GOOD.replace(b'"e"', b'""'),
    GOOD.replace(b'"e"', b'"explicit_bounds"'),
    GOOD.replace(b'"e"', b'"\\u0065"'),
    GOOD.replace(b'"at_s":7', b'"at_s":7.0'),
    GOOD.replace(b'"at_s":7', b'"at_s":7e0'),
    GOOD.replace(b'"at_s":7', b'"at_s":"7"'),
    GOOD.replace(b'"at_s":7', b'"at_s":18446744073709551616'),
    GOOD.replace(b'"at_s":7', b'"at_s":7,"at_s":-1'),
    GOOD.replace(b'"at_s":7', b'"at_s":-1,"at_s":7'),
    GOOD.replace(b'"source":"engine"', b'"source":"pod"'),
    GOOD.replace(b"[10,20]", b"[10.0,2e1]"),
    GOOD.replace(b"[10,20]", b" [ 10 , 20 ] "),
    GOOD.replace(b"[10,20]", b"[20,10]"),
    GOOD.replace(b"[10,20]", b"[10,1e16]"),
    GOOD.replace(b"[10,20]", b'["10",20]'),
    GOOD.replace(b"[10,20]", b"null"),
    GOOD.replace(b"[10,20]", b"[10,20,30]"),
    GOOD.replace(b"[10,20]", b"[" + b"1," * 300 + b"2]"),
    GOOD.replace(b"[10,20]", b"[" * 5000 + b"]" * 5000),
    GOOD.replace(b"[0,1,2]", b"[9,9,9]"),
    GOOD.replace(b"[0,1,2]", b"[10,1,2]"),
    GOOD.replace(b"[0,1,2]", b"[4294967294,1,2]"),
    GOOD.replace(b"[0,1,2]", b"[4294967295,1,2]"),
    GOOD.replace(b"[0,1,2]", b"[10,123]"),
    GOOD.replace(b"[0,1,2]", b"[10,1 ]"),
    GOOD.replace(b"[0,1,2]", b"[01,12]"),
    GOOD.replace(b"[0,1,2]", b"[0,1,-]"),
    GOOD.replace(b"[0,1,2]", b"[-0,1,2]"),
    GOOD.replace(b"[0,1,2]", b"[1.0,1,2]"),
    GOOD.replace(b"[0,1,2]", b"[0,1,2,3]"),
    GOOD.replace(b"[0,1,2]", b'"0,1,2"'),
    GOOD.replace(b"[0,1,2]", b"1234567"),
    GOOD.replace(b"ttft_ms", b"tpot_ms"),
    GOOD.replace(b"ttft_ms", b"none_such"),
    GOOD.replace(b"explicit_bounds", b"explicit\\u005fbounds"),
    with_histogram(b'"explicit_bounds":["x"],"explicit_bounds":[1],"bucket_counts":[1,2]'),
    with_histogram(b'"explicit_bounds":["x"],"explicit\\u005fbounds":[1],"bucket_counts":[1,2]'),
    with_histogram(b'"explicit_bounds":[1],"bucket_counts":[-1,2],"bucket_counts":[1,2]'),
    with_histogram(b'"explicit_bounds":[1],"bucket_counts":[1,2],"sum":-1,"sum":1'),
    with_histogram(b'"explicit_bounds":[2,1],"bucket_counts":[1,2,3]', b'"ttft_ms":{%s},"ttft_ms":null'),
    with_histogram(b'"explicit_bounds":[1],"bucket_counts":[1,2]', b'"ttft_ms":null,"ttft_ms":{%s}'),
    with_histogram(b'"explicit_bounds":[1]'),
    with_histogram(b'"bucket_counts":[1,2]'),
    with_histogram(b'"explicit_bounds":[],"bucket_counts":[3]'),
    with_histogram(b'"explicit_bounds":[1],"bucket_counts":[1,2],"more":{"explicit_bounds":[1]}'),
    BEGIN + b'"arrivals":null,"running":1,"more":[{"explicit_bounds":3}]}',
    BEGIN + b'"arrivals":3.0,"cpu":1}',
    BEGIN + b'"arrivals":3.5}',
    BEGIN + b'"cpu":1.5}',
    BEGIN + b'"streamed_fraction":1e-300}',
    BEGIN + b'"received_s":3.25}',
)


def mended(values: list[bytes | None], cut: int) -> list[bytes | None]:
    """The same bytes, cut into messages elsewhere."""
    joined = b",".join(value or b"" for value in values)
    return [joined[:cut], joined[cut + 1 :]]


good = records(RequestSample).map(encode)
broken = st.builds(
    lambda value, at, size, new: value[: at % len(value)] + new + value[at % len(value) + size :],
    good,
    st.integers(0, 4000),
    st.integers(0, 3),
    st.sampled_from([b"", b"0", b"-", b",", b"[", b"]", b"}", b"{", b'"', b" ", b"\\", b"\xff", b"1e5", b"null"]),
)
values = st.lists(st.one_of(good, good, st.sampled_from(ODD), broken), min_size=1, max_size=5)


@settings(max_examples=300, deadline=None)
@given(values | st.builds(mended, values, st.integers(0, 300)))
@example([GOOD, GOOD])
@example([GOOD, *(value for value in ODD if value is not None and value.startswith(BEGIN))])
def test_messages_are_read_as_one_by_one(values: list[bytes | None]) -> None:
    assert_same([consumed(TOPIC, value, offset=3 * place, timestamp=place) for place, value in enumerate(values)])


@pytest.mark.parametrize("odd", range(len(ODD)))
def test_an_odd_message_among_good_ones(odd: int) -> None:
    assert_same([consumed(TOPIC, value) for value in (ODD[odd], GOOD, ODD[odd])])


def test_histograms_written_in_many_ways_are_read_without_each_message() -> None:
    """What is fast must also happen: these are read from texts."""
    ways = [GOOD, GOOD.replace(b"[10,20]", b"[10.0,20]"), GOOD.replace(b"[0,1,2]", b"[10,0,2]"), BEGIN[:-1] + b"}"]
    read = list(read_samples([consumed(TOPIC, value) for value in ways], _never))
    (columns, _, _) = read[0]
    assert isinstance(columns, SampleColumns)
    (group,) = columns.histograms["ttft_ms"]
    assert (group.bounds, group.rows.tolist()) == ((10.0, 20.0), [0, 1, 2])
    assert group.counts.tolist() == [[0, 1, 2], [0, 1, 2], [10, 0, 2]]


def test_a_long_poll_with_frames_and_bad_messages_keeps_its_order() -> None:
    samples = [
        RequestSample(endpoint=f"e{place % 7}", replica=f"r{place % 5}", at_s=place, source="engine", arrivals=place)  # type: ignore[arg-type]
        for place in range(CHUNK_RECORDS * 5)
    ]
    messages = [consumed(TOPIC, encode(sample), offset=2 * place) for place, sample in enumerate(samples)]
    messages[CHUNK_RECORDS + 3].value = b"{"
    for place in (3 * CHUNK_RECORDS, 3 * CHUNK_RECORDS + 9):
        (frame,) = framed(TOPIC, samples[place : place + 3])
        messages[place] = consumed(TOPIC, frame.message.value, offset=2 * place, headers=FRAME_HEADERS)
    messages[7].headers = (("traceparent", b"00-1"),)
    messages[-1].headers = ((REFUSED_HEADER, b"too_large: a batch"),)
    assert_same(messages)


def test_texts_have_the_fields_of_histograms() -> None:
    assert HistogramText.__struct_fields__ == Histogram.__struct_fields__


def assert_same(messages: list[Consumed]) -> None:
    letters: list[DeadLetter] = []
    found = list(_rows(read_samples(messages, lambda some: _read_exactly(some, letters))))
    expected_letters: list[DeadLetter] = []
    expected = list(_rows(_read_exactly(messages, expected_letters)))
    assert found == expected
    assert letters == expected_letters


def _never(messages: Sequence[Message]) -> Iterable[Read]:
    raise AssertionError(f"{len(messages)} messages are read one by one")


def _read_exactly(messages: Sequence[Message], letters: list[DeadLetter]) -> Iterator[Read]:
    decoded = decode_messages(TOPIC, TOPIC, 0, messages)
    letters += decoded.errors
    for run in decoded.runs:
        if isinstance(run, JsonRun):
            yield SampleColumns.from_records(run.records, run.received_s), run.offsets, run.received_s
        elif isinstance(run, FrameRun):
            columns = SampleColumns.from_arrow(run.batch, run.received_s)
            yield columns, np.full(len(columns), run.offset), run.received_s


def _rows(reads: Iterable[Read]) -> Iterator[Any]:
    """Each sample with all that is known of it, as values that can be compared; a number by its bytes."""
    for columns, offsets, received_s in reads:
        assert isinstance(columns, SampleColumns)
        np.testing.assert_array_equal(columns.received_s, received_s)
        histograms = [{} for _ in range(len(columns))]  # type: list[dict[str, Any]]
        for name in HISTOGRAM_FIELDS:
            for group in columns.histograms[name]:
                for row, counts, total in zip(group.rows.tolist(), group.counts.tolist(), group.sums, strict=True):
                    assert name not in histograms[row]
                    histograms[row][name] = (group.bounds, counts, total.tobytes())
        columns.buckets["lap"] = 0
        for row in range(len(columns)):
            yield (
                columns.series[columns.series_code[row]],
                int(columns.at_s[row]),
                columns.buckets[row].tobytes(),
                histograms[row],
                int(offsets[row]),
                float(received_s[row]),
            )


def test_the_reader_knows_good_messages_from_bad_ones() -> None:
    """The comparison above would hold for a reader that reads nothing."""
    assert [row[0] for row in _rows(read_samples([consumed(TOPIC, GOOD)], _never))] == [("e", "r", "", "engine", None)]
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(GOOD.replace(b"[0,1,2]", b"[4294967295,1,2]"), type=RequestSample)
