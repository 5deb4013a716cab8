"""Columns of records and of frames are the same columns."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from records.enums import Source
from records.histogram import Histogram
from records.telemetry import RequestSample
from streams.windows.columns import COUNT_FIELDS, GAUGE_FIELDS, HISTOGRAM_FIELDS, SCALAR_FIELDS, SampleColumns
from wire.frames import decode_frame, encode_frames


def some_samples(seed: int, size: int) -> list[RequestSample]:
    """Any field may be null; each histogram field has one set of bounds, as in a frame."""
    random = Random(seed)
    found = []
    for _ in range(size):
        values: dict[str, Any] = {name: random.choice((None, 0, random.randrange(2**32 - 1))) for name in COUNT_FIELDS}
        values |= {name: random.choice((None, 0.0, random.random())) for name in GAUGE_FIELDS}
        for place, name in enumerate(HISTOGRAM_FIELDS):
            counts = tuple(random.choice((0, 3, 2**32 - 2)) for _ in range(place + 1))
            bounds = tuple(float(bound) for bound in range(1, place + 1))
            histogram = Histogram(explicit_bounds=bounds, bucket_counts=counts, sum=random.choice((None, 1.5)))
            values[name] = random.choice((None, histogram))
        found.append(
            RequestSample(
                endpoint=random.choice("xyz"),
                replica=random.choice(("", "a", "b")),
                epoch=random.choice(("", "1")),
                source=random.choice(tuple(Source)),
                reporter=random.choice((None, "", "r")),
                at_s=random.randrange(2**33),
                seq=random.randrange(2**62),
                streamed_fraction=random.choice((None, 0.0, 0.3)),
                **values,
            )
        )
    return found


def assert_equal(left: SampleColumns, right: SampleColumns) -> None:
    assert left.series == right.series
    for name in ("series_code", "at_s", "seq", "received_s", "endpoint_code"):
        one, other = getattr(left, name), getattr(right, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    for name in left.buckets.dtype.names or ():
        if name != "lap":
            np.testing.assert_array_equal(left.buckets[name], right.buckets[name])
    for name in HISTOGRAM_FIELDS:
        assert [group.bounds for group in left.histograms[name]] == [group.bounds for group in right.histograms[name]]
        for one, other in zip(left.histograms[name], right.histograms[name], strict=True):
            assert one.counts.dtype == other.counts.dtype == np.uint32
            for column in ("rows", "counts", "sums"):
                np.testing.assert_array_equal(getattr(one, column), getattr(other, column))


def framed(samples: list[RequestSample]) -> pa.RecordBatch:
    (frame,) = encode_frames(samples)
    return decode_frame("telemetry.requests", frame.value).batch


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 2, 200])
def test_a_frame_and_its_records_give_the_same_columns(seed: int, size: int) -> None:
    samples = some_samples(seed, size)
    received_s = np.arange(0.25, size, 1.0)
    assert_equal(SampleColumns.from_arrow(framed(samples), received_s), SampleColumns.from_records(samples, received_s))


def test_a_part_of_a_frame_gives_the_columns_of_that_part() -> None:
    samples = some_samples(9, 50)
    part = framed(samples).slice(10, 20)
    received_s = np.arange(20.0)
    assert_equal(SampleColumns.from_arrow(part, received_s), SampleColumns.from_records(samples[10:30], received_s))


def test_values_are_those_of_the_records() -> None:
    samples = some_samples(3, 100)
    columns = SampleColumns.from_records(samples, np.zeros(100))
    for row, sample in enumerate(samples):
        assert columns.endpoints[columns.endpoint_code[row]] == sample.endpoint
        identity = (sample.endpoint, sample.replica, sample.epoch, sample.source, sample.reporter)
        assert columns.series[columns.series_code[row]] == identity
        for name in SCALAR_FIELDS:
            value, found = getattr(sample, name), columns.field(name)[row]
            assert np.isnan(found) if value is None else found == pytest.approx(value, rel=1e-7)
        for name in HISTOGRAM_FIELDS:
            histogram = getattr(sample, name)
            held = [group for group in columns.histograms[name] if row in group.rows]
            assert len(held) == (histogram is not None)
            if histogram is not None:
                place = held[0].rows.tolist().index(row)
                assert tuple(held[0].counts[place].tolist()) == histogram.bucket_counts


def test_no_samples_are_columns_too() -> None:
    columns = SampleColumns.from_records([], np.zeros(0))
    assert (len(columns), columns.series, columns.endpoints, columns.field("steps").shape) == (0, (), (), (0,))


def test_taking_rows_takes_their_histograms() -> None:
    samples = some_samples(4, 40)
    rows = np.array([31, 4, 17])
    taken = SampleColumns.from_records(samples, np.arange(40.0)).take(rows)
    expected = SampleColumns.from_records([samples[row] for row in rows.tolist()], rows.astype(np.float64))
    for name in SCALAR_FIELDS:
        np.testing.assert_array_equal(taken.field(name), expected.field(name))
    assert [taken.series[code] for code in taken.series_code] == [
        expected.series[code] for code in expected.series_code
    ]
    for name in HISTOGRAM_FIELDS:
        for one, other in zip(taken.histograms[name], expected.histograms[name], strict=True):
            np.testing.assert_array_equal(one.rows, other.rows)
            np.testing.assert_array_equal(one.counts, other.counts)
