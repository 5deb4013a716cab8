"""decisions.md, "Clock skew": the median of (at_s + 1 - received_s) over a source's last 30 samples of 300 s."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

LAST = 30
LAST_S = 300
LEAST = 5
OFF_S = 5
STEADY_S = 2
SAME_S = 1
"""A correction stays as long as the median is this near to it."""
CHANGES = 8
"""One change too many within some minutes, and the clock is not trusted any more."""


@dataclass(frozen=True)
class Verdict:
    """Of a clock that was off once: what its samples are corrected by, or that they are not trusted."""

    shift_s: int
    quarantined: bool
    offset_s: Fraction

    @property
    def treatment(self) -> tuple[int, bool]:
        return self.shift_s, self.quarantined

    @property
    def is_well(self) -> bool:
        return not self.shift_s and not self.quarantined


@dataclass
class SourceClock:
    """One source; `held` is null as long as its clock was never off."""

    samples: list[tuple[Fraction, Fraction]] = field(default_factory=list)
    held: Verdict | None = None
    changes: int = 0

    def take(self, at_s: int, received_s: Fraction) -> Verdict | None:
        """What holds for a sample, which is the newest of its source."""
        self.samples.append((at_s + 1 - received_s, received_s))
        offsets = sorted(offset for offset, seen_s in self.samples[-LAST:] if seen_s >= received_s - LAST_S)
        if len(offsets) >= LEAST:
            found = self._judged(offsets)
            held = self.held
            is_new = not found.is_well if held is None else found.treatment != held.treatment
            if is_new and self.changes < CHANGES:
                self.changes += 1
                self.held = Verdict(0, True, found.offset_s) if self.changes == CHANGES else found
        return self.held

    def _judged(self, offsets: Sequence[Fraction]) -> Verdict:
        median = quantile(offsets, Fraction(1, 2))
        if abs(median) <= OFF_S:
            return Verdict(0, False, median)
        if quantile(offsets, Fraction(3, 4)) - quantile(offsets, Fraction(1, 4)) >= STEADY_S:
            return Verdict(0, True, median)
        if self.held is not None and self.held.shift_s and abs(median - self.held.shift_s) <= SAME_S:
            return Verdict(self.held.shift_s, False, median)
        return Verdict(round(median), False, median)


def quantile(ordered: Sequence[Fraction], fraction: Fraction) -> Fraction:
    """Linear between the two nearest."""
    place = (len(ordered) - 1) * fraction
    low = int(place)
    if low == place:
        return ordered[low]
    return ordered[low] + (ordered[low + 1] - ordered[low]) * (place - low)
