"""Seeds of tests that could be run with ever more of them."""

from collections.abc import Collection

import pytest


def seeds(count: int, quick: int | Collection[int]) -> list[pytest.ParameterSet]:
    """0 to `count` - 1: the first `quick` of them, or those that it names, in every run, the rest with the soaks."""
    chosen = range(quick) if isinstance(quick, int) else quick
    return [pytest.param(seed, marks=[] if seed in chosen else [pytest.mark.slow]) for seed in range(count)]
