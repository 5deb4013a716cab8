"""The order in which a replica's incarnations were first read.

A speaker is a replica, for `replica: ""` each reporter: whoever has epochs of its own.
"""

from collections.abc import Iterable, Iterator

from records.epoch_memory import EpochSeen

EPOCHS_MAX = 8
"""Most epochs without samples that are remembered of a speaker; an older one that speaks again counts as new."""

Speaker = tuple[str, str | None]
"""replica, and the reporter where the replica is ""."""


def speaker_of(replica: str, reporter: str | None) -> Speaker:
    return (replica, None) if replica else ("", reporter or "")


class EpochOrder:
    """One endpoint's epochs by speaker, oldest first, each with the earliest and the latest second seen of it."""

    def __init__(self) -> None:
        self._spans: dict[Speaker, dict[str, tuple[int, int]]] = {}

    def __iter__(self) -> Iterator[EpochSeen]:
        for replica, reporter in sorted(self._spans, key=lambda speaker: (speaker[0], speaker[1] or "")):
            for epoch, (first_s, last_s) in self._spans[replica, reporter].items():
                yield EpochSeen(replica=replica, reporter=reporter, epoch=epoch, first_s=first_s, last_s=last_s)

    def see(self, speaker: Speaker, epoch: str, first_s: int, last_s: int) -> bool:
        """Note that an epoch spoke between two seconds; True if it is new, and not the speaker's first."""
        epochs = self._spans.setdefault(speaker, {})
        known = epochs.get(epoch)
        if known is not None:
            epochs[epoch] = min(known[0], first_s), max(known[1], last_s)
            return False
        epochs[epoch] = first_s, last_s
        return len(epochs) > 1

    def restore(self, seen: Iterable[EpochSeen]) -> None:
        """Take over what was remembered, oldest first; what is already here counts as read later."""
        here, self._spans = self._spans, {}
        for entry in seen:
            self.see(speaker_of(entry.replica, entry.reporter), entry.epoch, entry.first_s, entry.last_s)
        for speaker, epochs in here.items():
            for epoch, (first_s, last_s) in epochs.items():
                self.see(speaker, epoch, first_s, last_s)

    def of(self, speaker: Speaker) -> list[tuple[str, int]]:
        """(epoch, first second), oldest first."""
        return [(epoch, span[0]) for epoch, span in self._spans.get(speaker, {}).items()]

    def trim(self, speaker: Speaker, alive: frozenset[str]) -> None:
        """Forget the oldest epochs of those that are not `alive`, down to EPOCHS_MAX."""
        epochs = self._spans.get(speaker, {})
        ended = [epoch for epoch in epochs if epoch not in alive]
        for epoch in ended[: max(0, len(ended) - EPOCHS_MAX)]:
            del epochs[epoch]

    def forget_silent(self, alive: frozenset[Speaker], before_s: int) -> None:
        """Forget the speakers that are not `alive` and whose last second is before `before_s`."""
        for speaker in [speaker for speaker in self._spans if speaker not in alive]:
            if max(last_s for _, last_s in self._spans[speaker].values()) < before_s:
                del self._spans[speaker]

    def __len__(self) -> int:
        """How many speakers there are."""
        return len(self._spans)
