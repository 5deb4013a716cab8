"""Cost of requests in model units, on numbers and on numpy arrays alike.

`units = a*uncached_input + b*output + c*uncached_input*output/1000 + d*cached_input + e*images + f` for one request,
scaled so that one replica does `capacity_model_units_per_min` a minute at its best sustainable mix.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from records.policy import ModelCoefficients

Numbers = TypeVar("Numbers", float, npt.NDArray[np.float64])
"""A number, or a float64 array; in an array NaN is unknown and stays so."""


def request_units(
    model: ModelCoefficients, uncached_input: Numbers, output: Numbers, cached_input: Numbers, images: Numbers
) -> Numbers:
    """Give the model units of one request, or of each of many: tokens, tokens, tokens and images of one request."""
    product = uncached_input * output / 1000
    by_tokens = model.a * uncached_input + model.b * output + model.c * product + model.d * cached_input
    return by_tokens + model.e * images + model.f


def batch_units(
    model: ModelCoefficients, requests: float, uncached_input: float, output: float, cached_input: float, images: float
) -> float:
    """Give the model units of `requests` requests of which only sums are known: all have the mean shape.

    Zero requests cost nothing, whatever the sums say: tokens without a request belong to an earlier second.
    """
    if requests <= 0:
        return 0.0
    mean = request_units(
        model, uncached_input / requests, output / requests, cached_input / requests, images / requests
    )
    return requests * mean


def unit_utilization(model: ModelCoefficients, arrived_per_min: float, waiting: float, ready: int) -> float | None:
    """Give demand over capacity: units that arrived a minute, and those waiting, drained in one minute.

    Null without a ready replica: nothing then is used, or overused.
    """
    if ready <= 0:
        return None
    return (arrived_per_min + waiting) / (ready * model.capacity_model_units_per_min)
