"""A run of RequestSamples on its way into the windows: which rows count, at which second, and where ticks fall due.

Endpoints are independent of each other between two passings of processing time, so the rows of all of them that come
before any endpoint's next tick are added to the windows in one call.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from records.supply_memory import SkewChange
from streams.controller.rebuild import REQUESTS, Run
from streams.controller.sample_intake import SampleIntake
from streams.endpoints.effects import Count, Counts
from streams.endpoints.endpoint_state import NEVER_S, EndpointState
from streams.endpoints.intake import CHANGES_MAX, OFF_SOURCES_MAX
from streams.endpoints.skew import SkewBook, SourceKey, SourceState, is_same, is_well, judge, source_key
from streams.endpoints.ticks import AHEAD_MAX_S, LATENESS_S, PATIENCE_S, TICK_S, first_ticks
from streams.windows.columns import SampleColumns, SeriesIdentity

NEVER_LATE = -(2**60)
"""The last tick of an endpoint that has none."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SampleRun:
    """Samples of endpoints with a policy, none of them too far ahead.

    `columns` holds all samples of the run at their corrected seconds, `raw_at_s` their own. The other arrays are (m,),
    in log order, one element for each sample that counts: `rows` its place in `columns` and the run, `code` its
    endpoint's place in `states`, `end_s` the corrected end of its second (-inf from a quarantined source, which moves
    no watermark).
    """

    columns: SampleColumns
    raw_at_s: Ints
    offsets: Ints
    states: Sequence[EndpointState | None]
    rows: Ints
    code: Ints
    end_s: Floats

    def doubt_past(self, elements: Ints) -> None:
        """Tell the endpoints of samples of seconds that a tick has looked at."""
        last_tick = [
            NEVER_LATE if state is None or state.next_tick is None or not state.has_ticked else state.next_tick - TICK_S
            for state in self.states
        ]
        at_s, code = self.columns.at_s[self.rows[elements]], self.code[elements]
        past = np.flatnonzero(at_s < np.array(last_tick, np.int64)[code])
        for element in past.tolist():
            state = self.states[int(code[element])]
            if state is not None:
                state.doubt(int(at_s[element]))

    def note_newest(self) -> None:
        """Move the endpoints' watermarks past all samples."""
        _cursors(self, slice(0, len(self.rows)), None)

    def between(self, first: int, end: int) -> slice:
        """The elements that belong to the run's rows `[first, end)`."""
        low, high = np.searchsorted(self.rows, (first, end)).tolist()
        return slice(low, high)


@dataclass(frozen=True, slots=True, eq=False)
class SampleDoor:
    """Prepares runs of RequestSamples. `is_owned` tells whether an endpoint's records belong to this partition."""

    book: SkewBook
    counts: Counts
    is_owned: Callable[[str], bool]
    intake: SampleIntake

    def samples(self, run: Run, states: Sequence[EndpointState | None], *, again: bool) -> SampleRun:
        """Take a run; `states` are those of `columns.endpoints`, null for one without a policy.

        `again`: take the rows that were read before this process was born, else those that were not.
        """
        columns = run.rows
        if not isinstance(columns, SampleColumns):
            raise TypeError(f"RequestSamples come as SampleColumns, got {type(columns).__name__}")
        code = columns.endpoint_code.astype(np.int64)
        restored = [0 if state is None else state.restored.get(REQUESTS, 0) for state in states]
        chosen = (run.offsets < np.array(restored, np.int64)[code]) == again
        skew_s = columns.at_s + 1 - run.received_s
        ahead = chosen & (skew_s > AHEAD_MAX_S)
        known = np.array([state is not None for state in states], np.bool_)[code]
        if not again:
            self.counts.add(Count.TOO_FAR_AHEAD, int(np.count_nonzero(ahead & known)))
            astray = ~np.array([self.is_owned(endpoint) for endpoint in columns.endpoints], np.bool_)[code]
            self.counts.add(Count.WRONG_PARTITION, int(np.count_nonzero(astray)))
            self.counts.add(Count.NO_POLICY, int(np.count_nonzero(~known & ~astray)))
        admitted = self.intake.admit(columns, np.flatnonzero(chosen & ~ahead & known))
        columns, rows = admitted.columns, admitted.rows
        if not again:
            admitted.count(self.counts)
        at_s, trusted = self._correct(run, columns, states, rows, skew_s)
        end_s = np.where(trusted, at_s[rows] + 1.0, NEVER_S)
        return SampleRun(columns.at(at_s), columns.at_s, run.offsets, states, rows, code[rows], end_s)

    def _correct(
        self, run: Run, columns: SampleColumns, states: Sequence[EndpointState | None], rows: Ints, skew_s: Floats
    ) -> tuple[Ints, Mask]:
        """All samples' seconds, corrected at `rows`; and for each of `rows` whether its clock is to be trusted."""
        series_code = columns.series_code[rows]
        source = self.book.codes(columns.series, np.unique(series_code))[series_code]
        received_s = run.received_s[rows]
        follow = self.book.count(source, skew_s[rows], received_s)
        trusted = np.ones(len(rows), np.bool_)
        watched = follow | self._has_history(columns, states)[columns.series_code[rows]]
        if not watched.any():
            return columns.at_s, trusted
        at_s = columns.at_s.copy()
        for element in np.flatnonzero(watched).tolist():
            row = int(rows[element])
            state = states[columns.endpoint_code[row]]
            spread = None
            if follow[element]:
                spread = self.book.follow(int(source[element]), float(skew_s[row]), float(received_s[element]))
            if state is not None:
                identity = columns.series[columns.series_code[row]]
                sample = _Sample(int(run.offsets[row]), float(received_s[element]), spread)
                shift_s, trusted[element] = _shift(state, identity, sample)
                at_s[row] -= shift_s
        return at_s, trusted

    def _has_history(self, columns: SampleColumns, states: Sequence[EndpointState | None]) -> Mask:
        """For each series whether its source is, or lately was, off."""
        found = np.zeros(len(columns.series), np.bool_)
        watched = {(state.endpoint, *key) for state in states if state is not None for key in state.sources.states}
        if watched:
            for code, identity in enumerate(columns.series):
                found[code] = (identity[0], *source_key(identity)) in watched
        return found


@dataclass(frozen=True, slots=True)
class _Sample:
    offset: int
    received_s: float
    spread: tuple[float, float] | None


def _shift(state: EndpointState, identity: SeriesIdentity, sample: _Sample) -> tuple[int, bool]:
    """By how much a sample's clock is off, and whether it may be trusted; a change is remembered."""
    key = source_key(identity)
    known = state.sources.states.get(key)
    if not state.is_new(REQUESTS, sample.offset):
        held = known.at(sample.offset) if known is not None else None
    else:
        held = known.changes[-1] if known is not None and known.changes else None
        if sample.spread is not None:
            now = judge(held, sample.spread, sample.offset, sample.received_s)
            if not is_well(now) if held is None else not is_same(now, held):
                held = _remember(state, key, now) or held
    return (0, True) if held is None else (held.shift_s, not held.quarantined)


def _remember(state: EndpointState, key: SourceKey, now: SkewChange) -> SkewChange | None:
    """The change as it is remembered: one change too many quarantines a source for as long as they are kept. Null
    where there is no room for it, or for one more source."""
    sources = state.sources.states
    if key not in sources and len(sources) >= OFF_SOURCES_MAX:
        return None
    changes = sources.setdefault(key, SourceState()).changes
    if len(changes) >= CHANGES_MAX:
        return None
    if len(changes) == CHANGES_MAX - 1:
        now = msgspec.structs.replace(now, shift_s=0, quarantined=True)
    changes.append(now)
    return now


@dataclass(frozen=True, slots=True, eq=False)
class _Beginning:
    """Of an endpoint without a tick yet, after each of its elements (m,): the first tick, the earliest second seen,
    processing time, and whether the first tick is due."""

    first_tick: Ints
    at_s: Ints
    processed_s: Floats
    is_due: Mask


@dataclass(slots=True, eq=False)
class _Cursor:
    """One endpoint's elements of a segment; those before `done` are in the windows.

    `watermark_s` (m,) is the endpoint's after each of them, `offsets` (m,) theirs.
    """

    state: EndpointState
    elements: Ints
    watermark_s: Floats
    offsets: Ints
    beginning: _Beginning | None
    done: int = 0

    def step(self) -> tuple[Ints, bool]:
        """The elements up to the message at which the next tick falls due, and whether one does."""
        at = self._next_due()
        is_due = at < len(self.elements)
        stop = int(np.searchsorted(self.offsets, self.offsets[at], side="right")) if is_due else len(self.elements)
        stop = max(stop, self.done)
        if self.beginning is not None and not self.state.has_ticked:
            self.state.begin(int(self.beginning.first_tick[stop - 1]), int(self.beginning.at_s[stop - 1]))
        added, self.done = self.elements[self.done : stop], stop
        return added, is_due

    def _next_due(self) -> int:
        """The first element after which the next tick is due; their number where none is."""
        if self.beginning is not None and not self.state.has_ticked:
            return int(np.argmax(self.beginning.is_due)) if self.beginning.is_due.any() else len(self.elements)
        if self.state.next_tick is None:
            raise RuntimeError(f"{self.state.endpoint} has ticked and has no next tick")
        due_by_time = self.state.next_tick + PATIENCE_S
        if self.beginning is not None and due_by_time <= float(self.beginning.processed_s[self.done - 1]):
            # Processing time was ahead when the endpoint began: more than its first tick is due at once.
            return self.done - 1
        return int(np.searchsorted(self.watermark_s, self.state.next_tick, side="left"))


@dataclass(frozen=True, slots=True)
class DueTick:
    """A tick that fell due with row `row` of the run."""

    state: EndpointState
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """The samples at `elements`, rising, go into the windows; then the ticks of `due` are made, before the next
    round."""

    elements: Ints
    due: list[DueTick] = field(default_factory=list)


def rounds(run: SampleRun, part: slice, running_s: Floats) -> Iterator[Round]:
    """Cut the elements of `part` into rounds; `running_s` is processing time after each row of the run."""
    cursors = _cursors(run, part, running_s)
    while cursors:
        adding: list[Ints] = []
        due: list[DueTick] = []
        going: list[_Cursor] = []
        for cursor in cursors:
            added, is_due = cursor.step()
            adding.append(added)
            if is_due:
                due.append(DueTick(cursor.state, int(run.rows[cursor.elements[cursor.done - 1]])))
                going.append(cursor)
        elements = np.sort(np.concatenate(adding)) if len(adding) > 1 else adding[0]
        yield Round(elements, due)
        cursors = going


def _cursors(run: SampleRun, part: slice, running_s: Floats | None) -> list[_Cursor]:
    """One for each endpoint among the elements; the endpoints' watermarks move past all of them."""
    code = run.code[part]
    if not len(code):
        return []
    order = np.argsort(code, kind="stable")
    grouped = code[order]
    starts = np.flatnonzero(np.diff(grouped, prepend=-1)).tolist()
    cursors = []
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        state = run.states[int(grouped[start])]
        if state is not None:
            cursors.append(_cursor(run, state, order[start:end] + part.start, running_s))
    return cursors


def _cursor(run: SampleRun, state: EndpointState, elements: Ints, running_s: Floats | None) -> _Cursor:
    rows = run.rows[elements]
    newest_end = np.maximum.accumulate(run.end_s[elements])
    newest_received = np.maximum.accumulate(run.columns.received_s[rows])
    np.maximum(newest_end, state.newest_end_s, out=newest_end)
    np.maximum(newest_received, state.newest_received_s, out=newest_received)
    state.newest_end_s, state.newest_received_s = float(newest_end[-1]), float(newest_received[-1])
    watermark_s = np.minimum(newest_end, newest_received + PATIENCE_S) - LATENESS_S
    beginning = None
    if not state.has_ticked and running_s is not None:
        beginning = _beginning(run, state, rows, watermark_s, running_s[rows])
    return _Cursor(state, elements, watermark_s, run.offsets[rows], beginning)


def _beginning(
    run: SampleRun, state: EndpointState, rows: Ints, watermark_s: Floats, processed_s: Floats
) -> _Beginning:
    at_s = run.raw_at_s[rows]
    first_tick = np.minimum.accumulate(first_ticks(at_s, run.columns.received_s[rows]))
    if state.next_tick is not None:
        first_tick = np.minimum(first_tick, state.next_tick)
    is_due = (watermark_s >= first_tick) | (processed_s >= first_tick + PATIENCE_S)
    return _Beginning(first_tick, np.minimum.accumulate(at_s), processed_s, is_due)
