"""What is taken of fetched batches of the log, with aiokafka's own results and a stand-in for its fetcher."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_UNCOMMITTED, FetchError, FetchResult, PartitionRecords
from aiokafka.errors import CorruptRecordException, KafkaError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from streams.shell.fetched import PollLimits, fetched_messages

ZSTD = 4
PLENTY = PollLimits(messages=1000, size=10**6)
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Positions:
    """Stands for aiokafka's assignment: positions, and which partitions are paused."""

    active = True

    def __init__(self) -> None:
        self.states: dict[TopicPartition, Any] = {}

    def state_value(self, tp: TopicPartition) -> Any:
        return self.states[tp]


class Log:
    """Stands for aiokafka's Fetcher, with what has been fetched of partitions, as batches of a log."""

    def __init__(self) -> None:
        self.positions = Positions()
        self._records: dict[TopicPartition, Any] = {}
        self._subscriptions = SimpleNamespace(reassignment_in_progress=False, is_assigned=lambda tp: True)
        self._wait_consume_future = None
        self._closed = False
        self.fetched_again = 0

    def _notify(self, waiter: object) -> None:
        self.fetched_again += 1

    def add(self, tp: TopicPartition, batches: Sequence[bytes], position: int = 0) -> None:
        records = PartitionRecords(
            tp, MemoryRecords(b"".join(batches)), (), position, None, None, False, READ_UNCOMMITTED
        )
        self.positions.states[tp] = SimpleNamespace(position=position, paused=False)
        state = self.positions.states[tp]
        state.consumed_to = lambda offset: setattr(state, "position", offset)
        self._records[tp] = FetchResult(tp, assignment=self.positions, partition_records=records, backoff=0)

    async def poll(self, limits: PollLimits = PLENTY, of: Sequence[TopicPartition] = (A, B)) -> dict[Any, list[int]]:
        """The offsets of what a poll takes."""
        found = await fetched_messages(self, of, 0.0, limits)
        return {tp: [message.offset for message in polled.messages] for tp, polled in found.items()}


def batch(first: int, *values: bytes | None) -> bytes:
    """As it is in the log, zstd, from offset `first` on."""
    builder = DefaultRecordBatchBuilder(2, ZSTD, 0, -1, -1, -1, 10**6)
    for number, value in enumerate(values):
        builder.append(number, 1_700_000_000_000 + number, b"key", value, [])
    built = bytearray(builder.build())
    built[:8] = first.to_bytes(8, "big")  # No CRC is over these.
    return bytes(built)


def unreadable(first: int) -> bytes:
    built = bytearray(batch(first, b"x" * 1000))
    built[70:] = bytes(len(built) - 70)
    return bytes(built)


def batches_of_ten(count: int) -> Iterator[bytes]:
    return (batch(first, *[b"x" * 100] * 10) for first in range(0, count * 10, 10))


async def test_messages_are_as_they_were_sent() -> None:
    log = Log()
    log.add(A, [batch(5, b"one", None)])
    log.positions.states[A].position = log._records[A]._partition_records.next_fetch_offset = 5
    polled = (await fetched_messages(log, (A,), 0.0, PLENTY))[A]
    seen = [(message.offset, message.timestamp, message.key, message.value) for message in polled.messages]
    assert seen == [(5, 1_700_000_000_000, b"key", b"one"), (6, 1_700_000_000_001, b"key", None)]
    assert polled.size == 3
    assert log.positions.states[A].position == 7
    assert log._records == {}
    assert log.fetched_again == 1


async def test_a_fetch_from_inside_a_batch_gives_its_rest() -> None:
    log = Log()
    log.add(A, [batch(0, b"a", b"b", b"c")], position=2)
    assert await log.poll() == {A: [2]}


@pytest.mark.parametrize("limits", [PollLimits(messages=15, size=10**6), PollLimits(messages=1000, size=1500)])
async def test_a_poll_ends_with_the_batch_that_reaches_a_limit_and_partitions_take_turns(limits: PollLimits) -> None:
    log = Log()
    log.add(A, list(batches_of_ten(4)))
    log.add(B, list(batches_of_ten(2)))
    assert await log.poll(limits) == {A: list(range(20))}
    assert await log.poll(limits) == {B: list(range(20))}
    assert await log.poll(limits) == {A: list(range(20, 40))}
    assert await log.poll(limits) == {}


async def test_what_is_left_of_the_limits_goes_to_the_next_partition() -> None:
    log = Log()
    log.add(A, list(batches_of_ten(1)))
    log.add(B, list(batches_of_ten(9)))
    assert await log.poll(PollLimits(messages=30, size=10**6)) == {A: list(range(10)), B: list(range(20))}


async def test_partitions_that_were_not_asked_for_keep_what_was_fetched() -> None:
    log = Log()
    log.add(A, list(batches_of_ten(1)))
    assert await log.poll(of=[B]) == {}
    assert await log.poll(of=[A]) == {A: list(range(10))}


async def test_a_partition_that_was_sought_meanwhile_gives_nothing_and_is_fetched_again() -> None:
    log = Log()
    log.add(A, list(batches_of_ten(1)))
    log.positions.states[A].position = 3
    assert await log.poll() == {}
    assert log._records == {}
    assert log.fetched_again == 1


async def test_a_batch_that_cannot_be_read_is_raised_and_fetched_again_with_all_before_it() -> None:
    log = Log()
    log.add(A, [batch(0, b"good"), unreadable(1)])
    with pytest.raises(Exception, match=r".") as raised:
        await log.poll()
    assert not isinstance(raised.value, AssertionError)
    assert log.positions.states[A].position == 0
    assert log._records == {}
    assert log.fetched_again == 1


async def test_what_was_taken_of_others_is_not_lost_to_a_batch_that_cannot_be_read() -> None:
    log = Log()
    log.add(A, [batch(0, b"good")])
    log.add(B, [unreadable(0)])
    assert await log.poll() == {A: [0]}
    assert log.positions.states[B].position == 0
    assert log._records == {}


async def test_a_failed_fetch_is_raised_once_after_what_others_have() -> None:
    log = Log()
    log.add(A, list(batches_of_ten(1)))
    log._records[B] = FetchError(error=CorruptRecordException("B"), backoff=0)
    assert await log.poll() == {A: list(range(10))}
    with pytest.raises(KafkaError, match="B"):
        await log.poll()
    assert await log.poll() == {}
