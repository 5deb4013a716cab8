"""Histograms that are added up together are, to the last bit, those that each grid merges by itself."""

import random

import numpy as np
import pytest

from records.histogram import Histogram
from records.telemetry import RequestSample
from streams.windows.columns import SampleColumns
from streams.windows.histograms import EMPTY, MergedHistogram
from streams.windows.plain import HeardSeconds, plain_series
from streams.windows.windows import Windows
from tests.seeds import seeds
from tests.streams.controller.line import sample

START_S = 5_000
SECONDS = 70
SPAN_S = 64
BLOCK_S = 5
FIELD = "e2e_ms"
BOUNDS = ((10.0, 50.0, 200.0), (20.0, 90.0, 400.0))


def _histogram(rng: random.Random, bounds: tuple[float, ...], largest: int) -> Histogram | None:
    if rng.random() < 0.2:
        return None
    counts = tuple(rng.choice((0, rng.randint(0, largest))) for _ in range(len(bounds) + 1))
    return Histogram(
        explicit_bounds=bounds, bucket_counts=counts, sum=None if rng.random() < 0.1 else rng.random() * 1e4
    )


def _samples(rng: random.Random, endpoint: str) -> list[RequestSample]:
    """Some endpoints have one set of bounds, some two, some none; some counts need more than a byte, and some replicas
    have an engine and a router. The first endpoint is as most are."""
    is_first, found = endpoint == "endpoint-0", []
    own = (BOUNDS[0],) if is_first else rng.choice(((BOUNDS[0],), (BOUNDS[1],), BOUNDS, ()))
    for replica in range(rng.randint(1, 4)):
        bounds, largest = rng.choice(own or ((),)), 9 if is_first else rng.choice((9, 9, 9, 300))
        for second in range(rng.choice((0, 40)), SECONDS):
            for source in ("engine", "router")[: 1 + (endpoint == "routed")]:
                if rng.random() < 0.9:
                    fields = {FIELD: _histogram(rng, bounds, largest) if own else None, "source": source}
                    found.append(sample(START_S + second, f"r{replica}", endpoint=endpoint, **fields))
    return found


def _windows(rng: random.Random, endpoints: list[str]) -> Windows:
    windows = Windows(SPAN_S)
    records = [record for endpoint in endpoints for record in _samples(rng, endpoint)]
    records.sort(key=lambda record: record.at_s)
    for start in range(0, len(records), 100):
        part = records[start : start + 100]
        windows.add(SampleColumns.from_records(part, np.array([record.at_s + 1.0 for record in part])))
    return windows


def _same(found: MergedHistogram, expected: MergedHistogram) -> None:
    assert (found is EMPTY) == (expected is EMPTY)
    assert (found.bounds, found.sum, found.summed_count) == (expected.bounds, expected.sum, expected.summed_count)
    np.testing.assert_array_equal(found.counts, expected.counts)


@pytest.mark.parametrize("seed", seeds(20, quick=5))
def test_blocks_are_those_of_grids(seed: int) -> None:
    rng = random.Random(seed)
    endpoints = [*(f"endpoint-{number}" for number in range(6)), "routed"]
    windows = _windows(rng, endpoints)
    first_s, end_s = START_S + SECONDS - 60, START_S + SECONDS
    merged = 0
    for endpoint in endpoints:
        found = windows.grid(endpoint, first_s, end_s).histogram_blocks(FIELD, BLOCK_S)
        merged += found is not None
        for start_s, block in zip(range(first_s, end_s, BLOCK_S), found or (), strict=found is not None):
            _same(block, windows.grid(endpoint, start_s, start_s + BLOCK_S).histogram(FIELD))
    assert merged


@pytest.mark.parametrize("seed", seeds(20, quick=5))
def test_endpoints_that_are_read_together_have_their_own(seed: int) -> None:
    rng = random.Random(seed)
    endpoints = [f"endpoint-{number}" for number in range(12)]
    windows = _windows(rng, endpoints)
    rng.shuffle(endpoints)
    span = range(end_s := START_S + SECONDS - rng.randint(0, 9), end_s + BLOCK_S)
    series = [plain_series(windows.reader(endpoint)) for endpoint in endpoints]
    of_each = [one.rows for one in series if one is not None]
    rows, starts = np.concatenate(of_each), np.cumsum([0, *map(len, of_each[:-1])])
    reader = windows.plain_reader
    heard = HeardSeconds(span, reader.seconds(rows, ("running",), span).heard)
    found = reader.merged(FIELD, rows, starts, heard)
    for endpoint, one in zip(endpoints, found, strict=True):
        if one is not None:
            _same(one, windows.grid(endpoint, span.start, span.stop).histogram(FIELD))
    assert any(one is not None for one in found)
