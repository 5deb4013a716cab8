"""One endpoint's decisions on Kafka: found by time, by id and backwards, a bounded stretch at a time.

Offsets are found by the time of their messages. That is the event time where both clocks are the real one; where a
pipeline runs on another clock they differ, and the place is found by halving.
"""

from collections.abc import AsyncIterator

import msgspec
from aiokafka import ConsumerRecord

from headrace.export_logs import EndpointLogs
from records.decisions import ScalingDecision
from records.fields import SECOND_MAX
from wire.codec import DecodeError, decode

TOPIC = "decisions.scaling"
STRETCH = 2_000
"""Offsets that are read to find a decision in order; where it lies farther, its place is found by halving."""
READ_MAX = 50_000
"""Offsets that are read backwards for one that may not be there: hours of a partition with a dozen endpoints."""
NEAR_S = 1800
"""How far before and after a time an id is looked for."""
SLACK_S = 60
"""How much earlier than a time reading begins: endpoints of one partition do not tick at the same moment."""


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, its offset, and the UNIX time of its message in seconds."""

    decision: ScalingDecision
    offset: int
    stamped_s: float


class DecisionLog:
    """Raises LookupError where the topic is not there, aiokafka's KafkaError where no broker answers."""

    def __init__(self, logs: EndpointLogs) -> None:
        self._logs = logs

    async def newest(self) -> Logged | None:
        """The newest one, among the last READ_MAX offsets."""
        return await anext(self.backwards(await self._end()), None)

    async def first(self) -> Logged | None:
        """The first that the log still has, among its first READ_MAX offsets."""
        begin = await self._logs.offset_at(TOPIC, 0)
        return await anext(self._own(begin, begin + READ_MAX), None)

    async def up_to(self, at_s: int) -> Logged | None:
        """The newest whose tick is not after `at_s`."""
        start = await self._logs.offset_at(TOPIC, max(0, at_s - SLACK_S))
        end = await self._end()
        if end - start > STRETCH:
            start = await self._halve(start, end, at_s - SLACK_S)
        best: Logged | None = None
        async for logged in self._own(start, end):
            if logged.decision.at_s > at_s:
                break
            best = logged
        if best is not None:
            return best
        async for logged in self.backwards(start):
            if logged.decision.at_s <= at_s:
                return logged
        return None

    async def of_id(self, beginning: str, at_s: int | None) -> list[Logged]:
        """Those whose id begins so: within NEAR_S of `at_s`, or among the last READ_MAX offsets."""
        if at_s is None:
            return [
                it async for it in self.backwards(await self._end()) if it.decision.decision_id.startswith(beginning)
            ]
        near = await self.up_to(at_s + NEAR_S)
        if near is None:
            return []
        matching = []
        async for it in self.backwards(near.offset + 1):
            if it.decision.at_s < at_s - NEAR_S:
                break
            if it.decision.decision_id.startswith(beginning):
                matching.append(it)
        return matching

    async def backwards(self, end: int) -> AsyncIterator[Logged]:
        """The endpoint's decisions below an offset, the newest first, from at most READ_MAX offsets."""
        begin = await self._logs.offset_at(TOPIC, 0)
        least = max(begin, end - READ_MAX)
        size = STRETCH // 4
        while end > least:
            start = max(least, end - size)
            stretch = [logged async for logged in self._own(start, end)]
            for logged in reversed(stretch):
                yield logged
            end, size = start, size * 4

    async def from_offset(self, offset: int) -> AsyncIterator[Logged]:
        """The endpoint's decisions from an offset on."""
        async for logged in self._own(offset, None):
            yield logged

    async def _end(self) -> int:
        return await self._logs.offset_at(TOPIC, float(SECOND_MAX))

    async def _halve(self, low: int, high: int, at_s: int) -> int:
        """An offset at most STRETCH before the first message, of any endpoint, whose tick is later than `at_s`."""
        while high - low > STRETCH:
            middle = (low + high) // 2
            tick_s = await self._tick_at(middle, high)
            if tick_s is None or tick_s > at_s:
                high = middle
            else:
                low = middle
        return low

    async def _tick_at(self, offset: int, end: int) -> int | None:
        """The tick of the first decision, of any endpoint, from an offset on."""
        async for messages in self._logs.messages(TOPIC, offset, end):
            for message in messages:
                decision = _decision(message)
                if decision is not None:
                    return decision.at_s
        return None

    async def _own(self, start: int, end: int | None) -> AsyncIterator[Logged]:
        async for message, decision in self._logs.outputs(TOPIC, ScalingDecision, start, end):
            yield Logged(decision=decision, offset=message.offset, stamped_s=message.timestamp / 1000)


def _decision(message: ConsumerRecord) -> ScalingDecision | None:
    """What cannot be read is nobody's decision."""
    if message.value is None:
        return None
    try:
        record = decode(TOPIC, message.value)
    except DecodeError:
        return None
    return record if isinstance(record, ScalingDecision) else None
