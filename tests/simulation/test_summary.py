"""What was served, added up."""

import numpy as np
import pytest

from simulation.summary import Outcomes, SecondServed, Summary, percentile_ms, within

BOUNDS = (100.0, 200.0, 500.0)


@pytest.mark.parametrize(
    ("counts", "fraction", "expected"),
    [
        ([0, 0, 0, 0], 0.95, None),
        ([10, 0, 0, 0], 0.5, 50.0),
        ([0, 10, 0, 0], 0.5, 150.0),
        ([5, 5, 0, 0], 0.5, 100.0),
        ([5, 0, 5, 0], 0.75, 350.0),
        ([0, 0, 0, 3], 0.95, 500.0),
        ([1, 0, 0, 99], 0.95, 500.0),
    ],
)
def test_percentiles_are_straight_within_a_bucket(counts: list[int], fraction: float, expected: float | None) -> None:
    found = percentile_ms(BOUNDS, np.array(counts), fraction)
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_limit_must_be_a_bound() -> None:
    assert within(BOUNDS, np.array([1, 2, 4, 8]), 200.0) == 3
    assert within(BOUNDS, np.array([1, 2, 4, 8]), 500.0) == 7
    with pytest.raises(ValueError, match="limit_ms: 150, allowed: 100, 200, 500"):
        within(BOUNDS, np.array([1, 2, 4, 8]), 150.0)


@pytest.mark.parametrize(
    ("outcomes", "share"),
    [
        (Outcomes(), None),
        (Outcomes(rejections=4), 0.0),
        (Outcomes(arrivals=3, rejections=1, ttft_within_slo=3), 0.75),
        (Outcomes(arrivals=4, ttft_within_slo=3, queued=2), 0.25),
        (Outcomes(arrivals=4, ttft_within_slo=1, queued=4), 0.0),
    ],
)
def test_the_share_counts_all_requests(outcomes: Outcomes, share: float | None) -> None:
    assert outcomes.slo_kept_share == share


def a_second(at_s: int, completions: int) -> SecondServed:
    return SecondServed(
        at_s=at_s,
        arrivals=5,
        rejections=1,
        completions=completions,
        inflight=7,
        waiting=0.5,
        ready=2,
        spec=3,
        ttft_p95_ms=None,
    )


def test_seconds_add_up_and_are_told_after_the_one_that_is_known() -> None:
    summary = Summary("chat", 500.0)
    assert summary.told(0)["seconds"] == []
    for at_s in range(100, 104):
        outcomes = Outcomes(arrivals=5, rejections=1, completions=at_s - 100, ttft_within_slo=3)
        summary.add(a_second(at_s, at_s - 100), outcomes, 4, {"ready": 2, "starting": 1})
    told = summary.told()
    assert "seconds" not in told
    assert (told["arrivals"], told["rejections"], told["completions"], told["gpu_seconds"]) == (20, 4, 6, 16)
    assert (told["slo_kept_share"], told["inflight"], told["simulated_seconds"]) == (0.5, 7, 4)
    assert told["replicas"] == {"ready": 2, "starting": 1}
    for after_s, expected in ((0, [100, 101, 102, 103]), (99, [100, 101, 102, 103]), (101, [102, 103]), (103, [])):
        assert [row.at_s for row in summary.told(after_s)["seconds"]] == expected
