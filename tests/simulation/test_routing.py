"""A whole batch goes where each request would have gone alone."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.serving.routing import least_loaded


@settings(max_examples=150, deadline=None)
@given(
    inflight=st.lists(st.integers(0, 12), min_size=1, max_size=8),
    count=st.integers(0, 40),
    seed=st.integers(0, 2**32 - 1),
)
def test_each_request_goes_to_one_with_the_fewest(inflight: list[int], count: int, seed: int) -> None:
    taken = least_loaded(np.array(inflight), count, np.random.default_rng(seed))
    assert len(taken) == count
    held = list(inflight)
    for replica in taken.tolist():
        assert held[replica] == min(held)
        held[replica] += 1


def test_equals_take_turns() -> None:
    """A single request an instant does not always meet the same replica."""
    rng = np.random.default_rng(1)
    taken = [int(least_loaded(np.zeros(4, np.int64), 1, rng)[0]) for _ in range(400)]
    assert min(np.bincount(taken, minlength=4)) > 60
