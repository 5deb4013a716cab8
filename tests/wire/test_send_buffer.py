"""The producer's buffer: bounded, oldest first out, nothing lost uncounted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.kafka import KafkaAccess
from wire.producer import ProducerSettings, TelemetryProducer
from wire.send_buffer import SendBuffer, Waiting

RECORDS_MAX, BYTES_MAX = 5, 100

# ("put", weight) | ("take", records, bytes) | ("put_back", how many of those taken)
STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 60), st.just(0)),
    st.tuples(st.just("take"), st.integers(1, 4), st.integers(1, 120)),
    st.tuples(st.just("put_back"), st.integers(0, 4), st.just(0)),
)


@given(steps=st.lists(STEPS, max_size=40))
def test_every_record_is_waiting_taken_or_dropped_and_order_is_kept(steps: list[tuple[str, int, int]]) -> None:
    buffer = SendBuffer(RECORDS_MAX, BYTES_MAX)
    made, gone = 0, 0
    taken: list[Waiting] = []
    for step, first, second in steps:
        match step:
            case "put":
                was_empty = len(buffer) == 0
                assert buffer.put(Waiting(str(made), made, first, None)) is was_empty
                made += 1
            case "take":
                gone += len(taken)
                had = len(buffer)
                taken = buffer.take(first, second)
                assert [record.payload for record in taken] == sorted(record.payload for record in taken)
                assert min(1, had) <= len(taken) <= first
                assert len(taken) == 1 or sum(record.nbytes for record in taken) <= second
            case "put_back":
                back = taken[len(taken) - min(first, len(taken)) :]
                gone += len(taken) - len(back)
                buffer.put_back(back)
                taken = []
        assert len(buffer) <= RECORDS_MAX
        assert 0 <= buffer.nbytes <= BYTES_MAX
        assert len(buffer) + len(taken) + gone + buffer.dropped == made
    everything = buffer.take(100, 10_000)
    assert [record.payload for record in everything] == sorted(record.payload for record in everything)
    assert (len(buffer), buffer.nbytes) == (0, 0)


def test_the_oldest_goes_first() -> None:
    buffer = SendBuffer(2, 1000)
    for index in range(4):
        buffer.put(Waiting("k", index, 1, None))
    assert [record.payload for record in buffer.take(9, 9)] == [2, 3]
    assert buffer.dropped == 2


def test_settings_name_every_bad_value() -> None:
    with pytest.raises(ValueError, match="buffer_records") as caught:
        ProducerSettings(buffer_records=0, buffer_bytes=-1, linger_s=61)
    assert len(str(caught.value).splitlines()) == 3


async def test_a_producer_that_never_started_stops_at_once() -> None:
    producer = TelemetryProducer(KafkaAccess(bootstrap="127.0.0.1:9"))
    assert await producer.stop()
