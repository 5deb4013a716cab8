"""One partition's ticks: fed with records and time, it gives signals, decisions and memory. Pure.

What comes out is a function of the records of each topic in log order and of what had been read of each topic at a
tick. How the log was cut into polls, and the order among topics between two ticks, changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from records.memory import ControllerMemory
from records.policy import EndpointPolicy
from records.signals import SkippedRecords
from records.telemetry import RequestSample
from streams.controller.rebuild import (
    GPUS,
    REQUESTS,
    Rebuild,
    RewindPlan,
    Run,
    first_read,
    furthest_read,
    plan_rewind,
)
from streams.controller.registry import EndpointRegistry
from streams.controller.rounds import DueRow, note_newest, rounds
from streams.controller.sample_run import SampleDoor, SampleRun
from streams.controller.skipped import SkippedBook
from streams.controller.tick_maker import DueTick, TickMaker
from streams.endpoints.effects import ControllerSize, Counts, TickEffects
from streams.endpoints.endpoint_state import EndpointState, TickMoment
from streams.endpoints.endpoint_windows import count_report
from streams.endpoints.ticks import LATENESS_S, PATIENCE_S, TICK_S, ProcessingTime, processing_time, tick_at_or_before
from streams.windows.columns import SampleColumns

CLEANING_S = 600


@dataclass(frozen=True, slots=True)
class _Due:
    """Effects and the row of the run with which they fell due."""

    row: int
    effects: TickEffects


def _in_order(due: list[_Due]) -> list[TickEffects]:
    due.sort(key=lambda one: (one.row, one.effects.at_s, one.effects.endpoint))
    return [one.effects for one in due]


class PartitionController:
    """See the module's text. `owns` tells whether an endpoint's records belong to this partition."""

    def __init__(self, partition: int, owns: Callable[[str], bool]) -> None:
        self.partition = partition
        self._registry = EndpointRegistry(owns)
        registry = self._registry
        self._door = SampleDoor(registry.book, registry.counts, registry.is_owned, registry.intake)
        self._skipped = SkippedBook()
        self._maker = TickMaker(registry.windows, self._skipped)
        self._positions: dict[str, int] = {}
        self._processed_s = 0.0
        self._rebuild: Rebuild | None = None

    @property
    def processed_s(self) -> float | None:
        """Processing time, UNIX s: the latest receipt, or what `advance` said; null before anything was read. Another
        thread may ask."""
        return max(self._processed_s, self._registry.floor_s) or None

    @property
    def is_rebuilding(self) -> bool:
        """Whether records read before this process was born are still missing from the windows."""
        return self._rebuild is not None

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Those with a policy."""
        return tuple(sorted(self._registry.states))

    @property
    def counts(self) -> Counts:
        return self._registry.counts

    @property
    def skipped_records(self) -> Sequence[SkippedRecords]:
        """What must not be fed: left unread by this owner or one before it."""
        return self._skipped.ranges

    @property
    def size(self) -> ControllerSize:
        return self._registry.size

    @property
    def window_bytes(self) -> int:
        return self._registry.windows.nbytes

    def restore(
        self, memories: Iterable[ControllerMemory], policies: Iterable[EndpointPolicy], policies_read_to: int = 0
    ) -> RewindPlan:
        """Start from what the topics `controllers` and `policies` hold; call it once, before anything else.

        `policies_read_to` is the offset of the next record of `policies`, 0 where they come from somewhere else. The
        plan says from where the input topics are to be fed. Memory of endpoints without a policy is left alone.
        """
        used = self._registry.restore(memories, policies)
        self._positions, self._maker.floor_s = furthest_read(used), self._registry.floor_s
        if policies_read_to:
            self._positions["policies"] = policies_read_to
        self._maker.first_offsets = first_read(used)
        self._skipped.restore(used)
        self._rebuild = Rebuild.after(used)
        longest = max((state.span_s for state in self._registry.states.values()), default=0)
        return plan_rewind(used, longest, policies_read_to)

    def log_begins(self, received_s: float) -> None:
        """Say that the log of `telemetry.requests` holds nothing that was received before `received_s`, though the
        plan asked for it. Scale-downs wait until whole windows have been read."""
        begins_s = int(np.ceil(received_s)) + LATENESS_S
        for state in self._registry.states.values():
            needed_from_s = state.needed_from_s
            if needed_from_s is not None and needed_from_s < begins_s:
                state.observed_from_s = max(state.observed_from_s, begins_s)

    def mark_behind(self, until_s: float) -> None:
        """Say that the pipeline was away, and is behind until processing time `until_s`.

        Endpoints whose next tick is CATCH_UP_S or more before the newest one that is complete then are not decided
        until that one. Nothing else happens; time does not pass.
        """
        self._maker.newest_missed = max(self._maker.newest_missed, tick_at_or_before(until_s - PATIENCE_S))

    def skip(self, skipped: SkippedRecords) -> None:
        """Say that these records, the next of their topic, are left unread. Not while `is_rebuilding`: ticks have read
        what is read again then.

        From now on reading goes on behind them, here and in every later owner. The next tick of each endpoint tells of
        them; time does not pass.
        """
        if self._rebuild is not None:
            raise RuntimeError("nothing can be skipped before the windows are rebuilt")
        self._skipped.add(skipped)
        self._positions[skipped.topic] = skipped.end_offset
        self._maker.first_offsets.setdefault(skipped.topic, skipped.end_offset)

    def feed(
        self,
        topic: str,
        rows: SampleColumns | Sequence[object],
        offsets: NDArray[np.int64],
        received_s: NDArray[np.float64],
    ) -> list[TickEffects]:
        """Take rows of one input topic (logical name) in log order; the ticks that fell due, in the order they did.

        `offsets` int64 (n,): the rows of one message have the same one. `received_s` float64 (n,), UNIX s.
        `telemetry.requests` takes SampleColumns or RequestSamples, the others their records; `policies` also
        PolicyDeleted.
        """
        if not len(offsets):
            return []
        if topic == REQUESTS and not isinstance(rows, SampleColumns):
            rows = SampleColumns.from_records([row for row in rows if isinstance(row, RequestSample)], received_s)
        run = Run(topic, rows, offsets, received_s)
        rebuild = self._rebuild
        if rebuild is None:
            return self._read(run)
        self._read_again(run)
        rebuild.hold(run, self._registry.new_rows(run))
        return self._end_rebuild(rebuild) if rebuild.is_complete else []

    def advance(self, now_s: float) -> Iterator[TickEffects]:
        """Let time pass up to `now_s`: every input topic was fed to its end as of then. Going back does nothing.

        The ticks of one second are made when the first of them is asked for, since a week of them need not be in memory
        at once; take them all before anything else is called.
        """
        if self._rebuild is not None:
            yield from self._end_rebuild(self._rebuild)
        if now_s <= self._processed_s:
            return
        passed = now_s // TICK_S > self._processed_s // TICK_S
        self._pass_time(now_s)
        if passed:
            yield from self._ticks_by_time()

    def finish(self, last_tick: int | None = None) -> list[TickEffects]:
        """The end of a replay: ticks up to `last_tick`, else up to the processing time, run with what is there."""
        effects = [] if self._rebuild is None else self._end_rebuild(self._rebuild)
        if last_tick is None:
            last_tick = tick_at_or_before(self.processed_s or 0.0)
        until = last_tick
        return effects + list(self._ticks_while(lambda state: state.ticks_before(until + 1)))

    def _read(self, run: Run) -> list[TickEffects]:
        """Take rows that nothing stands before any more."""
        self.counts.rows += len(run)
        self._maker.first_offsets.setdefault(run.topic, int(run.offsets[0]))
        passing = processing_time(self._processed_s, run.offsets, run.received_s)
        samples = self._samples(run, again=False) if isinstance(run.rows, SampleColumns) else None
        effects: list[TickEffects] = []
        for first, end in pairwise(sorted({0, *passing.cuts, len(run)})):
            due: list[_Due] = []
            if first in passing.cuts:
                self._pass_time(float(passing.running_s[first]))
                due += [_Due(first, effects) for effects in self._ticks_by_time()]
            if samples is not None:
                due += self._take_samples(samples, first, end, passing)
            else:
                due += self._take_records(run, first, end, passing)
            self._positions[run.topic] = self._read_to(run.topic, int(run.offsets[end - 1]) + 1)
            self._processed_s = float(passing.running_s[end - 1])
            effects += _in_order(due)
        return effects

    def _pass_time(self, processed_s: float) -> None:
        if processed_s // CLEANING_S > self._processed_s // CLEANING_S:
            self._registry.forget_silent(processed_s)
            self._skipped.forget(processed_s)
        self._processed_s = processed_s

    def _samples(self, run: Run, *, again: bool) -> SampleRun:
        assert isinstance(run.rows, SampleColumns)
        return self._door.samples(run, self._registry.states_of(run.rows.identities), again=again)

    def _take_samples(self, run: SampleRun, first: int, end: int, passing: ProcessingTime) -> list[_Due]:
        due = []
        for now in rounds(run, first, end, passing.running_s):
            self._add(run, now.elements)
            made = self._maker.make(self._with_moments(run, now.due, passing))
            due += [_Due(tick.row, effects) for tick, effects in zip(now.due, made, strict=True)]
        return due

    def _with_moments(self, run: SampleRun, due: Sequence[DueRow], passing: ProcessingTime) -> list[DueTick]:
        """Ticks that fell due with rows of one message have one moment."""
        moments: dict[int, TickMoment] = {}
        for row in {tick.row for tick in due}:
            offset = int(run.offsets[row])
            if offset not in moments:
                moments[offset] = self._moment(float(passing.running_s[row]), REQUESTS, offset + 1)
        return [DueTick(tick.state, moments[int(run.offsets[tick.row])]) for tick in due]

    def _add(self, run: SampleRun, elements: NDArray[np.int64]) -> None:
        if not len(elements):
            return
        run.doubt_past(elements)
        rows, code = run.taken(elements)
        for report in self._registry.windows.add(run.columns, rows, code, run.states):
            count_report(report, run.columns, run.states, self.counts)

    def _take_records(self, run: Run, first: int, end: int, passing: ProcessingTime) -> list[_Due]:
        due = []
        assert not isinstance(run.rows, SampleColumns)
        for row in range(first, end):
            offset = int(run.offsets[row])
            state = self._registry.apply(run.topic, run.rows[row], offset, float(run.received_s[row]))
            if state is not None and state.next_tick is None:
                # A policy that arrives later than the telemetry: what was read before it is not the endpoint's.
                state.first_offsets = {**self._positions, run.topic: offset}
            while state is not None and state.is_due(float(passing.running_s[row])):
                moment = self._moment(float(passing.running_s[row]), run.topic, offset + 1)
                due += [_Due(row, effects) for effects in self._maker.make([DueTick(state, moment)])]
        return due

    def _ticks_by_time(self) -> Iterator[TickEffects]:
        """Those that are due by processing time, in the order of their times and endpoints."""
        return self._ticks_while(lambda state: state.is_due(self._processed_s))

    def _ticks_while(self, is_due: Callable[[EndpointState], bool]) -> Iterator[TickEffects]:
        states = self._registry.states.values()
        return self._maker.make_all(states, is_due, TickMoment.of(self._processed_s, self._positions))

    def _moment(self, processed_s: float, topic: str, next_offset: int) -> TickMoment:
        """The moment after a record of `topic`, the one before `next_offset`, was read."""
        return TickMoment.of(processed_s, {**self._positions, topic: self._read_to(topic, next_offset)})

    def _read_to(self, topic: str, next_offset: int) -> int:
        """What was read when the newest tick was made counts as read, also while it is read again."""
        return max(next_offset, self._positions.get(topic, 0))

    def _read_again(self, run: Run) -> None:
        """Fill windows and estimators with what was read before this process was born."""
        if isinstance(run.rows, SampleColumns):
            samples = self._samples(run, again=True)
            if len(samples.rows):
                self._registry.windows.add_again(samples.columns, samples.rows, samples.code, samples.states)
                note_newest(samples)
        elif run.topic == GPUS:
            self._registry.fill_gpus(run)

    def _end_rebuild(self, rebuild: Rebuild) -> list[TickEffects]:
        """The windows are as they were after each endpoint's last tick: go on from there."""
        self._rebuild = None
        effects = list(self._ticks_by_time())
        for run in rebuild.waiting:
            effects += self._read(run)
        return effects
