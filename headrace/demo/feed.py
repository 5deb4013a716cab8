"""Follows the line from outside, through Kafka alone: samples, and ticks as their signal and decision."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from records.decisions import ScalingDecision
from records.signals import EndpointSignal
from wire.batches import JsonRun, decode_batch
from wire.delta_schemas import to_table
from wire.kafka import KafkaAccess, open_consumer, started
from wire.topics import TopicNames

SAMPLES = "telemetry.requests"
TOPICS_READ = (SAMPLES, "signals", "decisions.scaling")
POLL_MS = 200


@dataclass(frozen=True, kw_only=True)
class Tick:
    """What was known of one endpoint at one tick, and what was decided."""

    signal: EndpointSignal
    decision: ScalingDecision

    @property
    def endpoint(self) -> str:
        return self.signal.endpoint

    @property
    def at_s(self) -> int:
        return self.signal.at_s


class Feed:
    """Reads committed records from the beginning.

    `on_tick` gets each tick once, an endpoint's in order; `on_samples` the samples, as rows of their Delta table.
    """

    def __init__(
        self,
        access: KafkaAccess,
        names: TopicNames,
        on_tick: Callable[[Tick], None],
        on_samples: Callable[[pa.Table], None] = lambda table: None,
    ) -> None:
        self._access = access
        self._names = names
        self._on_tick = on_tick
        self._on_samples = on_samples
        self._signals: dict[tuple[str, int], EndpointSignal] = {}
        self._decisions: dict[tuple[str, int], ScalingDecision] = {}
        self._newest: dict[str, int] = {}
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Read until cancelled. Raises aiokafka's KafkaError."""
        # Of topics made a moment ago it logs an error a partition, and asks again by itself.
        logging.getLogger("aiokafka.consumer.fetcher").setLevel(logging.CRITICAL)
        consumer = open_consumer(self._access, *(self._names.real(topic) for topic in TOPICS_READ))
        async with started(consumer):
            while True:
                polled = await consumer.getmany(timeout_ms=POLL_MS)
                for partition, messages in polled.items():
                    self._read(self._names.logical(partition.topic), partition.partition, messages)
                if polled:
                    self._tell_ticks()
                    async with self._changed:
                        self._changed.notify_all()

    async def until_sampled(self, replicas: Iterable[str], at_s: int) -> None:
        """Return when each of them has told of the second `at_s` or a later one."""
        await self._until([f"replica {name}" for name in replicas], at_s)

    async def until_ticked(self, endpoints: Iterable[str], at_s: int) -> None:
        """Return when the tick `at_s` or a later one of each was decided."""
        await self._until([f"endpoint {name}" for name in endpoints], at_s)

    async def until_sampled_anywhere(self, endpoints: Iterable[str], at_s: int) -> None:
        """Return when some replica of each has told of the second `at_s` or a later one."""
        await self._until([f"samples of {name}" for name in endpoints], at_s)

    async def _until(self, names: list[str], at_s: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: all(self._newest.get(name, -1) >= at_s for name in names))

    def _read(self, topic: str, partition: int, messages: list[Any]) -> None:
        decoded = decode_batch(topic, partition, messages)
        if topic == SAMPLES:
            self._keep_samples(to_table(decoded))
            return
        for run in decoded.runs:
            if isinstance(run, JsonRun):  # what our own workers write
                for record in run.records:
                    self._keep(record)

    def _keep_samples(self, table: pa.Table) -> None:
        for key, begin in (("replica", "replica"), ("endpoint", "samples of")):
            for row in table.group_by(key).aggregate([("at_s", "max")]).to_pylist():
                self._see(f"{begin} {row[key]}", row["at_s_max"])
        self._on_samples(table)

    def _keep(self, record: object) -> None:
        match record:
            case EndpointSignal(endpoint=endpoint, at_s=at_s):
                self._signals[endpoint, at_s] = record
            case ScalingDecision(endpoint=endpoint, at_s=at_s):
                self._decisions[endpoint, at_s] = record

    def _see(self, name: str, at_s: int) -> None:
        self._newest[name] = max(at_s, self._newest.get(name, at_s))

    def _tell_ticks(self) -> None:
        """A signal and its decision are in one transaction, and in two topics: one may be read before the other."""
        for key in sorted(self._signals.keys() & self._decisions.keys(), key=lambda key: (key[1], key[0])):
            tick = Tick(signal=self._signals.pop(key), decision=self._decisions.pop(key))
            self._see(f"endpoint {tick.endpoint}", tick.at_s)
            self._on_tick(tick)
