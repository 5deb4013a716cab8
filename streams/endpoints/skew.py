"""Clocks that are off: each source's offset from its last samples, what it is corrected by, and when it is not trusted.

A source's offset is the median of `at_s + 1 - received_s` over its last 30 samples (of the last 300 s, so that reading
the log again finds the same ones). Most sources are never off by more than 5 s: they cost a few array operations a
batch. The others are followed sample by sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from records.enums import Source
from records.supply_memory import SkewChange, SourceMemory
from streams.windows.identities import Identities, SeriesIdentity

RECENT_SAMPLES = 30
RECENT_S = 300.0
SAMPLES_MIN = 5
"""Fewer samples say nothing of a clock: a backlog delivered at once looks steady for up to four."""
OFF_S = 5.0
STEADY_IQR_S = 2.0
DRIFT_S = 1.0
"""A correction stays while the median is this near, so that no two seconds fall into one."""
LAST_ROW = 2**62
"""After all samples of a message."""
KEPT_S = 420.0
"""Changes are remembered as long as a rebuild can read samples from before them."""

SourceKey = tuple[str, str, str]
"""replica, source, reporter (the replica itself where a sample names none)."""


def source_key(identity: SeriesIdentity) -> SourceKey:
    """Whose clock stamped a series' samples."""
    _, replica, _, source, reporter = identity
    return replica, source, replica if reporter is None else reporter


@dataclass(frozen=True, slots=True)
class SampleMoment:
    """Where in the log a sample stands, `row` of its source's before it in the message; and its receipt, UNIX s."""

    offset: int
    row: int
    received_s: float


@dataclass(slots=True)
class SourceState:
    """A source that was off, or late; `changes` rise in offset and row."""

    changes: list[SkewChange] = field(default_factory=list)
    late: int = 0
    late_s: int | None = None

    def at(self, offset: int, row: int = LAST_ROW) -> SkewChange | None:
        """What holds for the sample at `offset`, before which the source has `row` others in its message."""
        held = None
        for change in self.changes:
            if (change.offset, change.row) > (offset, row):
                break
            held = change
        return held

    def forget(self, before_s: float) -> None:
        """Drop what ended before `before_s`."""
        while len(self.changes) > 1 and self.changes[1].since_s < before_s:
            del self.changes[0]
        if len(self.changes) == 1 and is_well(self.changes[0]) and self.changes[0].since_s < before_s:
            self.changes.clear()
        if self.late_s is not None and self.late_s < before_s:
            self.late, self.late_s = 0, None


def is_well(change: SkewChange) -> bool:
    """Whether the clock is neither corrected nor distrusted."""
    return change.shift_s == 0 and not change.quarantined


def is_same(one: SkewChange, other: SkewChange) -> bool:
    """Whether both treat the clock alike, whenever they began."""
    return (one.shift_s, one.quarantined) == (other.shift_s, other.quarantined)


@dataclass(slots=True)
class EndpointSources:
    """The sources of one endpoint that are, or lately were, not plainly well."""

    states: dict[SourceKey, SourceState] = field(default_factory=dict)

    @classmethod
    def restored(cls, sources: Sequence[SourceMemory]) -> "EndpointSources":
        return cls(
            {
                (each.replica, each.source.value, each.reporter or ""): SourceState(
                    list(each.changes), each.late, each.late_s
                )
                for each in sources
            }
        )

    def quarantined(self, offset: int) -> frozenset[SourceKey]:
        """Those that are not to be trusted, as of the log before `offset`."""
        if not self.states:
            return frozenset()
        held = {key: state.at(offset - 1) for key, state in self.states.items()}
        return frozenset(key for key, change in held.items() if change is not None and change.quarantined)

    def memory(self, offset: int, at_s: int) -> tuple[SourceMemory, ...]:
        """As of the log before `offset`; what ended long before `at_s` is forgotten."""
        if not self.states:
            return ()
        made = []
        for key in sorted(self.states):
            state = self.states[key]
            state.forget(at_s - KEPT_S)
            changes = tuple(change for change in state.changes if change.offset < offset)
            if changes or state.late:
                made.append(
                    SourceMemory(
                        replica=key[0],
                        source=Source(key[1]),
                        reporter=key[2],
                        changes=changes,
                        late=state.late,
                        late_s=state.late_s,
                    )
                )
            elif not state.changes:
                del self.states[key]
        return tuple(made)


@dataclass(frozen=True, slots=True, eq=False)
class BatchSources:
    """The sources of samples, int64 (n,); `is_distinct`: known to be of one each."""

    code: NDArray[np.int64]
    is_distinct: bool
    departures: int


class SkewBook:
    """The offsets of all sources of a partition."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, SourceKey], int] = {}
        self._free: list[int] = []
        self._departures = 0
        self._batches: WeakKeyDictionary[Identities, BatchSources] = WeakKeyDictionary()
        self._offsets = np.zeros((64, RECENT_SAMPLES))
        self._received = np.full((64, RECENT_SAMPLES), -np.inf)
        self._count = np.zeros(64, np.int64)
        self._last_off = np.full(64, -RECENT_SAMPLES, np.int64)
        """How many samples had been counted at the last one that was off."""

    def forget(self, endpoint: str) -> None:
        for key in [key for key in self._codes if key[0] == endpoint]:
            self._clear(self._codes.pop(key))

    def _clear(self, code: int) -> None:
        self._received[code] = -np.inf
        self._count[code] = 0
        self._last_off[code] = -RECENT_SAMPLES
        self._free.append(code)
        self._departures += 1

    def forget_silent(self, before_s: float) -> None:
        """Drop sources that were last heard before `before_s`, so long ago that their samples count no more."""
        newest = self._received.max(axis=1)
        for key, code in [(key, code) for key, code in self._codes.items() if newest[code] < before_s]:
            del self._codes[key]
            self._clear(code)

    def sources(self, identities: Identities, rows: NDArray[np.int64]) -> BatchSources:
        """The sources of a batch's samples at `rows`; those of all of them are found once."""
        if rows is not identities.all_rows:
            return BatchSources(self._codes_of(identities, identities.code[rows]), False, self._departures)
        known = self._batches.get(identities)
        if known is None or known.departures != self._departures:
            code = self._codes_of(identities, identities.code)
            known = BatchSources(code, len(np.unique(code)) == len(code), self._departures)
            self._batches[identities] = known
        return known

    def _codes_of(self, identities: Identities, series_code: NDArray[np.int32]) -> NDArray[np.int64]:
        codes = np.full(len(identities.series), -1, np.int64)
        for place in np.unique(series_code).tolist():
            identity = identities.series[place]
            codes[place] = self._code(identity[0], source_key(identity))
        return codes[series_code]

    def _code(self, endpoint: str, source: SourceKey) -> int:
        key = (endpoint, source)
        code = self._codes.get(key)
        if code is None:
            code = self._free.pop() if self._free else len(self._codes)
            self._codes[key] = code
            if code >= len(self._count):
                self._grow()
        return code

    def _grow(self) -> None:
        more = len(self._count)
        self._offsets = np.concatenate((self._offsets, np.zeros((more, RECENT_SAMPLES))))
        self._received = np.concatenate((self._received, np.full((more, RECENT_SAMPLES), -np.inf)))
        self._count = np.concatenate((self._count, np.zeros(more, np.int64)))
        self._last_off = np.concatenate((self._last_off, np.full(more, -RECENT_SAMPLES, np.int64)))

    def count(
        self, sources: BatchSources, offset_s: NDArray[np.float64], received_s: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Take samples, (n,) each in log order, of sources that are well; which rows need `follow` instead.

        Rows of a source with any offset beyond OFF_S, now or among its last samples, are left alone.
        """
        code = sources.code
        follow = self._count[code] - self._last_off[code] < RECENT_SAMPLES
        off = np.abs(offset_s) > OFF_S
        if off.any():
            doubtful = np.zeros(len(self._count), np.bool_)
            doubtful[code[off]] = True
            follow |= doubtful[code]
        if follow.any():
            well = np.flatnonzero(~follow)
            self._append(code[well], offset_s[well], received_s[well])
        elif sources.is_distinct:
            slot = self._count[code] % RECENT_SAMPLES
            self._offsets[code, slot] = offset_s
            self._received[code, slot] = received_s
            self._count[code] += 1
        else:
            self._append(code, offset_s, received_s)
        return follow

    def _append(self, code: NDArray[np.int64], offset_s: NDArray[np.float64], received_s: NDArray[np.float64]) -> None:
        if not len(code):
            return
        order = np.argsort(code, kind="stable")
        grouped = code[order]
        starts = np.flatnonzero(np.diff(grouped, prepend=-1))
        sizes = np.diff(starts, append=len(grouped))
        rank = np.arange(len(grouped)) - np.repeat(starts, sizes)
        # Of rows that fall into one slot the last counts: numpy assigns repeated indices in order.
        slot = (self._count[grouped] + rank) % RECENT_SAMPLES
        self._offsets[grouped, slot] = offset_s[order]
        self._received[grouped, slot] = received_s[order]
        self._count[grouped[starts]] += sizes

    def follow(self, code: int, offset_s: float, received_s: float) -> tuple[float, float] | None:
        """Take one sample of a doubtful source; (median, interquartile range) in s, null for too few samples."""
        slot = int(self._count[code]) % RECENT_SAMPLES
        self._offsets[code, slot] = offset_s
        self._received[code, slot] = received_s
        self._count[code] += 1
        if abs(offset_s) > OFF_S:
            self._last_off[code] = self._count[code] - 1
        filled = min(int(self._count[code]), RECENT_SAMPLES)
        recent = self._received[code, :filled] >= received_s - RECENT_S
        offsets = sorted(self._offsets[code, :filled][recent].tolist())
        if len(offsets) < SAMPLES_MIN:
            return None
        return quantile(offsets, 0.5), quantile(offsets, 0.75) - quantile(offsets, 0.25)


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """By linear interpolation between the two nearest of at least one rising values."""
    place = (len(ordered) - 1) * fraction
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def judge(held: SkewChange | None, spread: tuple[float, float], sample: SampleMoment) -> SkewChange:
    """What follows from a source's median and interquartile range as of a sample; equal to `held` but for its beginning
    where nothing changed."""
    median, iqr = spread
    shift_s, quarantined = 0, False
    if abs(median) > OFF_S:
        if iqr < STEADY_IQR_S:
            keeps = held is not None and held.shift_s != 0 and abs(median - held.shift_s) <= DRIFT_S
            shift_s = held.shift_s if keeps and held is not None else round(median)
        else:
            quarantined = True
    return SkewChange(
        offset=sample.offset,
        shift_s=shift_s,
        quarantined=quarantined,
        skew_s=round(median, 3),
        since_s=sample.received_s,
        row=sample.row,
    )
