"""Which partitions this worker has: an owner for each is made when they are assigned, stopped when revoked."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable

import structlog
from aiokafka.errors import KafkaError
from faust.types import TP

from streams.shell.batching_consumer import PolledBatch
from streams.shell.inputs import INPUT_TOPICS
from streams.shell.owner_ports import OwnerState
from streams.shell.partition_owner import PartitionOwner
from wire.topics import TopicNames

IDLE_S = 0.2
"""How often owners look whether time may pass without anything to read."""

REASONS_TOLD = 3
"""Partitions that are named where many are not ready."""

log = structlog.get_logger()


class SplitAssignmentError(Exception):
    """The group gave us a partition of one input topic and not of another."""


class Assignments:
    """The partitions of this worker. `owners` is empty from a revocation to the next assignment.

    Faust would log an exception of its callbacks and go on without them; `fail` ends the process instead.
    """

    def __init__(
        self, names: TopicNames, make_owner: Callable[[int], PartitionOwner], fail: Callable[[BaseException], None]
    ) -> None:
        self.owners: dict[int, PartitionOwner] = {}
        self.is_assigned = False
        self._make_owner = make_owner
        self._fail = fail
        self._inputs = {names.real(topic) for topic in INPUT_TOPICS}

    def announce(self) -> None:
        """A rebalance has ended: the next `partitions_assigned` is about the current assignment."""
        self.is_assigned = True

    def partitions_assigned(self, partitions: frozenset[TP]) -> None:
        """Start an owner for each partition; a SplitAssignmentError ends the process.

        A call that comes after the next revocation has begun is about partitions that we no longer have.
        """
        if not self.is_assigned:
            return
        try:
            wanted = complete_partitions(partitions, self._inputs)
        except SplitAssignmentError as error:
            self._fail(error)
            return
        for partition in sorted(wanted - self.owners.keys()):
            owner = self.owners[partition] = self._make_owner(partition)
            owner.start()
        log.info("partitions_assigned", partitions=sorted(wanted))

    async def revoke(self) -> None:
        """Give all partitions back. Rebalances are eager: each takes all partitions of all members."""
        self.is_assigned = False
        owners, self.owners = self.owners, {}
        if owners:
            await asyncio.gather(*(owner.stop() for owner in owners.values()))
            log.info("partitions_revoked", partitions=sorted(owners))

    def refused(self, error: KafkaError) -> None:
        self._fail(error)

    def settled_offset(self, tp: TP) -> int | None:
        owner = self.owners.get(tp.partition)
        return None if owner is None else owner.settled_offset(tp)

    async def take(self, topic: str, partition: int, batch: PolledBatch) -> None:
        """Hand a batch of one topic (logical name) to its partition's owner; without one it is left unread."""
        owner = self.owners.get(partition)
        if owner is None:
            return
        try:
            await owner.take(topic, batch)
        except Exception as error:
            self._fail(error)

    async def idle_forever(self) -> None:
        """Let time pass for partitions that have been read to their end."""
        while True:
            await asyncio.sleep(IDLE_S)
            for owner in list(self.owners.values()):
                owner.idle()

    def why_not_ready(self, lag_max_s: float) -> str | None:
        """Ready is who has been assigned (which may be nothing), has taken everything over, and has little to read."""
        if not self.is_assigned:
            return "no partitions assigned, or a rebalance is going on"
        reasons = [reason for owner in self.owners.values() if (reason := _why_behind(owner, lag_max_s))]
        if not reasons:
            return None
        more = ["and so on"] if len(reasons) > REASONS_TOLD else []
        return f"{len(reasons)} of {len(self.owners)}: " + "; ".join([*reasons[:REASONS_TOLD], *more])


def complete_partitions(partitions: Iterable[TP], topics: set[str]) -> set[int]:
    """The partition numbers assigned, the same of every topic. Raises SplitAssignmentError."""
    by_number: defaultdict[int, set[str]] = defaultdict(set)
    for tp in partitions:
        if tp.topic in topics:
            by_number[tp.partition].add(tp.topic)
    for number, found in sorted(by_number.items()):
        if found != topics:
            missing = ", ".join(sorted(topics - found))
            raise SplitAssignmentError(
                f"partition {number} came without {missing}, which was deleted, or has another number of partitions"
            )
    return set(by_number)


def _why_behind(owner: PartitionOwner, lag_max_s: float) -> str | None:
    if owner.state is not OwnerState.WORKING:
        return f"partition {owner.partition} is {owner.state.value}"
    if owner.is_rebuilding:
        return f"partition {owner.partition} is rebuilding its windows"
    lag_s = owner.lag_s
    if owner.is_caught_up or (lag_s is not None and lag_s <= lag_max_s):
        return None
    behind = "not read yet" if lag_s is None else f"{lag_s:.0f} s behind"
    return f"partition {owner.partition} is {behind}"
