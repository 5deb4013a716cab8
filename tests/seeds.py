"""Seeds of tests that could be run with ever more of them."""

import pytest


def seeds(count: int, quick: int) -> list[pytest.ParameterSet]:
    """0 to `count` - 1: the first `quick` of them in every run, the rest with the soaks."""
    return [pytest.param(seed, marks=[] if seed < quick else [pytest.mark.slow]) for seed in range(count)]
