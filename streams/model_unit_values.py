"""Model-unit utilisation of one window: what arrived a minute and what waits, over what the ready replicas can do."""

from dataclasses import dataclass
from math import fsum

import numpy as np

from decisions.model_units import batch_units, unit_utilization
from records.policy import ModelCoefficients
from streams.measures import Matrix, Measured, known_empty, total
from streams.readings import WindowReading


@dataclass(frozen=True, slots=True)
class Shape:
    """The mean request of the last 300 s, by its completions; null where none completed or a count is unknown."""

    input: float | None
    output: float | None
    cached_share: float
    images: float | None


def model_unit_utilization(reading: WindowReading) -> Measured:
    """decisions.md, "Model units". Unknown without coefficients; at no ready replica there is nothing to be used."""
    coefficients = reading.tick.policy.model.coefficients
    grid = reading.grid
    if coefficients is None:
        return Measured(None, 0.0)
    if not reading.seconds.seconds:
        empty = known_empty(reading)
        return Measured(None, empty or 0.0, is_undefined=empty is not None)
    arrivals = total(reading, np.where(np.isnan(grid.field("waiting")), np.nan, grid.arrivals), None)
    waiting = total(reading, grid.field("waiting"), grid.gateway("waiting"))
    if arrivals.value is None or waiting.value is None:
        return Measured(None, arrivals.coverage)
    shape = recent_shape(reading.tick.recent)
    arrived = _arrived_units(reading, coefficients, max(0.0, arrivals.value), shape)
    waits = _waiting_units(coefficients, waiting.value, max(0.0, arrivals.value), arrived, shape)
    coverage = min(arrivals.coverage, waiting.coverage)
    if arrived is None or waits is None:
        return Measured(None, coverage)
    value = unit_utilization(coefficients, arrived * 60, waits, arrivals.replicas)
    return Measured(value, coverage, arrivals.replicas)


def recent_shape(reading: WindowReading) -> Shape:
    """`reading` is that of the last 300 s."""
    grid = reading.grid
    completions = _sum(reading, grid.field("completions"))
    if not completions:
        return Shape(None, None, 0.0, None)
    tokens, cached = grid.field("input_tokens"), grid.field("cached_tokens")
    both = np.where(np.isnan(tokens) | np.isnan(cached), np.nan, tokens)
    read, hit = _sum(reading, both), _sum(reading, np.where(np.isnan(both), np.nan, cached))
    means = [
        _mean(_sum(reading, grid.field(name)), completions) for name in ("input_tokens", "output_tokens", "images")
    ]
    return Shape(means[0], means[1], min(1.0, hit / read) if read and hit is not None else 0.0, means[2])


def _arrived_units(
    reading: WindowReading, coefficients: ModelCoefficients, arrivals: float, shape: Shape
) -> float | None:
    """Model units that arrived a second; null where the requests' sizes are unknown."""
    if arrivals == 0:
        return 0.0
    grid = reading.grid
    tokens = total(reading, grid.field("arrived_input_tokens"), None).value
    output = total(reading, grid.field("arrived_output_tokens_estimate"), None).value
    if tokens is None and shape.input is not None:
        tokens = shape.input * arrivals
    if output is None and shape.output is not None:
        output = shape.output * arrivals
    if tokens is None or output is None or (coefficients.e and shape.images is None):
        return None
    cached = tokens * shape.cached_share
    images = (shape.images or 0.0) * arrivals
    return batch_units(coefficients, arrivals, tokens - cached, output, cached, images)


def _waiting_units(
    coefficients: ModelCoefficients, waiting: float, arrivals: float, arrived: float | None, shape: Shape
) -> float | None:
    """Model units of those that wait: each like the mean arrival, where nothing arrives like the mean completion."""
    if waiting == 0:
        return 0.0
    if arrivals > 0:
        return None if arrived is None else waiting * arrived / arrivals
    if shape.input is None or shape.output is None or (coefficients.e and shape.images is None):
        return None
    cached = shape.input * shape.cached_share
    return waiting * batch_units(coefficients, 1.0, shape.input - cached, shape.output, cached, shape.images or 0.0)


def _sum(reading: WindowReading, matrix: Matrix) -> float | None:
    """Over all seconds that are known; null where none is."""
    known = ~np.isnan(matrix) & reading.seconds.alive
    if not known.any():
        return None
    return fsum(np.where(known, matrix, 0.0).sum(axis=1).tolist())


def _mean(amount: float | None, completions: float) -> float | None:
    return None if amount is None else amount / completions
