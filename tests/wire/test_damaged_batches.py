"""Batches whose bytes changed in the log: each is one dead letter, and those around it are read, as aiokafka reads."""

from collections.abc import Callable

import pytest
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.structs import TopicPartition

from tests.wire.test_batch_limits import ATTRIBUTES_AT, BODY_AT, COUNT_AT, CRC_AT, SAMPLE, TOPIC, sealed, stored
from wire.batch_limits import LimitedRecords
from wire.batches import JsonRun, decode_messages
from wire.codec import encode

MAGIC_AT = 16
CONTROL, TRANSACTIONAL, NO_CODEC = 0x20, 0x10, 7
Damage = Callable[[bytearray], None]


def seal(batch: bytearray) -> None:
    batch[:] = sealed(batch)


def other_bytes(batch: bytearray) -> None:
    batch[BODY_AT + 12] ^= 0x40


def other_checksum(batch: bytearray) -> None:
    batch[CRC_AT] ^= 1


def broken_compression(batch: bytearray) -> None:
    batch[BODY_AT + 12 :] = bytes(byte ^ 0x5A for byte in batch[BODY_AT + 12 :])
    seal(batch)


def passes_for_a_marker(batch: bytearray) -> None:
    """A reader would pass over it, if its checksum were not looked at."""
    batch[ATTRIBUTES_AT + 1] |= CONTROL | TRANSACTIONAL


def unknown_codec(batch: bytearray) -> None:
    batch[ATTRIBUTES_AT + 1] |= NO_CODEC
    seal(batch)


def old_format(batch: bytearray) -> None:
    batch[MAGIC_AT] = 0


def newer_format(batch: bytearray) -> None:
    batch[MAGIC_AT] = 3


def one_record_more(batch: bytearray) -> None:
    batch[COUNT_AT + 3] += 1
    seal(batch)


def one_record_less(batch: bytearray) -> None:
    batch[COUNT_AT + 3] -= 1
    seal(batch)


def no_record_count(batch: bytearray) -> None:
    batch[COUNT_AT:BODY_AT] = (-1).to_bytes(4, "big", signed=True)
    seal(batch)


DAMAGES: list[tuple[Damage, str]] = [
    (other_bytes, "checksum"),
    (other_checksum, "checksum"),
    (broken_compression, "cannot be read"),
    (passes_for_a_marker, "checksum"),
    (unknown_codec, "codec 7"),
    (old_format, "format 0"),
    (newer_format, "format 3"),
    (one_record_more, "cannot be read"),
    (one_record_less, "cannot be read"),
    (no_record_count, "cannot be read"),
]


@pytest.mark.parametrize(("damage", "detail"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
@pytest.mark.parametrize("codec", ["zstd", "lz4", "gzip", "snappy"])
def test_a_damaged_batch_is_one_dead_letter(damage: Damage, detail: str, codec: str) -> None:
    batch = stored(3, [encode(SAMPLE)] * 3, codec)
    damage(batch)
    log = bytes(stored(0, [encode(SAMPLE)] * 3, codec)) + bytes(batch) + bytes(stored(6, [encode(SAMPLE)] * 2, codec))
    records = PartitionRecords(TopicPartition("t", 0), LimitedRecords(log), (), 0, None, None, True, READ_COMMITTED)
    decoded = decode_messages(TOPIC, TOPIC, 0, list(records))
    (letter,) = decoded.errors
    assert (letter.reason, letter.offset) == ("malformed", 5)
    assert detail in str(letter.detail)
    offsets = [offset for run in decoded.runs if isinstance(run, JsonRun) for offset in run.offsets.tolist()]
    assert offsets == [0, 1, 2, 6, 7]
    assert decoded.next_offset == records.next_fetch_offset == 8
