"""Windows that are fed directly: each field of each second to the last bit, sums, maxima, histograms and quantiles."""

import pytest

from tests.oracle.cases import make_case
from tests.oracle.direct import window_differences
from tests.oracle.plans import drawn_plan
from tests.seeds import seeds

CASES = 60


@pytest.mark.parametrize("seed", seeds(20, quick=5))
def test_windows_and_book_agree(seed: int) -> None:
    for number in range(seed * CASES, (seed + 1) * CASES):
        assert window_differences(make_case(drawn_plan(10_000 + number))) == [], f"case {10_000 + number}"
