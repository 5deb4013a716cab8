"""The rules of the windows, told once more in the plainest way: lists, dictionaries and fractions, no arrays.

It shares no code with streams; it is slow, and it never forgets anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from records.enums import Source
from records.histogram import Histogram
from records.telemetry import RequestSample

FRACTIONS = ("kv_cache_usage", "cpu", "streamed_fraction")

Identity = tuple[str, str, str, str]
"""replica, epoch, source, reporter"""
SourceName = tuple[str, str, str]
Speaker = tuple[str, str | None]


def identity_of(sample: RequestSample) -> Identity:
    reporter = sample.replica if sample.reporter is None else sample.reporter
    return (sample.replica, sample.epoch, sample.source, reporter)


def speaker_of(identity: Identity) -> Speaker:
    return (identity[0], None) if identity[0] else ("", identity[3])


@dataclass
class Counts:
    accepted: int = 0
    replaced: int = 0
    duplicate: int = 0
    late: int = 0
    unattributed: int = 0


@dataclass
class NaiveEndpoint:
    """One endpoint. `floor_s` None: no sample yet, and nobody moved it."""

    span_s: int
    floor_s: int | None = None
    pinned: bool = False
    kept: dict[tuple[Identity, int], RequestSample] = field(default_factory=dict)
    epochs: dict[Speaker, dict[str, int]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)

    def keep_from(self, first_s: int) -> None:
        self.floor_s = first_s if self.floor_s is None else max(first_s, self.floor_s)
        self.pinned = True

    def add(self, sample: RequestSample) -> None:
        if sample.source == Source.ENGINE and not sample.replica:
            self.counts.unattributed += 1
            return
        if not self.pinned:
            follows = sample.at_s - self.span_s + 1
            self.floor_s = follows if self.floor_s is None else max(self.floor_s, follows)
        if self.floor_s is not None and sample.at_s < self.floor_s:
            self.counts.late += 1
            return
        identity = identity_of(sample)
        firsts = self.epochs.setdefault(speaker_of(identity), {})
        firsts[sample.epoch] = min(firsts.get(sample.epoch, sample.at_s), sample.at_s)
        there = self.kept.get((identity, sample.at_s))
        if there is None:
            self.counts.accepted += 1
        elif sample.seq > there.seq:
            self.counts.replaced += 1
        else:
            self.counts.duplicate += 1
            return
        self.kept[identity, sample.at_s] = sample

    def visible(
        self, first_s: int, end_s: int, quarantined: Iterable[SourceName]
    ) -> dict[tuple[Identity, int], RequestSample]:
        floor_s = end_s if self.floor_s is None else self.floor_s
        return {
            (identity, at_s): sample
            for (identity, at_s), sample in self.kept.items()
            if floor_s <= at_s < floor_s + self.span_s
            and first_s <= at_s < end_s
            and (identity[0], identity[2], identity[3]) not in quarantined
        }


class NaiveGrid:
    def __init__(
        self, endpoint: NaiveEndpoint, first_s: int, end_s: int, quarantined: Iterable[SourceName] = ()
    ) -> None:
        self.endpoint, self.first_s, self.end_s = endpoint, first_s, end_s
        self.samples = endpoint.visible(first_s - 1, end_s, frozenset(quarantined))
        inside = {identity[0] for identity, at_s in self.samples if at_s >= first_s}
        self.replicas = sorted(inside - {""})
        self._at: dict[tuple[str, int], dict[Identity, RequestSample]] = {}
        for (identity, at_s), sample in self.samples.items():
            self._at.setdefault((identity[0], at_s), {})[identity] = sample

    def rank(self, identity: Identity) -> int:
        return list(self.endpoint.epochs[speaker_of(identity)]).index(identity[1])

    def speaking(self, replica: str, at_s: int) -> dict[Identity, RequestSample]:
        """The samples that count: of each speaker those of the newest epoch that spoke in that second."""
        found = self._at.get((replica, at_s), {})
        newest: dict[Speaker, int] = {}
        for identity in found:
            speaker = speaker_of(identity)
            newest[speaker] = max(newest.get(speaker, -1), self.rank(identity))
        return {own: sample for own, sample in found.items() if self.rank(own) == newest[speaker_of(own)]}

    def value(self, replica: str, name: str, at_s: int) -> Fraction | None:
        counting = self.speaking(replica, at_s)
        for source in (Source.ENGINE, Source.ROUTER):
            known = [
                Fraction(value)
                for own, sample in counting.items()
                if own[2] == source and (value := getattr(sample, name)) is not None
            ]
            if known:
                return sum(known, Fraction()) / (len(known) if name in FRACTIONS else 1)
        return None

    def arrivals(self, replica: str, at_s: int) -> Fraction | None:
        counted = self.value(replica, "arrivals", at_s)
        if counted is not None or not replica:
            return counted
        epochs = [{own[1] for own in self.speaking(replica, second)} for second in (at_s - 1, at_s)]
        if epochs[0] != epochs[1]:
            return None
        left = [self.value(replica, name, at_s) for name in ("completions", "errors", "aborted")]
        now = [self.value(replica, name, at_s) for name in ("running", "waiting")]
        before = [self.value(replica, name, at_s - 1) for name in ("running", "waiting")]
        if None in left + now + before:
            return None
        return total(left) + total(now) - total(before)

    def heard(self, replica: str, at_s: int) -> bool:
        return bool(self.speaking(replica, at_s))

    def current_epoch(self, replica: str) -> str:
        return list(self.endpoint.epochs[replica, None])[-1]

    def restarts(self) -> set[tuple[str, str | None, str, int]]:
        """Those whose second is still kept, and no longer waiting."""
        floor_s = self.end_s if self.endpoint.floor_s is None else self.endpoint.floor_s
        return {
            (*speaker, epoch, begun_s)
            for speaker, firsts in self.endpoint.epochs.items()
            for epoch, begun_s in list(firsts.items())[1:]
            if max(floor_s, self.first_s) <= begun_s < min(floor_s + self.endpoint.span_s, self.end_s)
        }

    def two_processes(self) -> set[tuple[str, str | None, str, str, int]]:
        found = set()
        for speaker, firsts in self.endpoint.epochs.items():
            spoke = {
                epoch: [
                    at_s
                    for identity, at_s in self.samples
                    if speaker_of(identity) == speaker and identity[1] == epoch and at_s >= self.first_s
                ]
                for epoch in firsts
            }
            order = list(firsts)
            for place, older in enumerate(order):
                for newer in order[place + 1 :]:
                    if spoke[older] and spoke[newer] and max(spoke[older]) > firsts[newer]:
                        found.add((*speaker, older, newer, max(spoke[older])))
        return found

    def histograms(self, name: str) -> list[Histogram]:
        """Those that count, one by one."""
        taken: list[Histogram] = []
        for replica in {identity[0] for identity, _ in self.samples}:
            for at_s in range(self.first_s, self.end_s):
                counting = self.speaking(replica, at_s)
                for source in (Source.ENGINE, Source.ROUTER):
                    known = [
                        histogram
                        for own, sample in counting.items()
                        if own[2] == source and (histogram := getattr(sample, name)) is not None
                    ]
                    if known:
                        taken += known
                        break
        return taken


def total(values: list[Fraction | None]) -> Fraction:
    return sum((value for value in values if value is not None), Fraction())


def below(histograms: list[Histogram], edge: float) -> Fraction:
    """How many values lie at or below an edge, each bucket's being spread evenly over it; the first begins at 0."""
    count = Fraction()
    for histogram in histograms:
        lower = min(Fraction(0), Fraction(histogram.explicit_bounds[0])) if histogram.explicit_bounds else Fraction(0)
        for bound, inside in zip(histogram.explicit_bounds, histogram.bucket_counts, strict=False):
            upper, x = Fraction(bound), Fraction(edge)
            if x >= upper:
                count += inside
            elif x > lower:
                count += inside * (x - lower) / (upper - lower)
            lower = upper
    return count
