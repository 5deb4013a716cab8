"""Topics of one test on a real Kafka, decisions as a worker would write them, and actuators that carry them out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiokafka import AIOKafkaProducer, TopicPartition

from actuators.actuator import Actuator, ActuatorOptions
from actuators.fleet_api import FleetApi
from headrace.clock import Clock, monotonic_s
from records.decisions import ScalingDecision
from records.enums import OutcomeResult
from records.outcomes import Outcome
from wire.admin import TopicSettings, create_topics
from wire.codec import DecodeError, decode, encode
from wire.kafka import KafkaAccess, open_consumer, open_producer, partition_of
from wire.topics import TopicNames

PARTITIONS = 2
SETTLE_S = 90.0


@dataclass
class Deployment:
    """`clock` is the real one: ticks are given as seconds before now."""

    access: KafkaAccess
    names: TopicNames
    clock: Clock = field(default_factory=Clock)
    decision_partitions: int = PARTITIONS
    _producer: AIOKafkaProducer | None = None

    @classmethod
    async def create(cls, bootstrap: str, prefix: str) -> "Deployment":
        made = cls(KafkaAccess(bootstrap=bootstrap), TopicNames(prefix))
        await create_topics(made.access, made.names, TopicSettings(partitions=PARTITIONS))
        return made

    def tick(self, before_s: float = 0.0) -> int:
        return int(self.clock.now_s() - before_s)

    async def decide(self, *decisions: ScalingDecision, commit: bool = True) -> None:
        """All in one transaction, as a worker writes them; in the log when this returns."""
        if self._producer is None:
            self._producer = open_producer(self.access, transactional_id=f"{self.names.prefix}worker-0")
            await self._producer.start()
        await self._producer.begin_transaction()
        for decision in decisions:
            await self.send("decisions.scaling", decision.endpoint, encode(decision), self._producer)
        await (self._producer.commit_transaction() if commit else self._producer.abort_transaction())

    async def send(self, topic: str, endpoint: str, value: bytes | None, producer: AIOKafkaProducer) -> None:
        partition = partition_of(endpoint, self.decision_partitions)
        await producer.send_and_wait(self.names.real(topic), value, key=endpoint.encode(), partition=partition)

    async def outcomes(self) -> list[Outcome]:
        """All outcomes in the log, in the order of their partition."""
        found = []
        async with open_consumer(self.access) as consumer:
            partitions = [TopicPartition(self.names.real("outcomes"), number) for number in range(PARTITIONS)]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            while any([await consumer.position(it) < ends[it] for it in partitions]):
                for messages in (await consumer.getmany(timeout_ms=50)).values():
                    found += [_outcome(message.value) for message in messages]
        return [it for it in found if it is not None]

    async def until_told(self, *decisions: ScalingDecision, actuator: str = "fleet") -> dict[str, Outcome]:
        """The outcomes by id, once each of these decisions has one; asserts that none has two of this actuator."""
        told = await self._told(decisions, actuator)
        by_id = {it.decision_id: it for it in told}
        assert len(by_id) == len(told), told
        return by_id

    async def until_agreed(self, *decisions: ScalingDecision, actuator: str = "fleet") -> dict[str, Outcome]:
        """The first outcomes by id, where two processes may have told at the same moment; asserts that those of one
        decision say the same result and the same count."""
        told = await self._told(decisions, actuator)
        by_id = {it.decision_id: it for it in reversed(told)}
        said = {(it.decision_id, it.result, it.observed) for it in told}
        assert len(said) == len(by_id), told
        return by_id

    async def _told(self, decisions: Sequence[ScalingDecision], actuator: str) -> list[Outcome]:
        """All outcomes of this actuator, once each of these decisions has one."""
        wanted = {decision.decision_id for decision in decisions}
        async with asyncio.timeout(SETTLE_S):
            while True:
                told = [it for it in await self.outcomes() if it.actuator == actuator]
                if {it.decision_id for it in told} >= wanted:
                    return told
                await asyncio.sleep(0.05)

    async def results(self, *decisions: ScalingDecision, actuator: str = "fleet") -> list[OutcomeResult]:
        told = await self.until_told(*decisions, actuator=actuator)
        return [told[decision.decision_id].result for decision in decisions]

    def options(self, **changes: Any) -> ActuatorOptions:
        plain: dict[str, Any] = {
            "access": self.access,
            "name": "fleet",
            "clock": self.clock.now_s,
            "monotonic_s": monotonic_s,
            "rng": np.random.default_rng(7),
            "names": self.names,
            "session_s": 2.0,
        }
        return ActuatorOptions(**(plain | changes))

    async def close(self) -> None:
        """The next decision is written by another producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()


@asynccontextmanager
async def acting(options: ActuatorOptions, url: str) -> AsyncIterator[Actuator]:
    """An actuator at work, ready; stopped at the end as by SIGTERM. What it raises is raised."""
    stop = asyncio.Event()
    async with FleetApi(url) as api:
        actuator = Actuator(options, api)
        task = asyncio.create_task(actuator.run(stop))
        try:
            await until(lambda: actuator.why_not_ready() is None, task)
            yield actuator
        finally:
            stop.set()
            await task


async def until(holds: Callable[[], bool], *tasks: "asyncio.Task[None]", timeout_s: float = SETTLE_S) -> None:
    """Returns when `holds()`; raises what a task raised before that."""
    async with asyncio.timeout(timeout_s):
        while not holds():
            for task in tasks:
                if task.done():
                    task.result()
                    raise AssertionError("it ended by itself")
            await asyncio.sleep(0.01)


def ids(decisions: Sequence[ScalingDecision]) -> list[str]:
    return [decision.decision_id for decision in decisions]


def _outcome(value: bytes | None) -> Outcome | None:
    """Null for what a stranger wrote."""
    try:
        record = decode("outcomes", value)
    except DecodeError:
        return None
    return record if isinstance(record, Outcome) else None
