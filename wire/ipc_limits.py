"""How large an Arrow IPC stream becomes when it is read, told without reading it.

A body buffer that is compressed begins with its length before compression, and a reader allocates that much. A frame
of a few KB can name gigabytes, so the lengths are summed first. The layout is that of Arrow's Message.fbs; pyarrow's
MessageReader has verified the flatbuffer by then.
"""

import struct
from dataclasses import dataclass

import pyarrow as pa

_HEADER = 2
_BATCH_LENGTH, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 2, 3
_DICTIONARY_DATA = 1


@dataclass(frozen=True)
class StreamSize:
    """`nbytes` of all buffers once decompressed, `rows` of all record batches."""

    nbytes: int
    rows: int


def stream_size(stream: pa.Buffer) -> StreamSize:
    """Sums the messages of an IPC stream. Raises pyarrow's errors for what is no stream, ValueError for bad lengths."""
    nbytes = rows = 0
    reader = pa.ipc.MessageReader.open_stream(stream)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return StreamSize(nbytes, rows)
        if message.type not in ("record batch", "dictionary"):
            continue
        batch = _Table.root(memoryview(message.metadata)).inner(_HEADER)
        if message.type == "dictionary":
            batch = batch.inner(_DICTIONARY_DATA)
        else:
            rows += batch.int64(_BATCH_LENGTH)
        nbytes += _body_bytes(batch, message.body)


def _body_bytes(batch: "_Table", body: pa.Buffer) -> int:
    if not batch.has(_BATCH_COMPRESSION):
        return int(body.size)
    view = memoryview(body)
    total = 0
    for offset, length in batch.pairs(_BATCH_BUFFERS):
        if length == 0:
            continue
        (uncompressed,) = struct.unpack_from("<q", view, offset)
        if uncompressed < -1:
            raise ValueError(f"a buffer's length is {uncompressed}")
        total += length if uncompressed == -1 else uncompressed
    return total


@dataclass(frozen=True)
class _Table:
    """A flatbuffer table at `position`; fields are found by their number through its vtable."""

    view: memoryview
    position: int

    @classmethod
    def root(cls, view: memoryview) -> "_Table":
        return cls(view, struct.unpack_from("<I", view, 0)[0])

    def _field(self, number: int) -> int:
        """Position of a field's value, 0 where it is absent."""
        vtable = self.position - struct.unpack_from("<i", self.view, self.position)[0]
        (size,) = struct.unpack_from("<H", self.view, vtable)
        entry = 4 + 2 * number
        if entry >= size:
            return 0
        (offset,) = struct.unpack_from("<H", self.view, vtable + entry)
        return self.position + int(offset) if offset else 0

    def has(self, number: int) -> bool:
        return self._field(number) != 0

    def int64(self, number: int) -> int:
        place = self._field(number)
        return int(struct.unpack_from("<q", self.view, place)[0]) if place else 0

    def inner(self, number: int) -> "_Table":
        place = self._field(number)
        if not place:
            raise ValueError("a message without a header")
        return _Table(self.view, place + struct.unpack_from("<I", self.view, place)[0])

    def pairs(self, number: int) -> list[tuple[int, int]]:
        """A vector of structs of two int64."""
        place = self._field(number)
        if not place:
            return []
        start = place + struct.unpack_from("<I", self.view, place)[0]
        (count,) = struct.unpack_from("<I", self.view, start)
        return list(struct.iter_unpack("<qq", self.view[start + 4 : start + 4 + 16 * count]))
