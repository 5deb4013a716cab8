"""What compacted topics remember of a partition's endpoints: good records, and by their keys what is none.

The key alone says of whom a record speaks: compaction goes by it, so whatever stands under a key has taken the place of
what was there.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec
from aiokafka import ConsumerRecord

from records.enums import BadInput
from streams.shell.memory_reader import CompactedPartition
from wire.batch_limits import REFUSED_HEADER, reason_of
from wire.codec import DecodeError, decode_keyed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A message that is no record of its topic. `endpoint` is what its key names, null where that is no text."""

    message: ConsumerRecord
    endpoint: str | None
    error: DecodeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """`records` by the endpoints that their keys name, of this partition or another one; `rejected` by no order."""

    records: Mapping[str, msgspec.Struct]
    rejected: tuple[Rejected, ...]


def name_of(key: bytes | None) -> str | None:
    """The endpoint that a key names, null where it is no text."""
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None


def read_remembered(topic: str, messages: Iterable[ConsumerRecord]) -> Remembered:
    """Decode messages of a compacted topic (logical name): one of each key, and any without one."""
    records: dict[str, msgspec.Struct] = {}
    rejected = []
    for message in messages:
        key: bytes | None = message.key
        try:
            if key is None:
                raise _keyless(message)
            records[key.decode()] = decode_keyed(topic, key, message.value)
        except DecodeError as error:
            rejected.append(Rejected(message=message, endpoint=name_of(key), error=error))
    return Remembered(records=records, rejected=tuple(rejected))


def _keyless(message: ConsumerRecord) -> DecodeError:
    if message.headers and message.headers[0][0] == REFUSED_HEADER:
        reason, detail = reason_of(message.headers[0][1])
        return DecodeError(reason, detail=detail)
    return DecodeError(BadInput.INVALID, detail="it has no key")


def lost_memories(
    controllers: CompactedPartition, rejected: Collection[Rejected], endpoints: Collection[str]
) -> dict[str, Rejected]:
    """Of these endpoints those whose newest memory cannot be read, with what stands in its place.

    A damaged batch may have held the newest of any that has an older one; those without any have not ticked yet. One
    that is too large has none: no worker writes such.
    """
    lost = {one.endpoint: one for one in rejected if one.endpoint is not None and one.endpoint in endpoints}
    for one in rejected:
        if one.message.key is None and one.error.reason is BadInput.MALFORMED:
            older = [name for name in endpoints if 0 <= controllers.newest_offset(name.encode()) < one.message.offset]
            lost |= {name: one for name in older if name not in lost}
    return lost
