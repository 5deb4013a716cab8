"""One line of a replay file: what it says, or why it says nothing."""

from base64 import b64encode
from dataclasses import dataclass

import msgspec

from records.enums import BadInput
from records.fields import Instant, Second
from records.memory import ControllerMemory
from records.outcomes import DeadLetter
from streams.endpoints.effects import PolicyDeleted
from streams.shell.inputs import INPUT_TOPICS
from wire.batches import KEPT_BYTES_MAX
from wire.codec import UNREADABLE, DecodeError, decode, explain

CLOCK = "clock"
CONTROLLERS = "controllers"


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A record of an input topic. `received_s` is null where the line does not say; `is_whole` is false where the next
    line of the topic has another row of the same message."""

    topic: str
    record: object
    received_s: float | None
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class ClockLine:
    """Time passes to `received_s`; `behind`: the pipeline was behind until then, and time stands still. `last_tick`:
    no later tick is made at the end of the input."""

    received_s: float
    behind: bool
    last_tick: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """What a controller remembered when the file begins."""

    memory: ControllerMemory


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no record, and why."""

    error: DecodeError
    line: bytes

    def letter(self, source: str, number: int, at_s: float) -> DeadLetter:
        """`number` counts lines from 1; `at_s` is the processing time when the line was read."""
        return DeadLetter(
            source_topic=source,
            partition=0,
            offset=number,
            row=0,
            at_s=int(at_s),
            reason=self.error.reason.value,
            field=self.error.field,
            value=self.error.value,
            bytes=b64encode(self.line[:KEPT_BYTES_MAX]).decode(),
            detail=self.error.detail,
        )


Line = RecordLine | ClockLine | MemoryLine | BadLine


class _Head(msgspec.Struct):
    """What a line says beside its record's fields. `continues`: the next line has another row of the same message."""

    topic: str
    received_s: Instant | None = None
    behind: bool = False
    deleted: bool = False
    continues: bool = False
    last_tick: Second | None = None


class _Deletion(msgspec.Struct):
    endpoint: str


_head = msgspec.json.Decoder(_Head)
_deletion = msgspec.json.Decoder(_Deletion)


def read_line(line: bytes) -> Line:
    """Never raises for what a line holds."""
    try:
        return _read(line)
    except DecodeError as error:
        return BadLine(error, line)
    except UNREADABLE as error:
        return BadLine(explain(line, error), line)


def _read(line: bytes) -> Line:
    if not line:
        raise DecodeError(BadInput.EMPTY, detail="the line is empty")
    head = _head.decode(line)
    if head.topic == CLOCK:
        if head.received_s is None:
            raise DecodeError(BadInput.MISSING_FIELD, "received_s", None, "a clock line says which time it is")
        return ClockLine(head.received_s, head.behind, head.last_tick)
    if head.topic == CONTROLLERS:
        memory = decode(CONTROLLERS, line)
        assert isinstance(memory, ControllerMemory)
        return MemoryLine(memory)
    if head.topic not in INPUT_TOPICS:
        known = ", ".join((*INPUT_TOPICS, CLOCK, CONTROLLERS))
        raise DecodeError(BadInput.UNKNOWN_TOPIC, "topic", head.topic, f"Expected one of {known}")
    if head.topic == "policies" and head.deleted:
        return RecordLine(head.topic, PolicyDeleted(_deletion.decode(line).endpoint), head.received_s)
    return RecordLine(head.topic, decode(head.topic, line), head.received_s, not head.continues)
