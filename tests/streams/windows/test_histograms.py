"""Merged histograms against the values that were counted."""

from bisect import bisect_left
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.windows.histograms import EMPTY, MergedHistogram, merge, quantile

BOUNDS = ((1.0, 2.0, 5.0, 10.0), (2.0, 4.0, 8.0, 16.0, 32.0), (3.0,), (-1.0, 0.0, 7.0), ())


def counted(bounds: tuple[float, ...], values: list[float]) -> MergedHistogram:
    counts = np.zeros(len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    return MergedHistogram(bounds, counts, sum(values), len(values))


def of(bounds: tuple[float, ...], *counts: float) -> MergedHistogram:
    return MergedHistogram(bounds, np.array(counts, np.float64))


parts = st.lists(st.tuples(st.sampled_from(BOUNDS), st.lists(st.floats(0, 40), max_size=20)), min_size=1, max_size=4)


@settings(deadline=None)  # a machine may be busy
@given(parts=parts, fraction=st.floats(0, 1))
def test_a_quantile_is_off_by_its_width_at_most(
    parts: list[tuple[tuple[float, ...], list[float]]], fraction: float
) -> None:
    merged = merge([counted(bounds, values) for bounds, values in parts])
    values = sorted(value for _, own in parts for value in own)
    found = quantile(merged, fraction)
    assert merged.total == pytest.approx(len(values))
    if found is None:
        assert not values or not merged.bounds
        return
    true = values[max(0, ceil(fraction * len(values) - 1e-9) - 1)]
    assert abs(found.value - true) <= found.width + 1e-6


@settings(deadline=None)
@given(parts=parts)
def test_counts_at_common_bounds_stay_exact(parts: list[tuple[tuple[float, ...], list[float]]]) -> None:
    """A bound that every part has divides the values exactly."""
    merged = merge([counted((2.0, *[bound for bound in bounds if bound > 2]), values) for bounds, values in parts])
    if merged.total:
        at_two = float(np.cumsum(merged.counts)[merged.bounds.index(2.0)])
        assert at_two == sum(value <= 2 for _, values in parts for value in values)


@pytest.mark.parametrize(
    ("histogram", "fraction", "value", "width"),
    [
        (of((10.0, 20.0), 4, 0, 0), 0.5, 5.0, 10.0),
        (of((10.0, 20.0), 4, 0, 0), 1.0, 10.0, 10.0),
        (of((10.0, 20.0), 0, 4, 0), 0.25, 12.5, 10.0),
        (of((10.0, 20.0), 0, 4, 0), 0.0, 10.0, 10.0),
        (of((10.0, 20.0), 5, 5, 0), 0.5, 10.0, 10.0),
        (of((10.0, 20.0), 5, 0, 5), 0.5, 10.0, 10.0),
        (of((-5.0, 10.0), 4, 0, 0), 0.5, -5.0, 0.0),
        (of((0.0, 10.0), 1, 1, 0), 0.75, 5.0, 10.0),
    ],
)
def test_interpolates_inside_the_bucket(
    histogram: MergedHistogram, fraction: float, value: float, width: float
) -> None:
    found = quantile(histogram, fraction)
    assert found is not None
    assert (found.value, found.width) == (value, width)


def test_above_the_last_bound_that_bound_is_all_that_is_known() -> None:
    found = quantile(of((10.0, 20.0), 0, 0, 3), 0.5)
    assert found is not None
    assert (found.value, found.width) == (20.0, inf)


def test_of_values_without_any_bound_nothing_is_known() -> None:
    assert quantile(of((), 3), 0.5) is None


@pytest.mark.parametrize(
    ("parts", "value"),
    [
        # The third of six: two are in (100, 200], the one in (30, 300] is spread over four buckets that end there.
        ([of((100.0, 200.0, 400.0, 1600.0), 0, 2, 0, 2, 1), of((30.0, 300.0), 0, 1, 0)], 300.0),
        # The fourth of eight, spread up to 200; the others are above all bounds.
        (
            [
                of((100.0, 200.0, 400.0, 1600.0), 0, 1, 0, 0, 0),
                of((0.0, 80.0, 200.0), 0, 1, 1, 3),
                of((200.0,), 1, 1),
            ],
            200.0,
        ),
    ],
)
def test_rounding_moves_no_quantile_over_empty_buckets(parts: list[MergedHistogram], value: float) -> None:
    found = quantile(merge(parts), 0.5)
    assert found is not None
    assert found.value == pytest.approx(value)


def test_of_nothing_there_is_no_quantile_and_no_mean() -> None:
    assert quantile(EMPTY, 0.5) is None
    assert quantile(of((1.0,), 0, 0), 0.5) is None
    assert merge([]) is EMPTY
    assert EMPTY.mean is None


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_is_in_its_range(fraction: float) -> None:
    with pytest.raises(ValueError, match=r"fraction must be in 0..1, got"):
        quantile(of((1.0,), 1, 0), fraction)


def test_bounds_that_differ_become_their_union() -> None:
    merged = merge([of((10.0, 20.0), 2, 4, 1), of((15.0,), 3, 1)])
    assert merged.bounds == (10.0, 15.0, 20.0)
    assert merged.counts.tolist() == [4.0, 3.0, 2.0, 2.0]
    assert merged.widths is not None
    assert merged.widths.tolist() == [15.0, 15.0, inf, inf]


def test_a_mean_is_that_of_the_parts_that_keep_a_sum() -> None:
    known = MergedHistogram((10.0,), np.array([2.0, 0.0]), sum=8.0, summed_count=2)
    assert merge([known, of((10.0,), 5, 0)]).mean == 4.0
