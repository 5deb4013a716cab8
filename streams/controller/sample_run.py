"""A run of RequestSamples on its way into the windows: which rows count, and at which second."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from records.supply_memory import SkewChange
from streams.controller.batch_states import BatchStates
from streams.controller.rebuild import REQUESTS, Run
from streams.controller.sample_intake import SampleIntake
from streams.endpoints.effects import Count, Counts
from streams.endpoints.endpoint_state import NEVER_S, EndpointState
from streams.endpoints.intake import CHANGES_MAX, OFF_SOURCES_MAX
from streams.endpoints.skew import (
    SampleMoment,
    SkewBook,
    SourceKey,
    SourceState,
    is_same,
    is_well,
    judge,
    source_key,
)
from streams.endpoints.ticks import AHEAD_MAX_S, TICK_S
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
    no watermark). `refused` (k,) are the rows that lost something to the limits of names, rising.
    """

    columns: SampleColumns
    raw_at_s: Ints
    offsets: Ints
    states: Sequence[EndpointState | None]
    rows: Ints
    code: Ints
    end_s: Floats
    refused: Ints

    def note_refused(self, code: int, end: int) -> None:
        """Tell one endpoint what was refused of the run's rows before `end`; to tell it again does nothing."""
        rows = self.refused[: int(np.searchsorted(self.refused, end))]
        rows, state = rows[self.columns.endpoint_code[rows] == code], self.states[code]
        if len(rows) and state is not None:
            state.note_refused(int(np.minimum(self.raw_at_s[rows], self.columns.received_s[rows]).max()))

    def doubt_past(self, elements: Ints) -> None:
        """Tell the endpoints of samples of seconds that a tick has looked at."""
        last_tick = [
            NEVER_LATE if state is None or state.next_tick is None or not state.has_ticked else state.next_tick - TICK_S
            for state in self.states
        ]
        rows, code = self.taken(elements)
        at_s = self.columns.at_s[rows]
        if len(at_s) and at_s.min() >= max(last_tick):
            return
        past = np.flatnonzero(at_s < np.array(last_tick, np.int64)[code])
        for element in past.tolist():
            state = self.states[int(code[element])]
            if state is not None:
                state.doubt(int(at_s[element]))

    @property
    def is_one_message(self) -> bool:
        """Whether all samples count, and are of one message: then they are taken together."""
        return self.rows is self.columns.identities.all_rows and self.offsets[0] == self.offsets[-1]

    def taken(self, elements: Ints) -> tuple[Ints, Ints]:
        """Rows and codes of elements; of all of them, as they are."""
        if elements is self.rows:
            return self.rows, self.code
        return self.rows[elements], self.code[elements]

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

    def samples(self, run: Run, found: BatchStates, *, again: bool) -> SampleRun:
        """Take a run; `found` are the states of its endpoints.

        `again`: take the rows that were read before this process was born, else those that were not.
        """
        columns, states = run.rows, found.states
        if not isinstance(columns, SampleColumns):
            raise TypeError(f"RequestSamples come as SampleColumns, got {type(columns).__name__}")
        skew_s = columns.at_s + 1 - run.received_s
        admitted = self.intake.admit(columns, self._rows(run, columns, found, skew_s, again=again))
        columns, rows, code = admitted.columns, admitted.rows, columns.endpoint_code
        if not again:
            admitted.count(self.counts)
        at_s, trusted = self._correct(run, columns, states, rows, skew_s)
        end_s = np.where(trusted, at_s[rows] + 1.0, NEVER_S)
        return SampleRun(
            columns=columns.at(at_s),
            raw_at_s=columns.at_s,
            offsets=run.offsets,
            states=states,
            rows=rows,
            code=code[rows].astype(np.int64),
            end_s=end_s,
            refused=admitted.refused,
        )

    def _rows(self, run: Run, columns: SampleColumns, found: BatchStates, skew_s: Floats, *, again: bool) -> Ints:
        """The rows of endpoints with a policy that are not too far ahead; of those that were read before this process
        was born, or of the others."""
        states, is_ahead = found.states, skew_s > AHEAD_MAX_S
        if again:
            are_all = found.begun <= run.offsets[0] and run.offsets[-1] < found.restored_from
        else:
            are_all = bool(run.offsets[0] >= found.restored_to)
        if are_all and found.are_known and not is_ahead.any():
            return columns.identities.all_rows
        restored = [0 if state is None else state.restored.get(REQUESTS, 0) for state in states]
        chosen = (run.offsets < np.array(restored, np.int64)[columns.endpoint_code]) == again
        if again:
            # A policy that was made again begins with nothing: what came before it was never the endpoint's.
            begun = [0 if state is None else state.first_offsets.get(REQUESTS, 0) for state in states]
            chosen &= run.offsets >= np.array(begun, np.int64)[columns.endpoint_code]
        ahead = chosen & is_ahead
        known = np.array([state is not None for state in states], np.bool_)[columns.endpoint_code]
        if not again:
            self._count_left_out(columns, known, ahead)
        kept = chosen & ~ahead & known
        return columns.identities.all_rows if kept.all() else np.flatnonzero(kept)

    def _count_left_out(self, columns: SampleColumns, known: Mask, ahead: Mask) -> None:
        self.counts.add(Count.TOO_FAR_AHEAD, int(np.count_nonzero(ahead & known)))
        if known.all():
            return
        astray = ~np.array([self.is_owned(endpoint) for endpoint in columns.endpoints], np.bool_)[columns.endpoint_code]
        self.counts.add(Count.WRONG_PARTITION, int(np.count_nonzero(astray)))
        self.counts.add(Count.NO_POLICY, int(np.count_nonzero(~known & ~astray)))

    def _correct(
        self, run: Run, columns: SampleColumns, states: Sequence[EndpointState | None], rows: Ints, skew_s: Floats
    ) -> tuple[Ints, Mask]:
        """All samples' seconds, corrected at `rows`; and for each of `rows` whether its clock is to be trusted."""
        sources = self.book.sources(columns.identities, rows)
        received_s = run.received_s[rows]
        follow = self.book.count(sources, skew_s[rows], received_s)
        trusted = np.ones(len(rows), np.bool_)
        history = self._has_history(columns, states)
        watched = follow if history is None else follow | history[columns.series_code[rows]]
        if not watched.any():
            return columns.at_s, trusted
        at_s = columns.at_s.copy()
        followed = _Followed()
        for element in np.flatnonzero(watched).tolist():
            row = int(rows[element])
            state = states[columns.endpoint_code[row]]
            spread = None
            if follow[element]:
                spread = self.book.follow(int(sources.code[element]), float(skew_s[row]), float(received_s[element]))
            if state is not None:
                identity = columns.series[columns.series_code[row]]
                moment = followed.moment(int(sources.code[element]), int(run.offsets[row]), float(received_s[element]))
                shift_s, trusted[element] = _shift(state, identity, moment, spread)
                at_s[row] -= shift_s
        return at_s, trusted

    def _has_history(self, columns: SampleColumns, states: Sequence[EndpointState | None]) -> Mask | None:
        """For each series whether its source is, or lately was, off; null where none is."""
        if not any(state is not None and state.sources.states for state in states):
            return None
        watched = {(state.endpoint, *key) for state in states if state is not None for key in state.sources.states}
        return np.array([(identity[0], *source_key(identity)) in watched for identity in columns.series], np.bool_)


class _Followed:
    """The samples of each source that were looked at, by message. A frame's are all of one run, and of a source all or
    none are looked at."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int]] = {}
        """By source: its newest offset, and how many samples it had there."""

    def moment(self, source: int, offset: int, received_s: float) -> SampleMoment:
        known = self._seen.get(source)
        row = known[1] if known is not None and known[0] == offset else 0
        self._seen[source] = offset, row + 1
        return SampleMoment(offset, row, received_s)


def _shift(
    state: EndpointState, identity: SeriesIdentity, sample: SampleMoment, spread: tuple[float, float] | None
) -> tuple[int, bool]:
    """By how much a sample's clock is off, and whether it may be trusted; a change is remembered."""
    key = source_key(identity)
    known = state.sources.states.get(key)
    if not state.is_new(REQUESTS, sample.offset):
        held = known.at(sample.offset, sample.row) if known is not None else None
    else:
        held = known.changes[-1] if known is not None and known.changes else None
        if spread is not None:
            now = judge(held, spread, sample)
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
