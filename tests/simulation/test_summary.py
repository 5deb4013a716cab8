"""What was served, added up."""

import numpy as np
import pytest

from simulation.summary import Outcomes, SecondServed, Summary, within

BOUNDS = (100.0, 200.0, 500.0)


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
    summary = Summary(500.0)
    assert summary.as_object(0)["seconds"] == []
    for at_s in range(100, 104):
        outcomes = Outcomes(arrivals=5, rejections=1, completions=at_s - 100, ttft_within_slo=3)
        summary.add(a_second(at_s, at_s - 100), outcomes, 4, {"ready": 2, "starting": 1})
    told = summary.as_object()
    assert "seconds" not in told
    assert (told["arrivals"], told["rejections"], told["completions"], told["gpu_seconds"]) == (20, 4, 6, 16)
    assert (told["slo_kept_share"], told["inflight"], told["simulated_seconds"]) == (0.5, 7, 4)
    assert told["replicas"] == {"ready": 2, "starting": 1}
    for after_s, expected in ((0, [100, 101, 102, 103]), (99, [100, 101, 102, 103]), (101, [102, 103]), (103, [])):
        assert [row.at_s for row in summary.as_object(after_s)["seconds"]] == expected
