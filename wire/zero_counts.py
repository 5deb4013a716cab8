"""Counters that begin at zero: one that is not there before its first event hides that event from `increase()`."""

from collections.abc import Iterable
from itertools import product

from opentelemetry.metrics import Counter


def begin_at_zero(counter: Counter, **values: Iterable[str]) -> None:
    """Count nothing under each combination of the labels' `values`; without labels where there are none.

    Once the process has its meter provider: what is counted before is lost. Labels whose values are a sender's, and not
    known at the start, are left to their first event.
    """
    for combination in product(*values.values()):
        counter.add(0, {label: str(value) for label, value in zip(values, combination, strict=True)})
