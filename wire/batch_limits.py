"""Batches of the log that would fill a reader's memory, or are damaged: told before they are decompressed, and read as
one bad record.

Kafka limits a batch as it is stored. A few hundred KB of it can be gigabytes of records, or millions of empty ones, and
one whose bytes changed on a disk would be raised by aiokafka again at each fetch, so its fetcher is given
LimitedRecords for its own MemoryRecords. The release is pinned, and a test fails where
another one reads batches in another way.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords

from records.enums import BadInput

DECOMPRESSED_BYTES_MAX = 32 * 1024 * 1024
"""Most bytes of a batch once decompressed: twice the largest message, and thirty times what producers put in one."""
RECORDS_MAX = 65_536
"""Most records of a batch: each costs a reader some 300 bytes, however small it is. A producer's batch of 1 MiB holds
some 4,000 lean samples."""
KEPT_BYTES_MAX = 64 * 1024
"""Most bytes of a refused batch, as stored, that its one record has."""
WHY_CHARS_MAX = 200
REFUSED_HEADER = "headrace-refused-batch"
"""Of the one record of a refused batch: a BadInput, a colon and what is wrong. Senders may set it too, and then lose
their own record."""

_LENGTH = struct.Struct(">i")
_LENGTH_AT, _OVERHEAD, _MAGIC_AT, _COUNT_AT, _BODY_AT = 8, 12, 16, 57, 61
_MAGIC = 2
_STREAMS = {1: "gzip", 3: "lz4", 4: "zstd"}
_SNAPPY, _ZSTD = 2, 4

_ZSTD_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
_ZSTD_BLOCK_MAX = 128 * 1024
_RAW, _RUN = 0, 1
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """The one record of a refused batch, with the attributes of aiokafka's own."""

    offset: int
    timestamp: int
    timestamp_type: int
    value: bytes
    headers: Sequence[tuple[str, bytes]]
    key: bytes | None = None
    checksum: None = None


class LimitedBatch:
    """As aiokafka's batch, but that one which is refused, or cannot be read, holds one RefusedRecord.

    `body` is what its records are stored as.
    """

    def __init__(self, batch: Any, body: memoryview, why: str | None) -> None:
        self._batch = batch
        self._body = body
        self._why = why

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    @property
    def is_control_batch(self) -> bool:
        """What a refused batch says of itself is not believed."""
        return self._why is None and bool(self._batch.is_control_batch)

    @property
    def is_transactional(self) -> bool:
        return self._why is None and bool(self._batch.is_transactional)

    def validate_crc(self) -> bool:
        """It was looked at when the batch was taken: a wrong one is told by its one record."""
        return True

    def __iter__(self) -> Iterator[Any]:
        if self._why is not None:
            return iter((self._refused(self._why),))
        try:
            return iter(list(self._batch))
        except Exception as error:
            # Kafka checks the stored batch and not what is in it: whatever is raised here would be raised for ever.
            return iter(
                (self._refused(f"{BadInput.MALFORMED}: a batch that cannot be read: {error!r}"[:WHY_CHARS_MAX]),)
            )

    def __next__(self) -> Any:
        """Used of control batches alone."""
        return next(self._batch)

    def _refused(self, why: str) -> RefusedRecord:
        return RefusedRecord(
            offset=self._batch.next_offset - 1,
            timestamp=self._batch.max_timestamp,
            timestamp_type=self._batch.timestamp_type,
            value=bytes(self._body[:KEPT_BYTES_MAX]),
            headers=((REFUSED_HEADER, why.encode()),),
        )


class LimitedRecords:
    """As aiokafka's MemoryRecords, of LimitedBatches."""

    def __init__(self, data: bytes) -> None:
        self._records = MemoryRecords(data)
        self._data = memoryview(data)
        self._position = 0

    def size_in_bytes(self) -> int:
        return int(self._records.size_in_bytes())

    def has_next(self) -> bool:
        return bool(self._records.has_next())

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        if batch is None:
            return None
        start = self._position
        self._position = start + _OVERHEAD + _LENGTH.unpack_from(self._data, start + _LENGTH_AT)[0]
        stored = self._data[start : self._position]
        if stored[_MAGIC_AT] != _MAGIC:
            why = f"{BadInput.MALFORMED}: a batch of format {stored[_MAGIC_AT]}, which no broker writes since Kafka 4"
            batch = MemoryRecords(bytes(stored[:_MAGIC_AT]) + bytes([_MAGIC]) + stored[_MAGIC_AT + 1 :]).next_batch()
        elif not batch.validate_crc():
            why = f"{BadInput.MALFORMED}: a batch whose checksum is another than that of its bytes"
        else:
            return LimitedBatch(batch, stored[_BODY_AT:], why_refused(stored, batch.compression_type))
        return LimitedBatch(batch, stored[_BODY_AT:], why)


def why_refused(stored: memoryview, compression: int) -> str | None:
    """What is wrong with a stored batch of format 2; null for a good one. `compression` is Kafka's number."""
    (records,) = _LENGTH.unpack_from(stored, _COUNT_AT)
    if records > RECORDS_MAX:
        return f"{BadInput.TOO_LARGE}: a batch of {records} records, allowed {RECORDS_MAX}"
    if compression > _ZSTD:
        return f"{BadInput.MALFORMED}: a batch compressed by codec {compression}, which nobody knows"
    body = stored[_BODY_AT:]
    if compression == 0 or _is_surely_small(body, compression):
        return None
    if compression == _SNAPPY or _exceeds(body, _STREAMS[compression]):
        return f"{BadInput.TOO_LARGE}: a batch of more than {DECOMPRESSED_BYTES_MAX} bytes once decompressed"
    return None


def _is_surely_small(body: memoryview, compression: int) -> bool:
    """By what the compressed blocks say of their sizes, at a few microseconds."""
    try:
        if compression == _ZSTD:
            return _zstd_size(body) <= DECOMPRESSED_BYTES_MAX
        return compression == _SNAPPY and _snappy_size(body) <= DECOMPRESSED_BYTES_MAX
    except (struct.error, IndexError):
        return False


def _zstd_size(body: memoryview) -> int:
    """What the blocks of all frames hold at most once decompressed, by RFC 8878; summed until it is too much."""
    position = total = 0
    while position < len(body) and total <= DECOMPRESSED_BYTES_MAX:
        (magic,) = struct.unpack_from("<I", body, position)
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            position += 8 + struct.unpack_from("<I", body, position + 4)[0]
            continue
        if magic != _ZSTD_MAGIC:
            return DECOMPRESSED_BYTES_MAX + 1
        descriptor = body[position + 4]
        position += 5 + _zstd_header_bytes(descriptor)
        is_last = False
        while not is_last and total <= DECOMPRESSED_BYTES_MAX:
            header = int.from_bytes(body[position : position + 3], "little")
            is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            position += 3 + (1 if kind == _RUN else size)
            total += size if kind in (_RAW, _RUN) else _ZSTD_BLOCK_MAX
            if position > len(body):
                return DECOMPRESSED_BYTES_MAX + 1
        position += 4 if descriptor & 4 else 0
    return total


def _zstd_header_bytes(descriptor: int) -> int:
    """After the descriptor: the window, the dictionary's number, and the size of the content where it is told."""
    is_single = bool(descriptor & 0x20)
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    content = (1 if is_single else 0, 2, 4, 8)[descriptor >> 6]
    return (0 if is_single else 1) + dictionary + content


def _snappy_size(body: memoryview) -> int:
    """What the blocks say that they hold; a block that lies is refused by the decoder."""
    if bytes(body[: len(_XERIAL)]) != _XERIAL:
        return _varint(body)
    position, total = _XERIAL_HEADER_BYTES, 0
    while position < len(body):
        (size,) = struct.unpack_from(">i", body, position)
        total += _varint(body[position + 4 : position + 14])
        if size <= 0:
            return DECOMPRESSED_BYTES_MAX + 1
        position += 4 + size
    return total


def _varint(body: memoryview) -> int:
    value = 0
    for place in range(5):
        value |= (body[place] & 0x7F) << (7 * place)
        if not body[place] & 0x80:
            break
    return value


def _exceeds(body: memoryview, codec: str) -> bool:
    """Decompresses piece by piece and keeps none. What cannot be decompressed at all is left to aiokafka."""
    total = 0
    try:
        with pa.CompressedInputStream(pa.py_buffer(body), codec) as stream:
            while piece := stream.read(_CHUNK):
                total += len(piece)
                if total > DECOMPRESSED_BYTES_MAX:
                    return True
    except (pa.ArrowException, OSError):
        return False
    return False


def reason_of(header: bytes | None) -> tuple[BadInput, str]:
    """What a REFUSED_HEADER says: the reason and the detail."""
    reason, _, detail = (header or b"")[:WHY_CHARS_MAX].decode(errors="replace").partition(": ")
    return (BadInput.TOO_LARGE if reason == BadInput.TOO_LARGE else BadInput.MALFORMED), detail


def limit_batches() -> None:
    """Have every consumer of this process read LimitedRecords."""
    fetcher.MemoryRecords = LimitedRecords
