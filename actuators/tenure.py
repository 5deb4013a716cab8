"""Everything between an assignment of partitions and their loss: chains, the outcomes that were read, the carriers.

A new one begins with nothing. So after any rebalance nothing is carried out before the outcomes are read.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from actuators import metrics
from actuators.carrier import Carrier, CarrierOptions
from actuators.chain import Chain
from actuators.log_ends import LogEnds
from actuators.log_tail import LogTail
from actuators.outcome_writer import OutcomeWriter
from actuators.verdicts import Limits, Verdict, outcome_of
from records.decisions import ScalingDecision
from records.enums import OutcomeResult
from records.outcomes import Outcome
from wire.codec import DecodeError, decode
from wire.kafka import KafkaAccess, close_consumer, open_consumer, partition_of

DECISIONS = "decisions.scaling"
OUTCOMES = "outcomes"

POLL_MS = 100
RETRY_S = 0.5
REACH_S = 1.0
STUCK_AFTER = 60
"""So many times in a row Kafka said where a log ends, and a second later it was not read to there."""
END_PATIENCE_S = 8.0
"""For a call under way and its outcome; whoever takes over finds out about a call that takes longer."""

TOLD_AT_ONCE = 1000
"""Outcomes that are sent before the next ones: after a long absence there may be a hundred thousand."""

T = TypeVar("T")

_log = structlog.get_logger("headrace.actuators")


class ActuatorStuckError(Exception):
    """Kafka answers and has more, and nothing is read."""


@dataclass(frozen=True, kw_only=True)
class TenureOptions:
    """What every tenure is given. `decision_topic` and `outcome_topic` are names on the cluster.

    Outcomes of an endpoint are in the partition of the same number as its decisions where the topics have the same
    number of partitions, else in any of `outcome_partitions`. `failed` is told what no carrier expected.
    """

    access: KafkaAccess
    decision_topic: str
    outcome_topic: str
    decision_partitions: int
    outcome_partitions: int
    ends: LogEnds
    writer: OutcomeWriter
    limits: Limits
    carriers: CarrierOptions
    failed: Callable[[Exception], None]


@dataclass(kw_only=True)
class _Work:
    """One endpoint's."""

    partition: int
    chain: Chain
    carrier: Carrier
    task: asyncio.Task[None] | None = None


class Tenure:
    """See decision_reader.Owner. `begin` it at once; the carriers' DecisionLog is it, too."""

    def __init__(self, partitions: Sequence[TopicPartition], options: TenureOptions) -> None:
        self._options = options
        self._decisions = sorted(partitions)
        self._outcomes = self._outcome_partitions()
        self._works: dict[str, _Work] = {}
        self._is_ready = False
        self._is_ending = asyncio.Event()
        self._beside: list[asyncio.Task[None]] = []
        self.tail = LogTail(self._take_decision)
        self._outcome_tail = LogTail(self._take_outcome)

    def _outcome_partitions(self) -> list[TopicPartition]:
        options = self._options
        if options.decision_partitions == options.outcome_partitions:
            return [TopicPartition(options.outcome_topic, partition.partition) for partition in self._decisions]
        numbers = range(options.outcome_partitions) if self._decisions else ()
        return [TopicPartition(options.outcome_topic, number) for number in numbers]

    @property
    def is_ready(self) -> bool:
        """Decisions and outcomes are read; carriers are at work."""
        return self._is_ready

    def begin(self) -> None:
        self._options.ends.watch([*self._decisions, *self._outcomes])
        self._beside.append(self._spawn(self._take_over()))

    async def end(self) -> None:
        """See decision_reader.Owner."""
        self._is_ending.set()
        await self.tail.close()
        for work in self._works.values():
            work.carrier.stop()
        under_way = [work.task for work in self._works.values() if work.task is not None and not work.task.done()]
        late: set[asyncio.Task[None]] = set()
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=END_PATIENCE_S)
        if late:
            _log.warning("calls_left_under_way", count=len(late))
        for task in (*late, *self._beside):
            task.cancel()
        await asyncio.gather(*late, *self._beside, return_exceptions=True)

    def settled_to(self) -> Mapping[TopicPartition, int]:
        """See decision_reader.Owner."""
        settled = dict(self.tail.positions)
        for work in self._works.values():
            first = work.chain.first_open
            partition = TopicPartition(self._options.decision_topic, work.partition)
            if first is not None and partition in settled:
                settled[partition] = min(settled[partition], first)
        metrics.open_decisions.set(sum(work.chain.open_count for work in self._works.values()))
        return settled

    async def _take_over(self) -> None:
        """Decisions first: of all outcomes only those of the decisions that were read are remembered."""
        if self._decisions:
            if not await self._read_to_end({self.tail: self._decisions}):
                return
            self._beside.append(self._spawn(self._follow_outcomes()))
            if not await self.confirm():
                return
        self._is_ready = True
        _log.info("partitions_taken_over", endpoints=len(self._works))
        for work in self._works.values():
            self._set_to_work(work)

    async def _follow_outcomes(self) -> None:
        """From the beginning on; a consumer that failed is made anew, and goes on where it was."""
        while True:
            consumer = open_consumer(self._options.access)
            try:
                await consumer.start()
                consumer.assign(self._outcomes)
                for partition, position in self._outcome_tail.positions.items():
                    consumer.seek(partition, position)
                while True:
                    await self._outcome_tail.taken(consumer, await consumer.getmany(timeout_ms=POLL_MS))
            except (KafkaError, OSError) as error:
                _log.warning("outcomes_not_read", error=f"{type(error).__name__}: {error}")
            finally:
                await close_consumer(consumer, RETRY_S)
            await asyncio.sleep(RETRY_S)

    async def confirm(self) -> bool:
        """See carrier.DecisionLog. Raises ActuatorStuckError."""
        return await self._read_to_end({self._outcome_tail: self._outcomes, self.tail: self._decisions})

    async def _read_to_end(self, tails: Mapping[LogTail, Sequence[TopicPartition]]) -> bool:
        """True once each tail has what was in the log after this call; False when the tenure ends before."""
        for _ in range(STUCK_AFTER):
            ends = await self._unless_ending(self._options.ends.now())
            if ends is None:
                return False
            if all([await tail.reach({it: ends[it] for it in tails[tail]}, REACH_S) for tail in tails]):
                return True
        topics = sorted({it.topic for partitions in tails.values() for it in partitions})
        raise ActuatorStuckError(f"{' or '.join(topics)} was not read for {STUCK_AFTER} s, and has more")

    async def _unless_ending(self, work: Coroutine[Any, Any, T]) -> T | None:
        working = asyncio.ensure_future(work)
        ending = asyncio.ensure_future(self._is_ending.wait())
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            ending.cancel()

    async def tell(self, chain: Chain, verdicts: tuple[Verdict, ...]) -> None:
        """See carrier.DecisionLog.

        What others told meanwhile, or an attempt whose acknowledgement was lost, is read before anything is written.
        """
        for start in range(0, len(verdicts), TOLD_AT_ONCE):
            await self._tell_some(chain, verdicts[start : start + TOLD_AT_ONCE])

    async def _tell_some(self, chain: Chain, verdicts: tuple[Verdict, ...]) -> None:
        while True:
            await self._outcomes_read()
            left = [verdict for verdict in verdicts if not chain.is_told(verdict)]
            carriers = self._options.carriers
            outcomes = [outcome_of(it, DECISIONS, carriers.actuator, int(carriers.clock())) for it in left]
            if not outcomes or await self._options.writer.write(outcomes):
                break
            await asyncio.sleep(RETRY_S)
        for verdict, outcome in zip(left, outcomes, strict=True):
            chain.settle(verdict)
            metrics.outcomes.add(1, {"result": outcome.result.value})
            say = _log.debug if outcome.result is OutcomeResult.SUPERSEDED else _log.info
            say(
                "outcome_written",
                endpoint=outcome.endpoint,
                decision_id=outcome.decision_id,
                result=outcome.result.value,
                detail=outcome.detail,
            )

    async def _outcomes_read(self) -> None:
        """Also while the tenure ends: what is known is written before the partitions go."""
        while True:
            ends = await self._options.ends.now()
            if await self._outcome_tail.reach({it: ends[it] for it in self._outcomes}, REACH_S):
                return

    def _take_decision(self, message: ConsumerRecord) -> None:
        record = _decoded(DECISIONS, message)
        if not isinstance(record, ScalingDecision):
            return
        if message.partition != partition_of(record.endpoint, self._options.decision_partitions):
            # Whoever owns the endpoint's own partition does not see it: the two would not know of each other.
            metrics.misplaced.add(1)
            _log.warning("misplaced", endpoint=record.endpoint, partition=message.partition, offset=message.offset)
            return
        work = self._works.get(record.endpoint) or self._add_work(record.endpoint, message.partition)
        if not work.chain.add(record, message.offset, self._options.carriers.monotonic_s()):
            metrics.broken_chains.add(1)
            _log.warning("chain_broken", endpoint=record.endpoint, decision_id=record.decision_id, at_s=record.at_s)
        if self._is_ready:
            self._set_to_work(work)

    def _take_outcome(self, message: ConsumerRecord) -> None:
        record = _decoded(OUTCOMES, message)
        if not isinstance(record, Outcome) or record.decision_topic != DECISIONS:
            return
        work = self._works.get(record.endpoint)
        if work is None:
            partition = partition_of(record.endpoint, self._options.decision_partitions)
            if TopicPartition(self._options.decision_topic, partition) not in self._decisions:
                return
            work = self._add_work(record.endpoint, partition)
        work.chain.note(record)

    def _add_work(self, endpoint: str, partition: int) -> _Work:
        options = self._options
        chain = Chain(options.carriers.actuator, options.limits)
        carrier = Carrier(endpoint, chain, self, options.carriers)
        work = self._works[endpoint] = _Work(partition=partition, chain=chain, carrier=carrier)
        return work

    def _set_to_work(self, work: _Work) -> None:
        if self._is_ending.is_set() or not work.chain.has_open:
            return
        if work.task is None or work.task.done():
            work.task = self._spawn(work.carrier.run())
            # A decision may come after the carrier saw that there was none, and before its task is done.
            work.task.add_done_callback(lambda _: self._set_to_work(work))
        else:
            work.carrier.stir()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._tell_failure)
        return task

    def _tell_failure(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._is_ending.set()
            self._options.failed(error)


def _decoded(topic: str, message: ConsumerRecord) -> object:
    try:
        return decode(topic, message.value)
    except DecodeError as error:
        metrics.undecodable.add(1, {"topic": topic})
        _log.warning("undecodable", topic=topic, partition=message.partition, offset=message.offset, why=str(error))
        return None
