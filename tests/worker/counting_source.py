"""A small source of ticks for tests of the shell alone: it sums arrivals over 20 s and chains what it decides.

Ticks come from event time and nothing else, so the same log gives the same decisions however often it is read again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from aiokafka import ConsumerRecord

from records.decisions import Floors, ScalingDecision, Supply
from records.enums import Mode, ScalingAction, ScalingReason, SupplySource
from records.memory import ControllerMemory
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal, SkippedRecords, SupplySignal
from records.supply_memory import SupplyMemory
from records.telemetry import RequestSample
from streams.endpoints.effects import ControllerSize
from streams.shell.memory_reader import CompactedPartition
from streams.shell.tick_source import StartPositions

WINDOW_S = 20
POLICY = hashlib.sha256(b"policy").hexdigest()


@dataclass(frozen=True)
class CountedTick:
    signal: EndpointSignal
    decisions: tuple[ScalingDecision, ...]
    memory: ControllerMemory


class CountingSource:
    def __init__(self, partition: int) -> None:
        self.processed_s: float | None = None
        self._arrivals: dict[str, dict[int, int]] = {}
        self._memories: dict[str, ControllerMemory] = {}
        self._offset = 0

    def restore(self, memory: Mapping[str, CompactedPartition], now_s: float) -> StartPositions:
        for message in memory["controllers"].newest.values():
            remembered = msgspec.json.decode(message.value, type=ControllerMemory)
            self._memories[remembered.endpoint] = remembered
        if not self._memories:
            return StartPositions()
        oldest = min(remembered.at_s for remembered in self._memories.values())
        offset = min(remembered.offsets["telemetry.requests"] for remembered in self._memories.values())
        return StartPositions(
            times_s={"telemetry.requests": float(oldest - WINDOW_S)}, offsets={"telemetry.requests": offset}
        )

    def log_begins(self, received_s: float) -> None:
        """These ticks do not mind."""

    is_rebuilding = False
    size = ControllerSize()

    def skip(self, skipped: Sequence[SkippedRecords], now_s: float) -> None:
        """Sums miss what is left unread."""

    def feed(self, topic: str, messages: Sequence[ConsumerRecord], now_s: float) -> list[CountedTick]:
        if topic != "telemetry.requests":
            return []
        ticks: list[CountedTick] = []
        for message in messages:
            sample = msgspec.json.decode(message.value, type=RequestSample)
            self.processed_s = max(self.processed_s or 0.0, message.timestamp / 1000)
            self._offset = message.offset + 1
            seconds = self._arrivals.setdefault(sample.endpoint, {})
            tick_s = sample.at_s - sample.at_s % 5
            remembered = self._memories.get(sample.endpoint)
            if seconds and (remembered is None or tick_s > remembered.at_s) and tick_s > max(seconds):
                ticks.append(self._tick(sample.endpoint, tick_s, seconds))
            seconds[sample.at_s] = sample.arrivals or 0
        return ticks

    def advance(self, now_s: float) -> list[CountedTick]:
        return []

    def _tick(self, endpoint: str, at_s: int, seconds: Mapping[int, int]) -> CountedTick:
        total = sum(count for second, count in seconds.items() if at_s - WINDOW_S <= second < at_s)
        before = self._memories.get(endpoint)
        previous = None if before is None else before.scaling.previous_id
        decision = ScalingDecision(
            endpoint=endpoint,
            at_s=at_s,
            decision_id=hashlib.sha256(f"{endpoint} {at_s} {total} {previous}".encode()).hexdigest(),
            previous_id=previous,
            policy_hash=POLICY,
            mode=Mode.ADVISE,
            action=ScalingAction.HOLD,
            reason=ScalingReason.WITHIN_TARGET,
            bound=None,
            detail="",
            current=total,
            desired=total,
            candidates=(),
            floors=Floors(minimum=None),
            supply=Supply(ready=0, starting=0, draining=0, unschedulable=0, failed=0),
            gpus=None,
        )
        offsets = {"telemetry.requests": self._offset}
        memory = ControllerMemory(
            endpoint=endpoint,
            at_s=at_s,
            offsets=offsets,
            scaling=ScalingMemory(previous_id=decision.decision_id),
            supply=SupplyMemory(),
        )
        self._memories[endpoint] = memory
        signal = EndpointSignal(
            endpoint=endpoint,
            at_s=at_s,
            processed_s=self.processed_s or 0.0,
            offsets=offsets,
            supply=SupplySignal(source=SupplySource.INFERRED),
            windows={},
        )
        return CountedTick(signal, (decision,), memory)
