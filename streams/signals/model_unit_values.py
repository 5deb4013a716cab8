"""Model-unit utilisation of one window: what arrived a minute and what waits, over what the ready replicas can do."""

from dataclasses import dataclass
from math import fsum

from decisions.model_units import batch_units, unit_utilization
from records.policy import ModelCoefficients
from streams.endpoints.tallies import Tally
from streams.signals.measures import Measured, known_empty, total
from streams.signals.readings import WindowReading


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
    if coefficients is None:
        return Measured(None, 0.0)
    if not reading.seconds.seconds:
        empty = known_empty(reading)
        return Measured(None, empty or 0.0, is_undefined=empty is not None)
    arrivals = total(reading, reading.tally("arrivals"))
    waiting = total(reading, reading.tally("waiting"), "waiting")
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
    completions = _sum(reading.tally("completions"))
    if not completions:
        return Shape(None, None, 0.0, None)
    read, hit = _sum(reading.tally("input_tokens")), _sum(reading.tally("cached_tokens"))
    output, images = _sum(reading.tally("output_tokens")), _sum(reading.tally("images"))
    return Shape(
        _mean(read, completions),
        _mean(output, completions),
        min(1.0, hit / read) if read and hit is not None else 0.0,
        _mean(images, completions),
    )


def _arrived_units(
    reading: WindowReading, coefficients: ModelCoefficients, arrivals: float, shape: Shape
) -> float | None:
    """Model units that arrived a second; null where the requests' sizes are unknown."""
    if arrivals == 0:
        return 0.0
    tokens = total(reading, reading.tally("arrived_input_tokens")).value
    output = total(reading, reading.tally("arrived_output_tokens_estimate")).value
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


def _sum(found: Tally) -> float | None:
    """Over all seconds that are known; null where none is."""
    return fsum(found.sums.tolist()) if found.is_known else None


def _mean(amount: float | None, completions: float) -> float | None:
    return None if amount is None else amount / completions
