"""The order in which a replica's incarnations were first read.

A speaker is a replica, for `replica: ""` each reporter: whoever has epochs of its own.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from records.epoch_memory import EpochSeen

EPOCHS_MAX = 8
"""Most epochs without samples that are remembered of a speaker; an older one that speaks again counts as new."""

Speaker = tuple[str, str | None]
"""replica, and the reporter where the replica is ""."""


def speaker_of(replica: str, reporter: str | None) -> Speaker:
    return (replica, None) if replica else ("", reporter or "")


class EpochSpan(NamedTuple):
    """The earliest and the latest second seen of an epoch."""

    epoch: str
    first_s: int
    last_s: int


class EpochOrder:
    """One endpoint's epochs by speaker, oldest first."""

    def __init__(self) -> None:
        self._spans: dict[Speaker, tuple[EpochSpan, ...]] = {}
        """Tuples: nearly every speaker has one epoch, and they are many."""

    def __iter__(self) -> Iterator[EpochSeen]:
        for replica, reporter in sorted(self._spans, key=lambda speaker: (speaker[0], speaker[1] or "")):
            for epoch, first_s, last_s in self._spans[replica, reporter]:
                yield EpochSeen(replica=replica, reporter=reporter, epoch=epoch, first_s=first_s, last_s=last_s)

    def __len__(self) -> int:
        """How many speakers there are."""
        return len(self._spans)

    def see(self, speaker: Speaker, epoch: str, first_s: int, last_s: int) -> bool:
        """Note that an epoch spoke between two seconds; True if it is new, and not the speaker's first."""
        spans = self._spans.get(speaker, ())
        for place, known in enumerate(spans):
            if known.epoch == epoch:
                seen = EpochSpan(epoch, min(known.first_s, first_s), max(known.last_s, last_s))
                self._spans[speaker] = (*spans[:place], seen, *spans[place + 1 :])
                return False
        self._spans[speaker] = (*spans, EpochSpan(epoch, first_s, last_s))
        return bool(spans)

    def restore(self, seen: Iterable[EpochSeen]) -> None:
        """Take over what was remembered, oldest first; what is already here counts as read later."""
        here, self._spans = self._spans, {}
        for entry in seen:
            self.see(speaker_of(entry.replica, entry.reporter), entry.epoch, entry.first_s, entry.last_s)
        for speaker, spans in here.items():
            for span in spans:
                self.see(speaker, *span)

    def of(self, speaker: Speaker) -> tuple[EpochSpan, ...]:
        """Oldest first."""
        return self._spans.get(speaker, ())

    def trim(self, speaker: Speaker, alive: frozenset[str]) -> None:
        """Forget the oldest epochs of those that are not `alive`, down to EPOCHS_MAX."""
        spans = self._spans.get(speaker, ())
        ended = [span for span in spans if span.epoch not in alive]
        if len(ended) > EPOCHS_MAX:
            forgotten = ended[: len(ended) - EPOCHS_MAX]
            self._spans[speaker] = tuple(span for span in spans if span not in forgotten)

    def forget_silent(self, alive: frozenset[Speaker], before_s: int) -> None:
        """Forget the speakers that are not `alive` and whose last second is before `before_s`."""
        for speaker in [speaker for speaker in self._spans if speaker not in alive]:
            if max(span.last_s for span in self._spans[speaker]) < before_s:
                del self._spans[speaker]
