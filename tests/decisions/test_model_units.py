"""The cost formula, on numbers and arrays, of one request and of sums."""

import numpy as np
import pytest

from decisions.model_units import batch_units, request_units, unit_utilization
from records.policy import ModelCoefficients

MODEL = ModelCoefficients(name="m", hardware="H100x4", a=0.001, b=0.004, c=0.0005, d=0.0001, e=0.2, f=0.05)


def test_each_coefficient_weighs_its_own_part() -> None:
    # 1000 uncached, 200 out, 500 cached, 3 images: 1 + 0.8 + 0.0005*200 + 0.05 + 0.6 + 0.05
    assert request_units(MODEL, 1000.0, 200.0, 500.0, 3.0) == pytest.approx(2.6)


def test_arrays_give_the_same_numbers_and_keep_the_unknown() -> None:
    inputs = np.array([1000.0, np.nan, 0.0])
    zeros = np.zeros(3)
    units = request_units(MODEL, inputs, np.full(3, 200.0), zeros, zeros)
    assert units[0] == request_units(MODEL, 1000.0, 200.0, 0.0, 0.0)
    assert np.isnan(units[1])
    assert units[2] == pytest.approx(0.85)


def test_sums_cost_what_requests_of_their_mean_shape_do() -> None:
    assert batch_units(MODEL, 4, 4000, 800, 2000, 12) == pytest.approx(4 * 2.6)
    assert batch_units(MODEL, 0, 4000, 800, 2000, 12) == 0


def test_utilisation_counts_what_waits_as_a_minutes_work() -> None:
    assert unit_utilization(MODEL, arrived_per_min=120, waiting=30, ready=2) == 0.75
    assert unit_utilization(MODEL, arrived_per_min=120, waiting=30, ready=0) is None
