"""Ends a worker that is alive and stuck, so that its partitions move, or whose topics have got other partitions.

A consumer can stand still after a broker's restart while its heartbeats go on. So the log's ends are asked for over a
connection of our own, and compared with what was fed: an end that moves before a position that does not is a stall.
"""

import asyncio
from collections.abc import Callable, Mapping

from aiokafka.errors import KafkaError
from faust.types import TP

from streams.shell.assignment import Assignments
from streams.shell.log_offsets import LogOffsets
from streams.shell.owner_ports import OwnerState
from wire.stalls import StallDetector

LOOKS = 6
"""In the time of a stall."""
ASSIGNMENT_STALLS = 2
"""A rebalance may take as long as the slowest member: it is given twice the time of a stall."""


class WorkerStuckError(Exception):
    """No progress for too long although there is work. The message names where."""


class PartitionsChangedError(Exception):
    """The topics have not the numbers of partitions any more that they had when the worker started: endpoints belong
    to other partitions now. The message names topics and numbers."""


class Watchdog:
    """Looks every `every_s`; `watch` raises WorkerStuckError, or PartitionsChangedError where `partitions`, by topic as
    named on the cluster, are others now. While Kafka does not answer nothing counts as a stall."""

    def __init__(
        self,
        assignments: Assignments,
        offsets: LogOffsets,
        partitions: Mapping[str, int],
        stall_s: float,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._assignments = assignments
        self._offsets = offsets
        self._partitions = partitions
        self._stall_s = stall_s
        self._monotonic_s = monotonic_s
        self._detector: StallDetector[TP] = StallDetector(stall_s)
        self._idle_since: dict[int, tuple[float | None, float]] = {}
        """By partition that is not worked on: processing time, and since when it stands there."""
        self._unassigned_since: float | None = None

    async def watch(self) -> None:
        every_s = self._stall_s / LOOKS
        looked_s = self._monotonic_s()
        while True:
            await asyncio.sleep(every_s)
            now_s = self._monotonic_s()
            if now_s - looked_s > self._stall_s / 2:
                self._forget()  # This process, or its machine, was asleep: that is no stall.
            looked_s = now_s
            await self._look(now_s, every_s)

    async def _look(self, now_s: float, timeout_s: float) -> None:
        positions = self._positions()
        try:
            async with asyncio.timeout(timeout_s):
                counts = await self._offsets.partition_counts(self._partitions)
                ends = await self._offsets.ends(positions.keys())
        except (TimeoutError, KafkaError):
            self._forget()
            return
        self._check_partitions(counts)
        stalled = self._detector.stalled(now_s, positions, ends)
        if stalled:
            raise WorkerStuckError("no progress on " + ", ".join(f"{tp.topic}/{tp.partition}" for tp in stalled))
        self._check_owners(now_s)
        self._check_assigned(now_s)

    def _forget(self) -> None:
        """Whatever stands still does so from now on."""
        self._detector = StallDetector(self._stall_s)
        self._idle_since.clear()
        self._unassigned_since = None

    def _check_partitions(self, counts: Mapping[str, int]) -> None:
        """A topic that is not told of, now or at the start, is left to those that read it: metadata may be incomplete
        for a moment."""
        changed = [
            f"{topic} has {counts[topic]} partitions, and had {count}"
            for topic, count in self._partitions.items()
            if count and counts[topic] not in (0, count)
        ]
        if changed:
            raise PartitionsChangedError("; ".join(changed))

    def _positions(self) -> dict[TP, int]:
        positions: dict[TP, int] = {}
        for owner in self._assignments.owners.values():
            if owner.state is OwnerState.WORKING:
                positions |= owner.read_positions()
        return positions

    def _check_owners(self, now_s: float) -> None:
        """An owner that neither works nor is stopped for long is as stuck as a position; one that skips a long backlog
        works on, tick by tick."""
        idle = {p: owner for p, owner in self._assignments.owners.items() if owner.state is not OwnerState.WORKING}
        known, self._idle_since = self._idle_since, {}
        for partition, owner in idle.items():
            there_s, since_s = known.get(partition, (owner.processed_s, now_s))
            self._idle_since[partition] = owner.processed_s, since_s if there_s == owner.processed_s else now_s
        stuck = [partition for partition, (_, since_s) in self._idle_since.items() if now_s - since_s >= self._stall_s]
        if stuck:
            raise WorkerStuckError(f"partitions {sorted(stuck)} are assigned and not worked on")

    def _check_assigned(self, now_s: float) -> None:
        """A group that gives nothing, not even an empty assignment, waits for a dead member."""
        if self._assignments.is_assigned:
            self._unassigned_since = None
            return
        self._unassigned_since = now_s if self._unassigned_since is None else self._unassigned_since
        if now_s - self._unassigned_since >= ASSIGNMENT_STALLS * self._stall_s:
            raise WorkerStuckError(f"the consumer group assigned nothing in {now_s - self._unassigned_since:.0f} s")
