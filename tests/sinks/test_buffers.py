"""What a topic's buffer holds, and when it is written."""

from dataclasses import dataclass

import pytest

from sinks.buffers import MESSAGE_OVERHEAD_BYTES, FlushRules, TopicBuffer

RULES = FlushRules(age_max_s=10.0, messages_max=20, bytes_max=50_000, memory_bytes_max=50_000, progress_max=1_000)


@dataclass(frozen=True)
class Sized:
    """Stands for a ConsumerRecord, of which the buffer reads the sizes."""

    serialized_value_size: int = 100
    serialized_key_size: int = 10


def buffer_of(*partitions: int) -> TopicBuffer:
    buffer = TopicBuffer()
    for partition in partitions:
        buffer.place(partition, 50)
    return buffer


def test_batches_follow_each_other_without_a_hole() -> None:
    buffer = buffer_of(0, 1)
    buffer.add(0, [Sized()] * 3, 53, 1.0)
    buffer.add(0, [], 55, 2.0)
    (first,) = buffer.take()
    assert (first.partition, first.base_offset, first.next_offset, len(first.messages)) == (0, 50, 55, 3)
    buffer.add(0, [Sized()], 60, 3.0)
    buffer.add(1, [Sized()], 51, 3.0)
    again = {batch.partition: batch for batch in buffer.take()}
    assert (again[0].base_offset, again[0].next_offset) == (55, 60)
    assert (again[1].base_offset, again[1].next_offset) == (50, 51)
    assert buffer.take() == []


@pytest.mark.parametrize(
    ("messages", "size", "end", "now_s", "due"),
    [
        (0, 0, 50, 1e9, False),
        (1, 10, 51, 10.9, False),
        (1, 10, 51, 11.0, True),
        (19, 10, 69, 1.0, False),
        (20, 10, 70, 1.0, True),
        (2, 30_000, 52, 1.0, True),
        (0, 0, 1_049, 1.0, False),
        (0, 0, 1_050, 1.0, True),
    ],
)
def test_due_by_age_count_size_or_progress(messages: int, size: int, end: int, now_s: float, due: bool) -> None:
    buffer = buffer_of(0)
    buffer.add(0, [Sized(size, -1)] * messages, end, 1.0)
    assert buffer.due(RULES, now_s) is due
    buffer.take()
    assert not buffer.due(RULES, 1e9)


def test_the_age_is_that_of_the_oldest() -> None:
    buffer = buffer_of(0)
    buffer.add(0, [Sized()], 51, 1.0)
    buffer.add(0, [Sized()], 52, 9.0)
    assert buffer.due(RULES, 11.0)


def test_bytes_are_those_of_what_is_held() -> None:
    buffer = buffer_of(0, 1)
    buffer.add(0, [Sized()] * 2, 52, 1.0)
    buffer.add(1, [Sized()], 51, 1.0)
    assert (buffer.messages, buffer.bytes) == (3, 3 * (110 + MESSAGE_OVERHEAD_BYTES))
    buffer.place(0, 10)
    assert (buffer.messages, buffer.bytes) == (1, 110 + MESSAGE_OVERHEAD_BYTES)
    buffer.clear()
    assert (buffer.messages, buffer.bytes) == (0, 0)
    assert not buffer.due(RULES, 1e9)


@pytest.mark.parametrize(
    "wrong",
    [{"age_max_s": 0.0}, {"age_max_s": 3601.0}, {"messages_max": 0}, {"bytes_max": 2, "memory_bytes_max": 1}],
)
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)) if len(wrong) == 1 else "memory_bytes_max"):
        FlushRules(**wrong)  # type: ignore[arg-type]  # ints and floats as given
