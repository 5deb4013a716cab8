"""RequestSamples added up by endpoint and second: for the table that is shown live, and for the page at the end."""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streams.windows.histograms import MergedHistogram, merge, quantile

COUNTS = ("arrivals", "completions", "errors", "rejections", "aborted")
MEANS = ("running", "waiting")

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(slots=True)
class SecondTally:
    """All replicas of one endpoint in one second. `ttft` has counts by bucket, of each set of bounds."""

    arrivals: float = 0.0
    completions: float = 0.0
    errors: float = 0.0
    rejections: float = 0.0
    aborted: float = 0.0
    running: float = 0.0
    waiting: float = 0.0
    ttft: dict[tuple[float, ...], Floats] = field(default_factory=dict)

    def first_tokens(self, within_ms: float = math.inf) -> float:
        """How many came; with `within_ms`, one of the bounds, only those that took no longer."""
        return sum(
            float(counts[: bisect_right(bounds, within_ms) if math.isfinite(within_ms) else None].sum())
            for bounds, counts in self.ttft.items()
        )

    @property
    def in_flight(self) -> float:
        """Requests that run or wait, the mean of the second."""
        return self.running + self.waiting


class SampleTally:
    """Adds tables with the columns of `telemetry_requests`. Every row must be added once."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, dict[int, SecondTally]] = defaultdict(dict)

    def add(self, table: pa.Table) -> None:
        """Columns: endpoint, at_s, those of COUNTS and MEANS, ttft_ms; what is unknown adds nothing."""
        if table.num_rows == 0:
            return
        endpoints = table["endpoint"].combine_chunks().dictionary_encode()
        codes, seconds = endpoints.indices.to_numpy(), table["at_s"].to_numpy()
        keys, inverse = np.unique(np.stack((codes, seconds), axis=1), axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        names = endpoints.dictionary.to_pylist()
        tallies = [self._seconds[names[code]].setdefault(second, SecondTally()) for code, second in keys.tolist()]
        for name in (*COUNTS, *MEANS):
            sums = np.bincount(inverse, table[name].fill_null(0).to_numpy(), len(tallies))
            for tally, total in zip(tallies, sums.tolist(), strict=True):
                setattr(tally, name, getattr(tally, name) + total)
        for bounds, rows, counts in _histograms(table["ttft_ms"]):
            for row, buckets in zip(inverse[rows].tolist(), counts, strict=True):
                known = tallies[row].ttft.get(bounds)
                tallies[row].ttft[bounds] = buckets if known is None else known + buckets

    def forget_before(self, second: int) -> None:
        """Let go of all that is older."""
        for seconds in self._seconds.values():
            for old in [each for each in seconds if each < second]:
                del seconds[old]

    def of(self, endpoint: str) -> Mapping[int, SecondTally]:
        """By second, in no order; seconds without a sample are not there."""
        return self._seconds.get(endpoint, {})

    def newest(self, endpoint: str) -> int | None:
        """The last second with a sample."""
        return max(self.of(endpoint), default=None)

    def ttft(self, endpoint: str, from_s: int, to_s: int) -> MergedHistogram:
        """Times to first token, ms, of `[from_s, to_s)`."""
        known = self.of(endpoint)
        parts = [
            MergedHistogram(bounds, counts)
            for second in range(from_s, to_s)
            if second in known
            for bounds, counts in known[second].ttft.items()
        ]
        return merge(parts)

    def ttft_p95_ms(self, endpoint: str, from_s: int, to_s: int) -> float | None:
        """As the workers compute it; None where no request got its first token."""
        found = quantile(self.ttft(endpoint, from_s, to_s), 0.95)
        return None if found is None else found.value


def _histograms(column: pa.ChunkedArray) -> Iterator[tuple[tuple[float, ...], Whole, Floats]]:
    """For each set of bounds: the rows that have it, and their counts, float64 (rows, buckets)."""
    rows = np.flatnonzero(column.is_valid().to_numpy())
    known = column.drop_null().combine_chunks()
    if len(known) == 0:
        return
    by_bounds: defaultdict[tuple[float, ...], list[int]] = defaultdict(list)
    for index, bounds in enumerate(known.field("explicit_bounds").to_pylist()):
        by_bounds[tuple(bounds)].append(index)
    for bounds, indices in by_bounds.items():
        counts = known.field("bucket_counts").take(pa.array(indices)).flatten().to_numpy()
        yield bounds, rows[indices], counts.reshape(len(indices), len(bounds) + 1).astype(np.float64)
