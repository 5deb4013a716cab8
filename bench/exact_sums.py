"""Exact sums of the samples that a bench sends, and whether both sides of a comparison came to them."""

from collections.abc import Iterable, Iterator
from math import isclose
from operator import attrgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.worker_line import ENDPOINTS
from records.decisions import ScalingDecision
from records.enums import MetricName
from records.telemetry import RequestSample
from streams.windows.columns import SCALAR_FIELDS

SCALE = 10_000
"""The samples of a bench have four decimals at most, so ten-thousandths of them are whole numbers."""
HOP_S = 5

_scalars_of = attrgetter(*SCALAR_FIELDS)
_SUMMED = {
    MetricName.INFLIGHT_REQUESTS: ("running", "waiting"),
    MetricName.QUEUE_DEPTH: ("waiting",),
}
"""What a metric is the mean of over its window; nothing was rejected."""


class UnequalSumsError(AssertionError):
    """The sides of a comparison did not do the same work, so their costs say nothing."""


class ExactSums:
    """Whole ten-thousandths of each scalar by endpoint and second, and how many samples: the last column."""

    def __init__(self, first_s: int, seconds: int) -> None:
        self.first_s = first_s
        self.last_s = first_s + seconds - 1
        self._sums = np.zeros((len(ENDPOINTS), seconds, len(SCALAR_FIELDS) + 1), np.int64)
        self._row_of = {endpoint: row for row, endpoint in enumerate(ENDPOINTS)}

    def counted(self, samples: Iterable[RequestSample]) -> Iterator[RequestSample]:
        """The samples, as they go by."""
        for each in samples:
            added = self._sums[self._row_of[each.endpoint], each.at_s - self.first_s]
            added[:-1] += np.rint(np.array(_scalars_of(each)) * SCALE).astype(np.int64)
            added[-1] += 1
            yield each

    def of(self, endpoint: str, start_s: int, stop_s: int) -> NDArray[np.int64]:
        """Int64 `(len(SCALAR_FIELDS) + 1,)`: an endpoint's sums in `[start_s, stop_s)`, as far as there are samples."""
        seconds = slice(max(0, start_s - self.first_s), max(0, stop_s - self.first_s))
        found: NDArray[np.int64] = self._sums[self._row_of[endpoint], seconds].sum(axis=0)
        return found

    def check_windows(self, file: Path, sizes_s: Iterable[int]) -> int:
        """Hold the peer's windows to the exact sums, all that end after the last sample and all others it kept; how
        many. Raises UnequalSumsError."""
        header, *lines = file.read_text().splitlines()
        order = [header.split("\t").index(name) for name in SCALAR_FIELDS]
        missing = {
            (endpoint, size_s, start_s)
            for endpoint in ENDPOINTS
            for size_s in sizes_s
            for start_s in range(-(-(self.last_s - size_s + 1) // HOP_S) * HOP_S, self.last_s + 1, HOP_S)
        }
        for line in lines:
            endpoint, size_s, start_s, *texts = line.split("\t")
            *values, samples = map(float, texts)
            found = [*(round(values[index] * SCALE) for index in order), int(samples)]
            window = (endpoint, int(size_s), int(start_s))
            expected = self.of(endpoint, int(start_s), int(start_s) + int(size_s)).tolist()
            if found != expected:
                raise UnequalSumsError(f"{window}: {found} of {(*SCALAR_FIELDS, 'samples')}, expected {expected}")
            missing.discard(window)
        if missing:
            raise UnequalSumsError(f"{len(missing)} windows are missing, among them {min(missing)}")
        return len(lines)

    def check_decisions(self, decisions: Iterable[ScalingDecision]) -> int:
        """Hold what decisions observed to the exact means over their windows; how many values, at least one. Raises
        UnequalSumsError."""
        held = 0
        for decision in decisions:
            for candidate in decision.candidates:
                if candidate.observed is None or candidate.metric not in _SUMMED:
                    continue
                window = (decision.endpoint, decision.at_s - candidate.window_s, decision.at_s)
                expected = self._mean(candidate.metric, *window)
                if not isclose(candidate.observed, expected, rel_tol=1e-8):
                    named = f"{candidate.metric.value} of {window}"
                    raise UnequalSumsError(f"{named}: {candidate.observed}, expected {expected}")
                held += 1
        if not held:
            raise UnequalSumsError("no decision observed anything that could be held to the sums")
        return held

    def _mean(self, metric: MetricName, endpoint: str, start_s: int, stop_s: int) -> float:
        sums = self.of(endpoint, start_s, stop_s)
        total = sum(int(sums[SCALAR_FIELDS.index(name)]) for name in _SUMMED[metric])
        return total / SCALE / (min(stop_s, self.last_s + 1) - max(start_s, self.first_s))
