"""In which order samples go into the windows, and where among them ticks fall due.

Endpoints are independent of each other between two passings of processing time, so the rows of all of them that come
before any endpoint's next tick are added to the windows in one call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from streams.controller.sample_run import Floats, Ints, Mask, SampleRun
from streams.endpoints.endpoint_state import STALE_S, EndpointState
from streams.endpoints.ticks import LATENESS_S, PATIENCE_S, first_ticks
from streams.windows.identities import EndpointRows

_NO_ELEMENTS = np.zeros(0, np.int64)


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
class DueRow:
    """A tick that fell due with row `row` of the run."""

    state: EndpointState
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """The samples at `elements`, rising, go into the windows; then the ticks of `due` are made, before the next
    round."""

    elements: Ints
    due: list[DueRow] = field(default_factory=list)


def rounds(run: SampleRun, first: int, end: int, running_s: Floats) -> Iterator[Round]:
    """Cut the run's rows `[first, end)` into rounds; `running_s` is processing time after each row of the run.

    Endpoints are told what was refused of them before the ticks that it came before.
    """
    for one in _rounds(run, run.between(first, end), running_s):
        if len(run.refused):
            _note_refused(run, one.due)
        yield one
    if len(run.refused):
        for code in np.unique(run.columns.endpoint_code[run.refused]).tolist():
            run.note_refused(code, end)


def _note_refused(run: SampleRun, due: Sequence[DueRow]) -> None:
    """A tick knows what was refused up to the end of the message with which it fell due, as it knows its samples."""
    code_of = {id(state): code for code, state in enumerate(run.states)}
    for tick in due:
        end = int(np.searchsorted(run.offsets, run.offsets[tick.row], side="right"))
        run.note_refused(code_of[id(tick.state)], end)


def _rounds(run: SampleRun, part: slice, running_s: Floats) -> Iterator[Round]:
    if run.is_one_message and all(state is not None and state.has_ticked for state in run.states):
        yield from _rounds_of_message(run)
        return
    cursors = _cursors(run, part, running_s)
    while cursors:
        adding: list[Ints] = []
        due: list[DueRow] = []
        going: list[_Cursor] = []
        for cursor in cursors:
            added, is_due = cursor.step()
            adding.append(added)
            if is_due:
                due.append(DueRow(cursor.state, int(run.rows[cursor.elements[cursor.done - 1]])))
                going.append(cursor)
        elements = np.sort(np.concatenate(adding)) if len(adding) > 1 else adding[0]
        yield Round(elements, due)
        cursors = going


def _rounds_of_message(run: SampleRun) -> Iterator[Round]:
    """All samples go in at once, whatever falls due with them: a message is read whole or not at all."""
    due = _note_newest(run, run.columns.identities.by_endpoint)
    yield Round(run.rows, due)
    while due := [tick for tick in due if tick.state.is_due_by_watermark]:
        yield Round(_NO_ELEMENTS, due)


def note_newest(run: SampleRun) -> None:
    """Move the endpoints' watermarks past all samples."""
    if not len(run.rows):
        return
    groups = run.columns.identities.by_endpoint
    if run.rows is not run.columns.identities.all_rows:
        groups = EndpointRows.of(run.code)
    _note_newest(run, groups)


def _note_newest(run: SampleRun, groups: EndpointRows) -> list[DueRow]:
    """As `note_newest`; what falls due by the watermark, each with its endpoint's last element. `groups` are those of
    the elements. Processing time is the same for all rows of a message, and has passed before them."""
    ends_s = np.maximum.reduceat(run.end_s[groups.order], groups.starts).tolist()
    received_s = run.columns.received_s[run.rows]
    came_s = np.maximum.reduceat(received_s[groups.order], groups.starts).tolist()
    found = []
    for code, last, end_s, newest_s in zip(groups.codes.tolist(), groups.last.tolist(), ends_s, came_s, strict=True):
        state = run.states[code]
        if state is not None and state.move_watermark(end_s, newest_s):
            found.append(DueRow(state, last))
    return found


def _cursors(run: SampleRun, part: slice, running_s: Floats) -> list[_Cursor]:
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


def _cursor(run: SampleRun, state: EndpointState, elements: Ints, running_s: Floats) -> _Cursor:
    rows = run.rows[elements]
    newest_end = np.maximum.accumulate(run.end_s[elements])
    newest_received = np.maximum.accumulate(run.columns.received_s[rows])
    np.maximum(newest_end, state.newest_end_s, out=newest_end)
    np.maximum(newest_received, state.newest_received_s, out=newest_received)
    state.newest_end_s, state.newest_received_s = float(newest_end[-1]), float(newest_received[-1])
    watermark_s = np.minimum(newest_end, newest_received + PATIENCE_S) - LATENESS_S
    beginning = None
    if not state.has_ticked:
        beginning = _beginning(run, state, rows, watermark_s, running_s[rows])
    return _Cursor(state, elements, watermark_s, run.offsets[rows], beginning)


def _beginning(
    run: SampleRun, state: EndpointState, rows: Ints, watermark_s: Floats, processed_s: Floats
) -> _Beginning:
    at_s = run.raw_at_s[rows]
    first_tick = first_ticks(at_s, run.columns.received_s[rows])
    at_s = np.where(at_s < first_tick - STALE_S, first_tick, at_s)
    first_tick = np.minimum.accumulate(first_tick)
    if state.next_tick is not None:
        first_tick = np.minimum(first_tick, state.next_tick)
    is_due = (watermark_s >= first_tick) | (processed_s >= first_tick + PATIENCE_S)
    return _Beginning(first_tick, np.minimum.accumulate(at_s), processed_s, is_due)
