"""A file of telemetry through the worker's own controller: the same input gives the same bytes, anywhere, at any speed.

Processing time is what the lines say (`received_s`); no clock is read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from headrace.replay_lines import BadLine, ClockLine, Line, MemoryLine, RecordLine, read_line
from records.enums import BadInput
from records.memory import ControllerMemory
from records.outcomes import DeadLetter
from records.policy import EndpointPolicy
from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from wire.codec import DecodeError, encode

RUN_LINES_MAX = 4096
"""Most lines that are taken at once where nobody waits for the answer to one."""
JUMP_S_MAX = 7 * 86_400
"""Furthest that one line may let time pass. A tick is made for every five seconds that pass, so that one mistaken
time, such as milliseconds for seconds, would keep a replay at work without end."""
LONG_S = 600
"""A record that lets more time pass than this has its ticks written as they are made, like those of a clock line."""

Write = Callable[[str, msgspec.Struct], None]


@dataclass(slots=True)
class _Run:
    """Lines of one topic, not fed yet."""

    topic: str = ""
    records: list[object] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    received_s: list[float] = field(default_factory=list)
    open_rows: int = 0
    """Rows at the end that belong to a message whose last line has not come."""


class Replay:
    """Takes lines in order of arrival and hands what comes out of them to `write(topic, record)`.

    `eager`: each line's ticks are written before the next line is taken. `source` names the file in dead letters.
    """

    def __init__(self, policies: Sequence[EndpointPolicy], write: Write, *, source: str, eager: bool = False) -> None:
        self._policies = policies
        self._write = write
        self._source = source
        self._eager = eager
        self._memories: list[ControllerMemory] = []
        self._controller: PartitionController | None = None
        self._run = _Run()
        self._lines_of: dict[str, int] = {}
        self._number = 0
        self._received_s = 0.0
        self._latest_s = 0.0
        self._last_tick: int | None = None
        self.dead_letters = 0
        self.first_dead_letter: DeadLetter | None = None

    def take(self, line: bytes) -> None:
        """One line without its end; a bad one becomes a dead letter, and the rest goes on."""
        self._number += 1
        read = self._in_reach(read_line(line), line)
        if isinstance(read, RecordLine):
            self._take_record(read)
        else:
            self._feed()
            self._take_other(read, line)

    def finish(self) -> None:
        """The input is at its end: ticks up to the last `received_s` run with what is there."""
        self._feed()
        if self._received_s and self._last_tick is None:
            self._out(self._started.advance(self._received_s))
        self._out(self._started.finish(self._last_tick))

    @property
    def _started(self) -> PartitionController:
        return self._controller or self._start({})

    def _start(self, first: dict[str, object]) -> PartitionController:
        """Memory comes before everything else; `first` are the file's own policies where it holds any, and take the
        place of those given."""
        policies: dict[str, object] = {policy.endpoint: policy for policy in self._policies} | first
        controller = self._controller = PartitionController(0, lambda endpoint: True)
        kept = [policy for policy in policies.values() if isinstance(policy, EndpointPolicy)]
        controller.restore(self._memories, kept, policies_read_to=self._lines_of.get("policies", 0) if first else 0)
        return controller

    def _take_other(self, line: ClockLine | MemoryLine | BadLine, raw: bytes) -> None:
        match line:
            case ClockLine(received_s=received_s, behind=True):
                self._received_s = max(self._received_s, received_s)
                self._latest_s = max(self._latest_s, received_s)
                self._started.mark_behind(received_s)
            case ClockLine(received_s=received_s, last_tick=last_tick):
                self._last_tick = last_tick
                self._received_s = max(self._received_s, received_s)
                self._latest_s = max(self._latest_s, received_s)
                self._out(self._started.advance(received_s))
            case MemoryLine(memory=memory):
                if self._controller is None:
                    self._memories.append(memory)
                    self._latest_s = max(self._latest_s, memory.at_s, memory.processed_s)
                else:
                    error = DecodeError(BadInput.INVALID, "topic", "controllers", "Expected before every other line")
                    self._refuse(BadLine(error, raw))
            case BadLine():
                self._refuse(line)

    def _in_reach(self, line: Line, raw: bytes) -> Line:
        """The line, or a bad one in its place where time would pass too far. The first line says when a file begins."""
        match line:
            case RecordLine():
                received_s = self._received(line)
            case ClockLine(received_s=received_s, last_tick=last_tick):
                if last_tick is not None and last_tick > received_s + JUMP_S_MAX:
                    return _too_far("last_tick", last_tick, received_s, raw)
            case _:
                return line
        if self._latest_s and received_s > self._latest_s + JUMP_S_MAX:
            return _too_far("received_s", received_s, self._latest_s, raw)
        return line

    def _refuse(self, line: BadLine) -> None:
        letter = line.letter(self._source, self._number, self._received_s)
        self.dead_letters += 1
        self.first_dead_letter = self.first_dead_letter or letter
        self._write("deadletters", letter)

    def _take_record(self, line: RecordLine) -> None:
        received_s = self._received(line)
        if received_s > self._received_s + LONG_S:
            self._pass_long(received_s)
        run = self._run
        if run.records and (run.topic != line.topic or (len(run.records) >= RUN_LINES_MAX and not run.open_rows)):
            self._feed()
            run = self._run
        offset = self._lines_of.get(line.topic, 0)
        self._lines_of[line.topic] = offset + 1
        run.topic = line.topic
        run.records.append(line.record)
        run.offsets.append(offset)
        run.received_s.append(received_s)
        self._received_s = max(self._received_s, received_s)
        self._latest_s = max(self._latest_s, received_s)
        if not line.is_whole:
            run.open_rows += 1
            return
        if run.open_rows:
            run.offsets[-run.open_rows - 1 :] = [offset] * (run.open_rows + 1)
            run.open_rows = 0
        if self._eager and not (self._controller is None and self._memories):
            self._feed()

    def _pass_long(self, received_s: float) -> None:
        """Time passes before the record is read, in the middle of no message and of no rebuilding: `feed` does the
        same."""
        if self._run.open_rows or self._controller is None:
            return
        self._feed()
        if not self._controller.is_rebuilding:
            self._out(self._controller.advance(received_s))

    def _received(self, line: RecordLine) -> float:
        """The line's own, else a second after the record's; a policy without one comes when the line before did."""
        if line.received_s is not None:
            return line.received_s
        at_s = getattr(line.record, "at_s", None)
        return self._received_s if at_s is None else at_s + 1.0

    def _feed(self) -> None:
        run, self._run = self._run, _Run()
        if self._controller is None and self._memories and run.topic == "policies":
            self._start({getattr(record, "endpoint", ""): record for record in run.records})
        elif run.records:
            self._out(
                self._started.feed(
                    run.topic,
                    run.records,
                    np.array(run.offsets, np.int64),
                    np.array(run.received_s, np.float64),
                )
            )

    def _out(self, effects: Iterable[TickEffects]) -> None:
        for one in effects:
            self._write("signals", one.signal)
            for decision in one.decisions:
                self._write("decisions.scaling", decision)


def _too_far(field_name: str, time_s: float, latest_s: float, raw: bytes) -> BadLine:
    """`latest_s` is the latest `received_s` before, in the line itself for its last tick."""
    detail = f"Expected `float` <= {latest_s + JUMP_S_MAX}, 7 days after the latest received_s, {latest_s}"
    return BadLine(DecodeError(BadInput.OUT_OF_RANGE, field_name, str(time_s), detail), raw)


def as_line(topic: str, record: msgspec.Struct, extra: bytes = b"") -> bytes:
    """A record as a line with its end; `extra` are further fields, as JSON, each with a comma behind it."""
    return b'{"topic":"' + topic.encode() + b'",' + extra + encode(record)[1:] + b"\n"
