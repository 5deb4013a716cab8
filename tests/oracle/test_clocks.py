"""Lateness, skewed clocks, a log out of order."""

import pytest

from tests.oracle.agreement import Sizes, assert_agreement
from tests.oracle.plans import Disorder

OFTEN = (Disorder.LATE, Disorder.SKEW, Disorder.ORDER)


@pytest.mark.parametrize("seed", range(5), ids=lambda seed: f"clocks-{seed}")
def test_engine_and_oracle_agree(request: pytest.FixtureRequest, seed: int) -> None:
    assert_agreement(request, OFTEN, Sizes(), 100)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1010), ids=lambda seed: f"clocks-{seed}")
def test_engine_and_oracle_agree_on_longer_logs(request: pytest.FixtureRequest, seed: int) -> None:
    assert_agreement(request, OFTEN, Sizes(seconds=40, replicas=3), 300)
