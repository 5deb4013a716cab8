"""What one poll of one partition holds: records, frames and tombstones in the order of the log, and dead letters."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from records.fields import SECOND_MAX
from records.outcomes import DeadLetter
from wire.batch_limits import REFUSED_HEADER, reason_of
from wire.codec import UNREADABLE, DecodeError, decode, explain, foreign_key, has_own_key, json_reader
from wire.frames import ARROW_CONTENT_TYPE, CONTENT_TYPE_HEADER, Frame, RowError, decode_frame
from wire.known_frames import KnownFrame
from wire.topics import TOPICS

KEPT_BYTES_MAX = 64 * 1024
"""Most bytes of what could not be read that a dead letter keeps."""


ReadFrame = Callable[[bytes], Frame | KnownFrame]
"""Raises DecodeError for a frame that cannot be read."""


class Message(Protocol):
    """What is used of a message: aiokafka's own, as its decoder makes it or as its consumer returns it; `timestamp` in
    ms."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class ConsumedMessage(Message, Protocol):
    """A message that knows its topic, as aiokafka's ConsumerRecord does."""

    @property
    def topic(self) -> str: ...


class JsonRun(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Records of JSON messages that follow each other; `offsets` int64 `(n,)`, `received_s` float64 `(n,)`."""

    records: list[Any]
    offsets: NDArray[np.int64]
    received_s: NDArray[np.float64]


class FrameRun(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The good rows of one Arrow frame; `received_s` float64 `(n,)`."""

    frame: Frame | KnownFrame
    offset: int
    received_s: NDArray[np.float64]

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows, with the topic's frame schema (see wire.frames)."""
        return self.frame.batch

    @property
    def rows(self) -> NDArray[np.int64]:
        """int64 `(n,)`: their numbers in the frame as sent."""
        return self.frame.rows


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """A null value on a topic where it deletes its key."""

    key: str
    offset: int
    received_s: float


Run = JsonRun | FrameRun | Tombstone


class DecodedBatch(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Messages of one partition, decoded. `runs` are in the order of the log; `next_offset` follows the last message.

    `topic` is the logical name, `kafka_topic` that on the cluster, which dead letters and tables carry.
    """

    topic: str
    kafka_topic: str
    partition: int
    runs: list[Run]
    errors: list[DeadLetter]
    next_offset: int


def decode_batch(topic: str, partition: int, messages: Sequence[ConsumedMessage]) -> DecodedBatch:
    """As `decode_messages`, of messages that tell their topic's name on the cluster."""
    return decode_messages(topic, messages[0].topic, partition, messages)


def decode_messages(
    topic: str, kafka_topic: str, partition: int, messages: Sequence[Message], read_frame: ReadFrame | None = None
) -> DecodedBatch:
    """Decodes messages of one partition of a logical topic, at least one, in the order of their offsets.

    `kafka_topic` is the topic's name on the cluster; `read_frame` reads its frames, where one call is to
    remember those of another.

    `received_s` is the record's own where set, else the Kafka timestamp. Nothing is received after Kafka has it, so
    the earlier of the two counts: a sender whose clock is ahead must not move the time of its whole partition.
    Bad messages and rows become dead letters, never an exception; their neighbours are kept. Where null values delete,
    so is a record under another key than its own: it would be deleted by that one, or delete what is under it.
    """
    decode_json = json_reader(topic)
    sink = _Collector(topic, kafka_topic, partition, read_frame or partial(decode_frame, topic))
    try:
        sink.take_plain(messages, decode_json)
    except (*UNREADABLE, TypeError):
        _take_one_by_one(sink, messages, decode_json)
    sink.close_json_run()
    return DecodedBatch(
        topic=topic,
        kafka_topic=sink.kafka_topic,
        partition=partition,
        runs=sink.runs,
        errors=sink.errors,
        next_offset=messages[-1].offset + 1,
    )


def _take_one_by_one(
    sink: "_Collector", messages: Sequence[Message], decode_json: Callable[[bytes], msgspec.Struct]
) -> None:
    """Messages of which some are frames or no records."""
    add_record, add_origin = sink.records.append, sink.origins.append
    for message in messages:
        if message.headers and message.headers[0][0] == REFUSED_HEADER:
            sink.close_json_run()
            sink.add_refused(message)
            continue
        if message.headers and _is_frame(message.headers):
            sink.close_json_run()
            sink.add_frame(message)
            continue
        try:
            record = decode_json(message.value)  # type: ignore[arg-type]  # a null value raises TypeError
        except (*UNREADABLE, TypeError) as error:
            sink.add_undecoded(message, error)
            continue
        if sink.keys_count and not has_own_key(sink.topic, message.key, record):
            sink.add_foreign(message, record)
            continue
        add_record(record)
        add_origin(message)


def has_plain_headers(message: Message) -> bool:
    """Whether the value of a message with headers is one JSON object, as far as they tell."""
    return message.headers[0][0] != REFUSED_HEADER and not _is_frame(message.headers)


def receipts_s(messages: Sequence[Message], own_s: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """float64 (n,), UNIX s: when each of n messages was received; see `decode_messages`.

    `own_s` float64 (n,) is what their records say, NaN where one says nothing; null where their kind never does.
    """
    received_s = np.array([message.timestamp for message in messages], np.float64) / 1000
    if own_s is not None:
        received_s = np.fmin(own_s, received_s)
    clipped: NDArray[np.float64] = np.clip(received_s, 0, SECOND_MAX)
    return clipped


def _is_frame(headers: Sequence[tuple[str, bytes | None]]) -> bool:
    for name, value in headers:
        if name.lower() == CONTENT_TYPE_HEADER:
            return (value or b"").split(b";")[0].strip().lower() == ARROW_CONTENT_TYPE
    return False


def _stamp_s(message: Message) -> float:
    """A message's timestamp in seconds; senders may set any number, tables hold the years 1970 to 9999."""
    return min(max(message.timestamp / 1000, 0.0), float(SECOND_MAX))


class _Collector:
    """Runs and dead letters of one batch as they come; `records` and `origins` are the open run of JSON messages."""

    def __init__(self, topic: str, kafka_topic: str, partition: int, read_frame: ReadFrame) -> None:
        self._read_frame = read_frame
        self.topic = topic
        self.kafka_topic = kafka_topic
        self.partition = partition
        self.runs: list[Run] = []
        self.errors: list[DeadLetter] = []
        self.records: list[Any] = []
        self.origins: list[Message] = []
        self._own_received = "received_s" in TOPICS[topic].record.__struct_fields__
        self.keys_count = TOPICS[topic].tombstones

    def take_plain(self, messages: Sequence[Message], decode_json: Callable[[bytes], msgspec.Struct]) -> None:
        """All messages, if they are JSON records without headers, as nearly all are; else nothing, and it raises one
        of UNREADABLE or a TypeError."""
        if any(message.headers for message in messages):
            raise TypeError("headers have to be looked at")
        records = [decode_json(message.value) for message in messages]  # type: ignore[arg-type]  # null raises
        if self.keys_count:
            pairs = zip(messages, records, strict=True)
            if not all(has_own_key(self.topic, message.key, record) for message, record in pairs):
                raise TypeError("keys have to be looked at")
        self.records = records
        self.origins = list(messages)

    def close_json_run(self) -> None:
        records, origins = self.records, self.origins
        if not records:
            return
        own_s = np.array([record.received_s for record in records], np.float64) if self._own_received else None
        self.runs.append(
            JsonRun(
                records=records.copy(),
                offsets=np.array([message.offset for message in origins], np.int64),
                received_s=receipts_s(origins, own_s),
            )
        )
        records.clear()
        origins.clear()

    def add_undecoded(self, message: Message, error: Exception) -> None:
        """A message that is no JSON record: a tombstone, or a dead letter."""
        value = message.value
        if value is None and TOPICS[self.topic].tombstones and message.key is not None:
            self.close_json_run()
            key = message.key.decode(errors="replace")
            self.runs.append(Tombstone(key=key, offset=message.offset, received_s=_stamp_s(message)))
        elif value:
            self._add_letter(message, explain(value, error))
        else:
            self._add_letter(message, _empty(self.topic, value))

    def add_foreign(self, message: Message, record: msgspec.Struct) -> None:
        """A good record under a key that is not its own."""
        self._add_letter(message, foreign_key(self.topic, message.key, record))

    def add_refused(self, message: Message) -> None:
        """The one record of a batch of the log that is too large, or cannot be read."""
        reason, detail = reason_of(message.headers[0][1])
        self._add_letter(message, DecodeError(reason, detail=detail))

    def add_frame(self, message: Message) -> None:
        try:
            frame = self._read_frame(message.value or b"")
        except DecodeError as error:
            self._add_letter(message, error)
            return
        self.errors.extend(self._row_letter(message, row_error) for row_error in frame.errors)
        if len(frame.rows):
            received_s = frame.received_s(_stamp_s(message))
            self.runs.append(FrameRun(frame=frame, offset=message.offset, received_s=received_s))

    def _add_letter(self, message: Message, error: DecodeError) -> None:
        self.errors.append(self._letter(message, error, 0, message.value or b""))

    def _row_letter(self, message: Message, row_error: RowError) -> DeadLetter:
        return self._letter(message, row_error.error, row_error.row, row_error.json)

    def _letter(self, message: Message, error: DecodeError, row: int, kept: bytes) -> DeadLetter:
        return DeadLetter(
            source_topic=self.kafka_topic,
            partition=self.partition,
            offset=message.offset,
            row=row,
            at_s=int(_stamp_s(message)),
            reason=error.reason.value,
            field=error.field,
            value=error.value,
            bytes=b64encode(kept[:KEPT_BYTES_MAX]).decode(),
            detail=error.detail,
        )


def _empty(topic: str, value: bytes | None) -> DecodeError:
    try:
        decode(topic, value)
    except DecodeError as error:
        return error
    raise AssertionError(f"an empty value was decoded as a record of {topic}")
