"""What a replica's second costs."""

import tracemalloc
from random import Random

import numpy as np
import pytest

from records.enums import Source
from records.histogram import Histogram
from records.telemetry import RequestSample
from streams.windows.columns import COUNT_FIELDS, GAUGE_FIELDS, SampleColumns
from streams.windows.private_pages import PrivatePages
from streams.windows.windows import SPAN_S, Windows

BOUNDS = {"ttft_ms": 22, "tpot_ms": 19, "e2e_ms": 21, "queue_ms": 21}
"""How many bounds vLLM's histograms have."""
BYTES_MAX = 258
REPLICAS = 512


def second_of_all(at_s: int) -> SampleColumns:
    random = Random(at_s)
    batch = []
    for place in range(REPLICAS):
        histograms = {
            name: Histogram(
                explicit_bounds=tuple(map(float, range(1, size + 1))),
                bucket_counts=tuple(random.randrange(255) for _ in range(size + 1)),
                sum=random.random(),
            )
            for name, size in BOUNDS.items()
        }
        counts = {name: random.randrange(2**32 - 1) for name in COUNT_FIELDS}
        gauges = {name: random.random() for name in GAUGE_FIELDS}
        batch.append(
            RequestSample(
                endpoint=f"endpoint-{place % 50}",
                replica=f"replica-{place}",
                epoch="1700000000000",
                source=Source.ENGINE,
                seq=2**62 + at_s,
                at_s=at_s,
                streamed_fraction=random.random(),
                **counts,  # type: ignore[arg-type]  # mypy cannot see which fields these are
                **gauges,  # type: ignore[arg-type]
                **histograms,  # type: ignore[arg-type]
            )
        )
    return SampleColumns.from_records(batch, np.zeros(REPLICAS))


def fill(windows: Windows, seconds: list[SampleColumns]) -> None:
    for columns in seconds:
        windows.add(columns)
    for endpoint in windows.endpoints:
        windows.grid(endpoint, 1_700_000_000, 1_700_000_003).histogram("ttft_ms")


def test_a_replica_second_with_four_histograms_costs_258_bytes_at_most() -> None:
    """Names, dictionaries and cached readers included; they are few, so that a few seconds show them all."""
    seconds = [second_of_all(1_700_000_000 + offset) for offset in range(3)]
    fill(Windows(SPAN_S), seconds)  # what numpy imports at its first use is not the windows'
    windows = Windows(SPAN_S)
    tracemalloc.start()
    try:
        fill(windows, seconds)
        own = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(inclusive=True, domain=0)])
    finally:
        tracemalloc.stop()
    objects = sum(trace.size for trace in own.traces)
    assert objects > REPLICAS * 100
    assert (windows.nbytes + objects) / (REPLICAS * SPAN_S) <= BYTES_MAX


def test_growing_copies_no_ring() -> None:
    """Rows come in chunks: while one more series enters, no more than its own rows are touched."""
    windows = Windows(SPAN_S)
    windows.add(second_of_all(1_700_000_000))
    before = windows.nbytes
    more = RequestSample(endpoint="other", replica="one-more", at_s=1_700_000_000, source=Source.ENGINE)
    windows.add(SampleColumns.from_records([more], np.zeros(1)))
    assert windows.nbytes - before < 2 * SPAN_S * BYTES_MAX


def test_memory_of_series_that_ended_is_given_back() -> None:
    windows = Windows(SPAN_S)
    fill(windows, [second_of_all(1_700_000_000)])
    full = windows.nbytes
    for endpoint in windows.endpoints[1:]:
        windows.forget(endpoint)
    assert windows.series == REPLICAS // 50 + 1
    assert windows.nbytes < full / 20
    windows.add(second_of_all(1_700_000_001))
    heard = windows.grid("endpoint-7", 1_700_000_000, 1_700_000_002).heard
    assert (heard == [False, True]).all(), "rows that were given back are empty"


@pytest.mark.parametrize("seed", range(20))
def test_private_pages_are_zeros_where_they_were_cleared(seed: int) -> None:
    random = Random(seed)
    size = random.randrange(1, 30_000)
    pages = PrivatePages(size, np.uint16)
    expected = np.zeros(size, np.uint16)
    for _ in range(10):
        first, end = sorted((random.randrange(size + 1), random.randrange(size + 1)))
        for array in (pages.flat, expected):
            array[:] = np.arange(size) % 65_000 + 1
        pages.clear(first, end)
        expected[first:end] = 0
        assert (pages.flat == expected).all()
