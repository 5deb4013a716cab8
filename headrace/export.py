"""What the workers read and when, as a replay file: its replay gives the workers' own decisions again, ids included.

A tick's signal says what had been read of each topic (`offsets`) and when (`processed_s`). Between two ticks the order
among topics does not matter, but the record with which a tick fell due must come last: samples after everything else,
or the clock where time alone made it due.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from decisions.chain import policy_hash
from headrace.export_feed import Feed, read_records
from headrace.export_lines import clock_line, record_line
from headrace.export_logs import EndpointLogs, Logged
from headrace.replay import as_line
from records.decisions import ScalingDecision, SkippedTicks
from records.fields import SECOND_MAX
from records.memory import ControllerMemory
from records.policy import EndpointPolicy
from records.signals import EndpointSignal, SkippedRecords
from records.supply_memory import SkewChange, SourceMemory
from streams.controller.rebuild import REQUESTS, WINDOW_TOPICS, plan_rewind
from streams.endpoints.effects import PolicyDeleted
from streams.endpoints.endpoint_state import EndpointState
from streams.endpoints.ticks import PATIENCE_S, TICK_S
from streams.shell.inputs import INPUT_TOPICS

Struct = TypeVar("Struct", bound=msgspec.Struct)
OTHER_TOPICS = tuple(topic for topic in INPUT_TOPICS if topic not in (REQUESTS, "policies"))


class NothingToExportError(Exception):
    """The logs hold no tick of the endpoint in that time, or no memory to start from."""


class NoTickError(NothingToExportError):
    """The logs hold no tick of the endpoint at any time."""


@dataclass(frozen=True, slots=True)
class RecordedTick:
    """A tick as its signal tells of it: event time, processing time (UNIX s), next offsets by topic, and what was left
    unread before it."""

    at_s: int
    processed_s: float
    offsets: dict[str, int]
    skipped_records: tuple[SkippedRecords, ...] = ()

    @property
    def moment(self) -> tuple[float, dict[str, int]]:
        """Ticks of one moment fell due together, and cannot be had apart."""
        return self.processed_s, self.offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Ticks that can be made again, in order, and what they start from. `memory` is null at the chain's beginning;
    `first_offsets`: from where each topic was read then. `skipped` by their first tick."""

    ticks: Sequence[RecordedTick]
    memory: ControllerMemory | None
    first_offsets: dict[str, int]
    skipped: dict[int, SkippedTicks]
    policy_hash: str | None
    left_out: int = 0
    """Ticks asked for and in the log, but of the chain before: the policy was deleted, and published again."""
    deleted_at: int | None = None
    """Offset of that deletion in `policies`; null if there was none, or compaction has taken it."""

    @property
    def skipped_records(self) -> frozenset[SkippedRecords]:
        """What the workers left unread, in these ticks' windows or before them."""
        told = [one for tick in self.ticks for one in tick.skipped_records]
        return frozenset(told if self.memory is None else [*told, *self.memory.skipped_records])


async def find_recording(logs: EndpointLogs, from_s: int, to_s: int) -> Recording:
    """The ticks from `from_s` to `to_s` that are in the logs, from the first one on that something remembers.

    One chain of decisions: the last one where the policy was deleted and published again in between. Raises
    NothingToExportError.
    """
    ticks = {tick.at_s: tick async for tick in _ticks(logs)}
    wanted = sorted(at_s for at_s in ticks if from_s <= at_s <= to_s)
    memories = {memory.at_s: memory async for memory in _memories(logs)}
    decisions = {decision.at_s: decision async for decision in _decisions(logs)}
    if not wanted:
        raise _none_between(logs.endpoint, from_s, to_s, ticks)
    begins = _begins(decisions.values())
    chain_s = max((at_s for at_s in begins if at_s <= wanted[-1]), default=0)
    next_chain_s = min((at_s for at_s in begins if at_s > wanted[-1]), default=SECOND_MAX)
    asked, wanted = wanted, [at_s for at_s in wanted if at_s >= chain_s]
    first, memory = _start(wanted, begins, memories)
    last = ticks[wanted[-1]]
    while (following := ticks.get(last.at_s + TICK_S)) is not None and following.moment == last.moment:
        last = following
    of_chain = [memories[at_s] for at_s in memories if chain_s <= at_s < next_chain_s]
    if memory is None and not of_chain:
        raise NothingToExportError(
            f"no memory of the ticks from {first} on says what they were made of: it is compacted away"
        )
    left_out = len(asked) - len(wanted)
    skipped = {one.skipped.first_tick: one.skipped for one in decisions.values() if one.skipped is not None}
    hashes = (decisions[at_s].policy_hash for at_s in sorted(decisions) if at_s >= first)
    return Recording(
        ticks=[ticks[at_s] for at_s in sorted(ticks) if first <= at_s <= last.at_s],
        memory=memory,
        first_offsets=of_chain[-1].first_offsets if of_chain else {},
        skipped=skipped,
        policy_hash=next(hashes, None),
        left_out=left_out,
        deleted_at=await _deletion(logs, ticks[first].offsets.get("policies", 0)) if left_out else None,
    )


def _none_between(endpoint: str, from_s: int, to_s: int, ticks: Collection[int]) -> NothingToExportError:
    """Names the bounds that were given, and says from when to when there are ticks."""
    if not ticks:
        return NoTickError(f"no tick of {endpoint} is in the log")
    bounds = [f" from {from_s}"] * (from_s > 0) + [f" to {to_s}"] * (to_s < SECOND_MAX)
    there = f"the first is {min(ticks)}, the last {max(ticks)}"
    return NothingToExportError(f"no tick of {endpoint}{''.join(bounds)} is in the log; {there}")


def _begins(decisions: Iterable[ScalingDecision]) -> frozenset[int]:
    """First ticks of chains."""
    firsts = (one for one in decisions if one.previous_id is None)
    return frozenset(one.at_s if one.skipped is None else one.skipped.first_tick for one in firsts)


async def _deletion(logs: EndpointLogs, before: int) -> int | None:
    """Offset of the policy's last deletion before an offset of `policies`."""
    found = None
    async for logged in logs.records("policies", 0, before):
        if isinstance(logged.record, PolicyDeleted):
            found = logged.offset
    return found


def _start(
    wanted: Sequence[int], begins: Collection[int], memories: dict[int, ControllerMemory]
) -> tuple[int, ControllerMemory | None]:
    """The first tick that can be made again: that of a chain, or one whose memory the compacted topic still has."""
    for at_s in wanted:
        if at_s in begins:
            return at_s, None
        if at_s - TICK_S in memories:
            return at_s, memories[at_s - TICK_S]
    raise NothingToExportError(
        f"ticks from {wanted[0]} on are in the log, but no memory to start from: it is compacted away"
    )


async def _ticks(logs: EndpointLogs) -> AsyncIterator[RecordedTick]:
    async for signal in _own(logs, "signals", EndpointSignal):
        yield RecordedTick(signal.at_s, signal.processed_s, signal.offsets, signal.skipped_records)


async def _memories(logs: EndpointLogs) -> AsyncIterator[ControllerMemory]:
    async for memory in _own(logs, "controllers", ControllerMemory):
        yield memory


async def _decisions(logs: EndpointLogs) -> AsyncIterator[ScalingDecision]:
    async for decision in _own(logs, "decisions.scaling", ScalingDecision):
        yield decision


async def _own(logs: EndpointLogs, topic: str, kind: type[Struct]) -> AsyncIterator[Struct]:
    """The endpoint's records of an output topic, all that the log holds."""
    async for _, record in logs.outputs(topic, kind, 0):
        yield record


class Exporter:
    """Writes the lines of a recording, with their ends."""

    def __init__(self, logs: EndpointLogs, recording: Recording) -> None:
        self._logs = logs
        self._recording = recording
        self._processed_s = 0.0
        last = recording.ticks[-1].offsets
        memory = recording.memory
        firsts = recording.first_offsets if memory is None else memory.offsets
        first = recording.ticks[0].offsets if memory is None else memory.offsets
        # The policy of the beginning is written apart: compaction may have taken its own record away.
        self._policies_from = first.get("policies", 0)
        firsts = firsts | {"policies": self._policies_from}
        self._feeds = {
            topic: Feed(read_records(logs, topic, (firsts.get(topic, 0), last[topic]), recording.skipped_records))
            for topic in INPUT_TOPICS
            if topic in last
        }

    async def lines(self) -> AsyncIterator[bytes]:
        recording = self._recording
        policy = await self._first_policy()
        if recording.memory is not None:
            async for line in self._rebuild(recording.memory, policy):
                yield line
        elif policy is not None:
            yield record_line(policy, None)
        for tick in recording.ticks:
            async for line in self._before(tick):
                yield line
        yield clock_line(self._processed_s, last_tick=recording.ticks[-1].at_s)

    async def _before(self, tick: RecordedTick) -> AsyncIterator[bytes]:
        """What had been read when a tick was made, and was not at the one before."""
        skipped = self._recording.skipped.get(tick.at_s)
        if skipped is not None:
            # The newest tick that was complete then is the one after the last that was skipped.
            yield clock_line(skipped.last_tick + TICK_S + PATIENCE_S, behind=True)
        for topic in ("policies", *OTHER_TOPICS):
            async for line in self._records(topic, tick):
                yield line
        is_due_by_time = tick.processed_s >= tick.at_s + PATIENCE_S
        if not is_due_by_time and tick.processed_s > self._processed_s:
            yield self._clock(tick)
        async for line in self._records(REQUESTS, tick):
            yield line
        if is_due_by_time and tick.processed_s > self._processed_s:
            yield self._clock(tick)

    def _clock(self, tick: RecordedTick) -> bytes:
        self._processed_s = tick.processed_s
        return clock_line(tick.processed_s)

    async def _records(self, topic: str, tick: RecordedTick) -> AsyncIterator[bytes]:
        feed = self._feeds.get(topic)
        if feed is None or topic not in tick.offsets:
            return
        async for logged in feed.below(tick.offsets[topic]):
            yield record_line(logged, logged.received_s)

    async def _rebuild(self, memory: ControllerMemory, policy: Logged | None) -> AsyncIterator[bytes]:
        """The memory with offsets that count lines, the policy of then, and what fills the windows."""
        if policy is None or not isinstance(policy.record, EndpointPolicy):
            raise NothingToExportError("the policy of that time is not in the log any more: it is compacted away")
        plan = plan_rewind([memory], EndpointState.new(policy.record).span_s, 0)
        again: list[Logged] = []
        for topic in WINDOW_TOPICS:
            end = memory.offsets.get(topic, 0)
            if end:
                first = max(await self._logs.offset_at(topic, plan.times_s[topic]), memory.kept_from(topic))
                again += [
                    logged async for logged in read_records(self._logs, topic, (first, end), memory.skipped_records)
                ]
        yield as_line("controllers", counted_in_lines(memory, again))
        yield record_line(policy, None)
        for logged in again:
            yield record_line(logged, logged.received_s)

    async def _first_policy(self) -> Logged | None:
        """The policy that held at the beginning: the newest that had been read, or, if compaction took that one, one
        with the hash that the decisions name."""
        held: Logged | None = None
        async for logged in self._logs.records("policies", 0):
            if logged.offset < self._policies_from:
                held = logged
            elif held is None and _hash(logged) == self._recording.policy_hash:
                return logged
        return held


def _hash(logged: Logged) -> str | None:
    return policy_hash(logged.record) if isinstance(logged.record, EndpointPolicy) else None


def counted_in_lines(memory: ControllerMemory, again: Sequence[Logged]) -> ControllerMemory:
    """The memory as a replay needs it, whose offsets count lines: `again` are those that come before all others."""
    lines: dict[str, list[int]] = {topic: [] for topic in WINDOW_TOPICS}
    for logged in again:
        lines[logged.topic].append(logged.offset)
    offsets = {topic: len(lines.get(topic, ())) for topic in memory.offsets} | {"policies": 1}
    sources = tuple(_counted(source, lines[REQUESTS]) for source in memory.supply.sources)
    supply = msgspec.structs.replace(memory.supply, sources=sources)
    own = {"first_offsets": {}, "skipped_records": (), "gpus_from_offset": 0}
    return msgspec.structs.replace(memory, offsets=offsets, supply=supply, **own)


def _counted(source: SourceMemory, offsets: Sequence[int]) -> SourceMemory:
    """All lines of a message count as the last of them."""
    changes = tuple(
        SkewChange(
            offset=sum(offset <= change.offset for offset in offsets) - (change.offset in offsets),
            shift_s=change.shift_s,
            quarantined=change.quarantined,
            skew_s=change.skew_s,
            since_s=change.since_s,
            row=change.row,
        )
        for change in source.changes
    )
    return msgspec.structs.replace(source, changes=changes)
