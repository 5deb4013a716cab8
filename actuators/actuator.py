"""Consumes `decisions.scaling` and carries the newest decision of each endpoint to its scale target.

Killed at any moment, paused, or started twice, it carries out no decision twice and none after a newer one; each
decision that is no hold gets an outcome.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from actuators import metrics
from actuators.carrier import CarrierOptions
from actuators.decision_reader import DecisionReader
from actuators.fault_points import FaultPoints, NoFaults
from actuators.log_ends import LogEnds
from actuators.outcome_writer import OutcomeWriter
from actuators.port import ScaleTargetPort
from actuators.retries import Backoff
from actuators.tenure import DECISIONS, OUTCOMES, Tenure, TenureOptions
from actuators.verdicts import Limits
from wire.admin import partition_counts
from wire.groups import actuator_group
from wire.kafka import KafkaAccess, close_consumer, open_consumer
from wire.topics import TopicNames

CLOSE_PATIENCE_S = 5.0
TOPICS_EVERY_S = 10.0
"""How often it looks whether its topics are still what they were: aiokafka would ask for a deleted one for ever."""
REBALANCE_S = 20.0
"""Longer than a tenure takes to end: whoever takes longer is left out of the group."""


class TopicsMissingError(Exception):
    """A topic that is read or written is not there, or no longer as it was."""


@dataclass(frozen=True, kw_only=True)
class ActuatorOptions:
    """`name` is the outcomes' actuator and part of the default `group`; actuators of one group share the partitions.

    `clock` gives event seconds (UNIX), `monotonic_s` real ones that never go back. `timestamp_s` gives the timestamps
    of outcomes; None leaves them to the broker. `session_s`: one that is killed is missed after it.
    """

    access: KafkaAccess
    name: str
    clock: Callable[[], float]
    monotonic_s: Callable[[], float]
    rng: np.random.Generator
    names: TopicNames = field(default_factory=TopicNames)
    group: str | None = None
    limits: Limits = field(default_factory=Limits)
    backoff: Backoff = field(default_factory=Backoff)
    session_s: float = 8.0
    timestamp_s: Callable[[], float] | None = None
    faults: FaultPoints = field(default_factory=NoFaults)

    @property
    def group_id(self) -> str:
        return self.group or actuator_group(self.names, self.name)


class Actuator:
    """One actuator: `run` does everything, once."""

    def __init__(self, options: ActuatorOptions, port: ScaleTargetPort) -> None:
        self._options = options
        self._port = port
        self._reader: DecisionReader | None = None
        self._tenure: Tenure | None = None
        self._make_tenure: Callable[[frozenset[TopicPartition]], Tenure] | None = None

    def why_not_ready(self) -> str | None:
        """Null while it is a member of its group and has read what was done before."""
        if self._reader is None or self._tenure is None or not self._reader.is_member:
            return "not assigned yet"
        return None if self._tenure.is_ready else "reading decisions and outcomes"

    async def run(self, stop: asyncio.Event) -> None:
        """Carry out decisions until `stop` is set; then finish the calls under way and write their outcomes.

        Raises TopicsMissingError, ActuatorStuckError, and aiokafka's KafkaError where no broker answers at the start
        or it does not help to ask again. Nothing is lost by any of them.
        """
        options, names = self._options, self._options.names
        metrics.begin_at_zero((DECISIONS, OUTCOMES))
        counts = await self._partition_counts()
        ends = LogEnds(options.access)
        writer = OutcomeWriter(options.access, names.real(OUTCOMES), counts[OUTCOMES], options.timestamp_s)
        session_ms = int(options.session_s * 1000)
        consumer = open_consumer(
            options.access,
            group_id=options.group_id,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=max(1, session_ms // 4),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
        )
        reader = self._reader = DecisionReader(consumer, names.real(DECISIONS), self)
        self._make_tenure = self._tenures(counts, ends, writer, reader)
        watching = asyncio.create_task(self._watch_topics(counts, reader))
        try:
            await consumer.start()
            await reader.run(stop)
        finally:
            watching.cancel()
            await reader.end_owner()
            await writer.stop()
            await ends.stop()
            await close_consumer(consumer, CLOSE_PATIENCE_S)

    async def _watch_topics(self, counts: Mapping[str, int], reader: DecisionReader) -> None:
        """What is so twice in a row is so: a broker that has just started may not know of all topics."""
        found = before = None
        while True:
            await asyncio.sleep(TOPICS_EVERY_S)
            try:
                found = _changed(counts, await self._partition_counts(), self._options.names)
            except TopicsMissingError as error:
                found = str(error)
            except (KafkaError, OSError):
                found = None
            if found is not None and found == before:
                reader.fail(TopicsMissingError(found))
            before = found

    async def _partition_counts(self) -> dict[str, int]:
        counts = await partition_counts(self._options.access, self._options.names)
        missing = [self._options.names.real(topic) for topic in (DECISIONS, OUTCOMES) if topic not in counts]
        if missing:
            raise TopicsMissingError(f"topics are missing: {', '.join(missing)} (hint: headrace topics create)")
        return counts

    def _tenures(
        self, counts: dict[str, int], ends: LogEnds, writer: OutcomeWriter, reader: DecisionReader
    ) -> Callable[[frozenset[TopicPartition]], Tenure]:
        options = self._options
        carriers = CarrierOptions(
            actuator=options.name,
            port=self._port,
            backoff=options.backoff,
            clock=options.clock,
            monotonic_s=options.monotonic_s,
            rng=options.rng,
            faults=options.faults,
        )
        tenures = TenureOptions(
            access=options.access,
            decision_topic=options.names.real(DECISIONS),
            outcome_topic=options.names.real(OUTCOMES),
            decision_partitions=counts[DECISIONS],
            outcome_partitions=counts[OUTCOMES],
            ends=ends,
            writer=writer,
            limits=options.limits,
            carriers=carriers,
            failed=reader.fail,
        )
        return lambda partitions: Tenure(list(partitions), tenures)

    def begin(self, partitions: frozenset[TopicPartition]) -> Tenure:
        """See decision_reader.Owners."""
        assert self._make_tenure is not None, "the reader is made after it"
        self._tenure = self._make_tenure(partitions)
        self._tenure.begin()
        return self._tenure


def _changed(before: Mapping[str, int], now: Mapping[str, int], names: TopicNames) -> str | None:
    """Endpoints move with the number of partitions, and with them what was done before."""
    found = [
        f"{names.real(topic)} has {now[topic]} partitions, and had {before[topic]}"
        for topic in (DECISIONS, OUTCOMES)
        if now[topic] != before[topic]
    ]
    return ", ".join(found) or None
