"""How large an Arrow IPC stream becomes when it is read, told without reading it.

A body buffer that is compressed begins with its length before compression, and a reader allocates that much. A frame
of a few KB can name gigabytes, so the lengths are summed first. The layout is that of Arrow's Message.fbs; pyarrow's
MessageReader has verified the flatbuffer by then.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 1, 2, 3
_DICTIONARY_DATA = 1
SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3
"""Kinds of messages, by the number of their header."""
_CONTINUED = -1
_PREFIX = struct.Struct("<ii")


@dataclass(frozen=True)
class StreamSize:
    """`nbytes` of all buffers once decompressed, `rows` of all record batches."""

    nbytes: int
    rows: int


@dataclass(frozen=True)
class IpcMessage:
    """A message of a stream, whose body is the bytes `[first, end)` of it.

    Of a batch or a dictionary: `rows`, whether its body `is_compressed`, `nodes` (length, nulls) of the columns and
    `buffers` (place in the body, size) of these.
    """

    kind: int
    first: int
    end: int
    rows: int = 0
    is_compressed: bool = False
    nodes: tuple[tuple[int, int], ...] = ()
    buffers: tuple[tuple[int, int], ...] = ()


def messages_of(stream: bytes) -> Iterator[IpcMessage]:
    """The messages of an IPC stream that pyarrow has read: nothing is checked here."""
    view, place = memoryview(stream), 0
    while place + _PREFIX.size <= len(view):
        continued, size = _PREFIX.unpack_from(view, place)
        if continued != _CONTINUED or not size:
            return
        first = place + _PREFIX.size + size
        message = _Table.root(view[place + _PREFIX.size : first])
        place = first + message.int64(_BODY_LENGTH)
        yield _ipc_message(message, first, place)


def _ipc_message(message: "_Table", first: int, end: int) -> IpcMessage:
    kind = message.int8(_HEADER_TYPE)
    if kind not in (DICTIONARY_BATCH, RECORD_BATCH):
        return IpcMessage(kind, first, end)
    batch = message.inner(_HEADER)
    if kind == DICTIONARY_BATCH:
        batch = batch.inner(_DICTIONARY_DATA)
    return IpcMessage(
        kind,
        first,
        end,
        batch.int64(_BATCH_LENGTH),
        batch.has(_BATCH_COMPRESSION),
        tuple(batch.pairs(_BATCH_NODES)),
        tuple(batch.pairs(_BATCH_BUFFERS)),
    )


def stream_size(stream: pa.Buffer) -> StreamSize:
    """Sums the messages of an IPC stream. Raises pyarrow's errors for what is no stream, ValueError for bad lengths and
    for bytes after its end: pyarrow passes over them, and a second stream's samples would be lost uncounted."""
    nbytes = rows = 0
    source = pa.BufferReader(stream)
    reader = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            break
        if message.type not in ("record batch", "dictionary"):
            continue
        batch = _Table.root(memoryview(message.metadata)).inner(_HEADER)
        if message.type == "dictionary":
            batch = batch.inner(_DICTIONARY_DATA)
        else:
            rows += batch.int64(_BATCH_LENGTH)
        nbytes += _body_bytes(batch, message.body)
    if source.tell() < stream.size:
        raise ValueError(f"{stream.size - source.tell()} bytes after the end of the stream")
    return StreamSize(nbytes, rows)


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

    def int8(self, number: int) -> int:
        place = self._field(number)
        return self.view[place] if place else 0

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
