"""One endpoint's samples: which of them count, and what they say of a replica in a second.

contract.md: the same identity twice is a duplicate, of which the later `seq` counts; reporters of one source add; the
engine's value counts where it is known, else the sum of the routers'; of two epochs in one second the newer one counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from tests.oracle.model.log import ENGINE, ROUTER, SHARE_NAMES, Histogram, Identity, Sample, SourceName, Speaker

SPAN_S = 302
"""300 s and the allowed lateness."""


class Verdict(StrEnum):
    """What became of a row."""

    ACCEPTED = "accepted"
    REPLACED = "replaced"
    DUPLICATE = "duplicate"
    LATE = "late"
    UNATTRIBUTED = "unattributed"
    TOO_FAR_AHEAD = "too_far_ahead"
    NO_POLICY = "no_policy"
    WRONG_PARTITION = "wrong_partition"


@dataclass
class Book:
    """`floor_s` is the oldest second that a tick may still read. Before the first tick nobody knows what that is:
    it follows the newest sample."""

    span_s: int = SPAN_S
    floor_s: int | None = None
    is_pinned: bool = False
    kept: dict[tuple[str, int], dict[Identity, Sample]] = field(default_factory=dict)
    """By replica and second."""
    epochs: dict[Speaker, dict[str, int]] = field(default_factory=dict)
    """Each speaker's epochs in the order in which they were first read, with their first seconds."""

    def keep_from(self, first_s: int) -> None:
        self.floor_s = first_s if self.floor_s is None else max(first_s, self.floor_s)
        self.is_pinned = True

    def take(self, sample: Sample, at_s: int) -> Verdict:
        """`at_s`: the sample's second by a right clock."""
        if sample.source == ENGINE and not sample.replica:
            return Verdict.UNATTRIBUTED
        if not self.is_pinned:
            follows = at_s - self.span_s + 1
            self.floor_s = follows if self.floor_s is None else max(self.floor_s, follows)
        if self.floor_s is not None and at_s < self.floor_s:
            return Verdict.LATE
        firsts = self.epochs.setdefault(sample.speaker, {})
        firsts[sample.epoch] = min(firsts.get(sample.epoch, at_s), at_s)
        there = self.kept.setdefault((sample.replica, at_s), {})
        known = there.get(sample.identity)
        if known is not None and sample.seq <= known.seq:
            return Verdict.DUPLICATE
        there[sample.identity] = sample
        return Verdict.ACCEPTED if known is None else Verdict.REPLACED

    def view(self, first_s: int, end_s: int, quarantined: Iterable[SourceName] = ()) -> "View":
        return View(self, first_s, end_s, frozenset(quarantined))


Pair = tuple[str, str | None, str, str, int]
"""replica, reporter, older epoch, newer epoch, the older one's last second"""


class View:
    """The seconds `[first_s, end_s)`, and the one before; `quarantined` sources are silent."""

    def __init__(self, book: Book, first_s: int, end_s: int, quarantined: frozenset[SourceName]) -> None:
        self.book, self.first_s, self.end_s = book, first_s, end_s
        floor_s = end_s if book.floor_s is None else book.floor_s
        self._from_s, self._to_s = max(first_s - 1, floor_s), min(end_s, floor_s + book.span_s)
        self._spoke: dict[tuple[str, int], list[Sample]] = {}
        self._muted: set[tuple[str, int]] = set()
        for (replica, at_s), there in book.kept.items():
            if self._from_s <= at_s < self._to_s:
                heard = [one for one in there.values() if one.name not in quarantined]
                if len(heard) < len(there):
                    self._muted.add((replica, at_s))
                if heard:
                    self._spoke[replica, at_s] = heard
        self._live: dict[tuple[str, int], list[Sample]] = {}
        self._values: dict[tuple[str, str, int], Fraction | None] = {}
        self._heard: dict[str, list[int]] = {}
        for replica, at_s in sorted(self._spoke):
            if at_s >= first_s:
                self._heard.setdefault(replica, []).append(at_s)

    @property
    def replicas(self) -> list[str]:
        return [replica for replica in self._heard if replica]

    def heard(self, replica: str, first_s: int) -> list[int]:
        """The seconds from `first_s` on in which somebody spoke of a replica, rising."""
        return [at_s for at_s in self._heard.get(replica, ()) if at_s >= first_s]

    def muted(self, first_s: int) -> set[str]:
        """Replicas with a quarantined source that spoke from `first_s` on."""
        return {replica for replica, at_s in self._muted if at_s >= first_s}

    def live(self, replica: str, at_s: int) -> list[Sample]:
        """The samples that count: of each speaker those of the newest epoch that spoke in that second."""
        found = self._live.get((replica, at_s))
        if found is None:
            spoke = self._spoke.get((replica, at_s), [])
            newest: dict[Speaker, int] = {}
            for one in spoke:
                newest[one.speaker] = max(newest.get(one.speaker, -1), self._rank(one))
            found = [one for one in spoke if self._rank(one) == newest[one.speaker]]
            self._live[replica, at_s] = found
        return found

    def value(self, replica: str, name: str, at_s: int) -> Fraction | None:
        """Null: unknown."""
        key = (replica, name, at_s)
        if key not in self._values:
            self._values[key] = self._read(replica, name, at_s)
        return self._values[key]

    def arrivals(self, replica: str, at_s: int) -> Fraction | None:
        """Counted; else what follows from what left and what stayed, within one epoch."""
        counted = self.value(replica, "arrivals", at_s)
        if counted is not None or not replica:
            return counted
        epochs = [{one.epoch for one in self.live(replica, second)} for second in (at_s - 1, at_s)]
        if epochs[0] != epochs[1]:
            return None
        known = [self.value(replica, name, at_s) for name in ("completions", "errors", "aborted")]
        now, before = self.inflight(replica, at_s), self.inflight(replica, at_s - 1)
        if now is None or before is None or None in known:
            return None
        return sum((value for value in known if value is not None), now - before)

    def inflight(self, replica: str, at_s: int) -> Fraction | None:
        running, waiting = self.value(replica, "running", at_s), self.value(replica, "waiting", at_s)
        return None if running is None or waiting is None else running + waiting

    def histograms(self, replica: str, name: str, at_s: int) -> list[Histogram]:
        for source in (ENGINE, ROUTER):
            known = [
                one.histograms[name]
                for one in self.live(replica, at_s)
                if one.source == source and name in one.histograms
            ]
            if known:
                return known
        return []

    def restarts(self, first_s: int) -> set[tuple[str, str | None, str, int]]:
        """Epochs that are not their speaker's first and that began from `first_s` on: (replica, reporter, epoch,
        second)."""
        return {
            (*speaker, epoch, begun_s)
            for speaker, firsts in self.book.epochs.items()
            for epoch, begun_s in list(firsts.items())[1:]
            if max(self._from_s, first_s) <= begun_s < self._to_s
        }

    def two_processes(self, first_s: int) -> set[Pair]:
        """Epochs that spoke, from `first_s` on, after a newer one of theirs had begun."""
        last: dict[Speaker, dict[str, int]] = {}
        for (_, at_s), spoke in self._spoke.items():
            for one in spoke if at_s >= first_s else ():
                own = last.setdefault(one.speaker, {})
                own[one.epoch] = max(own.get(one.epoch, at_s), at_s)
        found = set()
        for speaker, own in last.items():
            firsts = self.book.epochs[speaker]
            order = [epoch for epoch in firsts if epoch in own]
            for place, older in enumerate(order):
                for newer in order[place + 1 :]:
                    if own[older] > firsts[newer]:
                        found.add((*speaker, older, newer, own[older]))
        return found

    def _read(self, replica: str, name: str, at_s: int) -> Fraction | None:
        live = self.live(replica, at_s)
        for source in (ENGINE, ROUTER):
            known = [Fraction(one.scalars[name]) for one in live if one.source == source and name in one.scalars]
            if known:
                return sum(known, Fraction(0)) / (len(known) if name in SHARE_NAMES else 1)
        return None

    def _rank(self, sample: Sample) -> int:
        return list(self.book.epochs[sample.speaker]).index(sample.epoch)
