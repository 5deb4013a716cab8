"""What the owner of a partition works with, the same for all owners of a worker."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from faust.types import TP

from streams.shell.batching_consumer import ReadState
from streams.shell.fault_points import FaultPoints
from streams.shell.log_offsets import LogOffsets
from streams.shell.memory_reader import MemoryReader
from streams.shell.worker_metrics import WorkerMetrics
from wire.topics import TopicNames


class OwnerState(StrEnum):
    """What an owner does with its partition."""

    TAKING_OVER = "taking_over"
    WORKING = "working"
    SKIPPING = "skipping"
    """What came faster than it was read is left unread: reading is set to the present."""
    LOST = "lost"
    """Fenced, and no member of the group any more: nothing is read or written until the next rebalance."""
    STOPPED = "stopped"


class Reader(Protocol):
    """The consumer, as an owner uses it."""

    async def rewind(self, partition: int, offsets: Mapping[TP, int]) -> int: ...
    def forget(self, partition: int) -> None: ...
    def batch_read(self, tp: TP, session: int) -> bool: ...
    def unread_batches(self, tp: TP) -> int: ...
    def pause_partitions(self, tps: Iterable[TP]) -> None: ...
    def resume_partitions(self, tps: Iterable[TP]) -> None: ...
    def read_state(self, tp: TP) -> ReadState: ...
    async def commit_or_raise(self, offsets: Mapping[TP, int]) -> None: ...


@dataclass(frozen=True, slots=True)
class OwnerPorts:
    """What all owners of a worker share. `fail` ends the process with an exception."""

    names: TopicNames
    reader: Reader
    offsets: LogOffsets
    memory: MemoryReader
    clock: Callable[[], float]
    faults: FaultPoints
    metrics: WorkerMetrics
    fail: Callable[[BaseException], None]
