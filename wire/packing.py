"""Waiting records as Kafka messages, and messages as batches of one partition."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from aiokafka import AIOKafkaProducer

from wire.codec import encode
from wire.frames import ARROW_CONTENT_TYPE, CONTENT_TYPE_HEADER, encode_frames
from wire.kafka import partition_of
from wire.send_buffer import Waiting

_FRAME_HEADERS = ((CONTENT_TYPE_HEADER, ARROW_CONTENT_TYPE),)


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message, and the records in it."""

    partition: int
    key: bytes
    value: bytes
    records: list[Waiting]
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one partition that travel together; `builder` is aiokafka's BatchBuilder."""

    partition: int
    builder: Any
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Unwritable:
    """Records that cannot become a message: above `bytes_max` alone, or with a value that JSON does not hold."""

    too_large: list[Waiting]
    unreadable: list[Waiting]


def json_messages(waiting: Iterable[Waiting], partitions: int) -> list[Message]:
    """One message a record."""
    return [
        Message(partition_of(record.key, partitions), record.key.encode(), record.payload, [record])
        for record in waiting
    ]


async def frame_messages(
    waiting: Iterable[Waiting], partitions: int, bytes_max: int
) -> tuple[list[Message], Unwritable]:
    """Frames of the records of each partition, none above `bytes_max`; the host's loop gets a turn after each.

    A frame has one timestamp, so records whose own ones are of different seconds do not share one.
    """
    together: dict[tuple[int, int | None], list[Waiting]] = defaultdict(list)
    for record in waiting:
        second = None if record.timestamp_ms is None else record.timestamp_ms // 1000
        together[partition_of(record.key, partitions), second].append(record)
    messages: list[Message] = []
    unwritable = Unwritable([], [])
    for (partition, _), records in together.items():
        _add_frames(messages, unwritable, partition, records, bytes_max)
        await asyncio.sleep(0)
    return messages, unwritable


def _add_frames(
    messages: list[Message], unwritable: Unwritable, partition: int, records: list[Waiting], bytes_max: int
) -> None:
    """Frames of `records`; halves of them where one is too large or holds a value that no column takes."""
    waiting_of = {id(record.payload): record for record in records}
    try:
        frames = encode_frames([record.payload for record in records])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        if len(records) == 1:
            _add_json(messages, unwritable, partition, records[0], bytes_max)
        else:
            _add_halves(messages, unwritable, partition, records, bytes_max)
        return
    for frame in frames:
        members = [waiting_of[id(sample)] for sample in frame.samples]
        if len(frame.value) <= bytes_max:
            messages.append(Message(partition, members[0].key.encode(), frame.value, members, _FRAME_HEADERS))
        elif len(members) == 1:
            unwritable.too_large.extend(members)
        else:
            _add_halves(messages, unwritable, partition, members, bytes_max)


def _add_halves(
    messages: list[Message], unwritable: Unwritable, partition: int, records: list[Waiting], bytes_max: int
) -> None:
    middle = len(records) // 2
    for half in (records[:middle], records[middle:]):
        _add_frames(messages, unwritable, partition, half, bytes_max)


def _add_json(messages: list[Message], unwritable: Unwritable, partition: int, record: Waiting, bytes_max: int) -> None:
    """A record that no frame takes goes as JSON, where its readers can say what is wrong with it."""
    try:
        value = encode(record.payload)
    except (TypeError, ValueError):
        unwritable.unreadable.append(record)
        return
    if len(value) > bytes_max:
        unwritable.too_large.append(record)
    else:
        messages.append(Message(partition, record.key.encode(), value, [record]))


def pack(client: AIOKafkaProducer, messages: Iterable[Message]) -> list[Batch]:
    """Batches of messages, in their order within each partition."""
    batches: list[Batch] = []
    open_batches: dict[int, Batch] = {}
    for message in messages:
        batch = open_batches.get(message.partition)
        if batch is None or not _append(batch, message):
            batch = Batch(message.partition, client.create_batch(), [])
            _append(batch, message)
            open_batches[message.partition] = batch
            batches.append(batch)
    return batches


def _append(batch: Batch, message: Message) -> bool:
    """False where the batch is full; an empty one takes a message of any size."""
    added = batch.builder.append(
        timestamp=message.records[0].timestamp_ms, key=message.key, value=message.value, headers=list(message.headers)
    )
    if added is None:
        return False
    batch.messages.append(message)
    return True
