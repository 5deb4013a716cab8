"""Takes what aiokafka's fetcher has of the log, a batch of it at a time, as the records that its decoder makes.

aiokafka makes a ConsumerRecord of each of these, one by one, which costs as much again; and it bounds a poll by
messages alone, though a frame may be as large as a thousand of them. Written against a pinned release, see
tests/worker/test_faust_pin.py. Transactions are not looked at: this reads uncommitted records.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult

from wire.batches import Message


@dataclass(frozen=True, slots=True)
class PollLimits:
    """A poll ends with the batch of the log that reaches one of these; `size` is in bytes of values."""

    messages: int
    size: int


@dataclass(slots=True)
class Polled:
    """Messages of one topic's partition, in log order, and the bytes of their values."""

    messages: list[Message]
    size: int


async def fetched_messages(
    fetcher: Fetcher, partitions: Collection[TopicPartition], timeout_s: float, limits: PollLimits
) -> dict[TopicPartition, Polled]:
    """As `Fetcher.fetched_records`: what is there of `partitions`, else what comes first within `timeout_s`.

    Partitions take turns, and each is fetched again when it is empty. Raises the KafkaError of a fetch that failed.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                if fetcher._subscriptions.reassignment_in_progress:
                    await fetcher._subscriptions.wait_for_assignment()
                found = _take_all(fetcher, partitions, limits)
                if found or fetcher._closed or not timeout_s:
                    return found
                await fetcher._create_fetch_waiter()
    except TimeoutError:
        return {}


def _take_all(
    fetcher: Fetcher, partitions: Collection[TopicPartition], limits: PollLimits
) -> dict[TopicPartition, Polled]:
    """An error of one partition comes after what was taken of others: that is not to be had again."""
    found: dict[TopicPartition, Polled] = {}
    left = limits
    for tp, result in list(fetcher._records.items()):
        if tp not in partitions:
            if not fetcher._subscriptions.is_assigned(tp):
                del fetcher._records[tp]
            continue
        if found and not isinstance(result, FetchResult):
            break
        try:
            polled = _take_one(fetcher, tp, left)
        except Exception:
            _fetch_again(fetcher, tp)
            if found:
                break
            raise
        if polled.messages:
            found[tp] = polled
            left = PollLimits(left.messages - len(polled.messages), left.size - polled.size)
            if left.messages <= 0 or left.size <= 0:
                break
    return found


def _take_one(fetcher: Fetcher, tp: TopicPartition, limits: PollLimits) -> Polled:
    """Raises the error of a fetch that failed, or of a batch that cannot be read: it is to be fetched again then."""
    result = fetcher._records[tp]
    if not isinstance(result, FetchResult):
        result.check_raise()
    polled = _take(result, limits)
    if result.has_more():
        fetcher._records[tp] = fetcher._records.pop(tp)  # Behind the others.
    else:
        _fetch_again(fetcher, tp)
    return polled


def _fetch_again(fetcher: Fetcher, tp: TopicPartition) -> None:
    del fetcher._records[tp]
    fetcher._notify(fetcher._wait_consume_future)


def _take(result: FetchResult, limits: PollLimits) -> Polled:
    """Whole batches of the log, as far as the limits; nothing where the partition was paused or sought meanwhile."""
    polled = Polled([], 0)
    if not result.check_assignment(result._topic_partition):
        return polled
    fetched = result._partition_records
    while fetched._records.has_next() and len(polled.messages) < limits.messages and polled.size < limits.size:
        batch = fetched._records.next_batch()
        if not batch.is_control_batch:
            messages = _from(list(batch), fetched.next_fetch_offset)
            polled.messages += messages
            polled.size += sum(len(message.value or b"") for message in messages)
        fetched.next_fetch_offset = batch.next_offset
    result._update_position()
    if not fetched._records.has_next():
        result._partition_records = None
    return polled


def _from(messages: list[Any], offset: int) -> list[Any]:
    """A fetch from inside a batch brings all of it."""
    if messages and messages[0].offset < offset:
        return [message for message in messages if message.offset >= offset]
    return messages
