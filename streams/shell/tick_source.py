"""What a partition's owner needs of the object that makes its ticks; the shell knows it by this port alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from records.decisions import ScalingDecision
from records.memory import ControllerMemory
from records.signals import EndpointSignal, SkippedRecords
from streams.endpoints.effects import ControllerSize
from streams.shell.memory_reader import CompactedPartition
from wire.batches import Message


class Effects(Protocol):
    """All that one tick of one endpoint leaves: written in one transaction, or not at all."""

    @property
    def signal(self) -> EndpointSignal: ...
    @property
    def decisions(self) -> tuple[ScalingDecision, ...]: ...
    @property
    def memory(self) -> ControllerMemory: ...


@dataclass(frozen=True, slots=True)
class StartPositions:
    """Where reading starts, by logical topic: the first record stamped at or after `times_s` (UNIX s), but not after
    `offsets`; a topic in neither is read from its beginning."""

    times_s: Mapping[str, float] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)


class TickSource(Protocol):
    """One partition's windows, policies and memory. Synchronous; time comes in as an argument."""

    @property
    def processed_s(self) -> float | None:
        """Processing time: UNIX s; null before anything was read. May be asked for by another thread, as `size`."""

    @property
    def size(self) -> ControllerSize:
        """May be asked for by another thread, at any moment."""

    @property
    def is_rebuilding(self) -> bool:
        """Whether windows are still being filled with what was read before."""

    def restore(self, memory: Mapping[str, CompactedPartition], now_s: float) -> StartPositions:
        """Start from the topics `controllers` and `policies` (logical names) as read to their end. Raises
        UnreadableMemoryError."""

    def log_begins(self, received_s: float) -> None:
        """Called after `restore` where the log of `telemetry.requests` was cut off after the time asked for: it begins
        with what was received then, UNIX s."""

    def skip(self, skipped: Sequence[SkippedRecords], now_s: float) -> None:
        """Leave these records unread, the next of their topics, since the worker cannot catch up with them; not while
        `is_rebuilding`. Ticks that were missed by `now_s` are not decided."""

    def feed(self, topic: str, messages: Sequence[Message], now_s: float) -> Sequence[Effects]:
        """Take messages of one topic in log order; the ticks that became due."""

    def advance(self, now_s: float) -> Sequence[Effects]:
        """Let time pass: everything up to `now_s` has been read."""
