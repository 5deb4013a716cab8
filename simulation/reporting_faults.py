"""Faults of those who report: samples that are left out, come late, or come twice."""

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import numpy as np


class ReportFaultKind(StrEnum):
    """Left out; told `delay_s` later; told at once and again `delay_s` later."""

    GAP = "gap"
    LATE = "late"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, kw_only=True)
class ReportFault:
    """For `seconds` (infinite: to the end), of each sample of `replica` (null: of all, the gateway's too) with
    probability `share`."""

    kind: ReportFaultKind
    seconds: float
    replica: str | None = None
    delay_s: int = 5
    share: float = 1.0

    def __post_init__(self) -> None:
        if not self.seconds >= 1:
            raise ValueError(f"seconds must be at least 1, got {self.seconds}")
        if self.delay_s < 1:
            raise ValueError(f"delay_s must be at least 1, got {self.delay_s}")
        if not (math.isfinite(self.share) and 0 <= self.share <= 1):
            raise ValueError(f"share must be in 0..1, got {self.share}")


class Reported(Protocol):
    """A sample: whose it is."""

    @property
    def replica(self) -> str: ...


Sample = TypeVar("Sample", bound=Reported)


class ReportingFaults(Generic[Sample]):
    """Passes samples on as their reporters would. Of several faults at once that hit a sample, a gap counts before a
    delay, and that before a repetition. The same generator and samples give the same reports."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._faults: list[tuple[ReportFault, float]] = []
        self._held: list[tuple[int, int, Sample]] = []
        self._number = 0

    @property
    def held(self) -> int:
        """Reports that are still to be told."""
        return len(self._held)

    def begin(self, fault: ReportFault, second: int) -> None:
        """It holds for samples passed on from `second` on."""
        self._faults.append((fault, second + fault.seconds))

    def pass_on(self, second: int, samples: Iterable[Sample]) -> list[Sample]:
        """The reports told in `second`: what was held until now, in the order in which it was due, then `samples`."""
        self._faults = [(fault, until) for fault, until in self._faults if until > second]
        told = []
        while self._held and self._held[0][0] <= second:
            told.append(heapq.heappop(self._held)[2])
        for sample in samples:
            hits = {fault.kind: fault for fault in self._hits(sample)}
            if ReportFaultKind.GAP in hits:
                continue
            if ReportFaultKind.LATE in hits:
                self._hold(sample, second + hits[ReportFaultKind.LATE].delay_s)
                continue
            told.append(sample)
            if ReportFaultKind.DUPLICATE in hits:
                self._hold(sample, second + hits[ReportFaultKind.DUPLICATE].delay_s)
        return told

    def _hits(self, sample: Sample) -> Iterator[ReportFault]:
        for fault, _ in self._faults:
            concerns = fault.replica is None or fault.replica == sample.replica
            if concerns and (fault.share >= 1 or self._rng.random() < fault.share):
                yield fault

    def _hold(self, sample: Sample, until_s: int) -> None:
        self._number += 1
        heapq.heappush(self._held, (until_s, self._number, sample))
