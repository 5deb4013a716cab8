"""Times of single requests against what a pencil says."""

import math

import pytest

from simulation.traffic import Arrivals
from tests.simulation.serving_runs import advance, fleet, total


def alone_s(prompt: int, cached: int, output: int) -> tuple[float, float]:
    """TTFT and end-to-end seconds of one request on an idle replica."""
    tokens = prompt - cached
    ttft_s = (4.730 + 0.016647 * tokens + 6.930e-7 * tokens**2) / 1000
    steps = [6.381 + 0.011803 + 0.041467 * (prompt + done) / 1000 for done in range(1, output)]
    return ttft_s, ttft_s + sum(steps) / 1000


@pytest.mark.parametrize("offset", [0.0, 0.033, 0.0999, 0.5])
@pytest.mark.parametrize(
    ("prompt", "cached", "output"), [(1000, 0, 100), (1000, 800, 100), (30, 0, 1), (30, 0, 5), (20_000, 0, 40)]
)
def test_a_request_alone_takes_prefill_and_its_steps(prompt: int, cached: int, output: int, offset: float) -> None:
    serving = fleet()
    ttft_s, e2e_s = alone_s(prompt, cached, output)
    requests = Arrivals.of([(offset, prompt, cached, output, math.inf)])
    seconds = [advance(serving, second, requests if second == 0 else Arrivals.none()) for second in range(5)]
    sums = {name: sum(float(one.latencies[name].sums_ms[0]) for one in seconds) for name in seconds[0].latencies}
    assert sums["queue_ms"] == pytest.approx(0, abs=1e-6)
    assert sums["ttft_ms"] == pytest.approx(ttft_s * 1000, rel=1e-6)
    assert sums["e2e_ms"] == pytest.approx(e2e_s * 1000, rel=1e-3)
    if output > 1:
        assert sums["tpot_ms"] == pytest.approx((e2e_s - ttft_s) / (output - 1) * 1000, rel=1e-3)
    counts = {name: int(sum(one.counts[name][0] for one in seconds)) for name in seconds[0].counts}
    assert counts["completions"] == counts["arrivals"] == 1
    assert counts["input_tokens"] == counts["arrived_input_tokens"] == prompt
    assert (counts["cached_tokens"], counts["output_tokens"]) == (cached, output)
    assert counts["steps"] == pytest.approx(output, abs=3)


def test_the_second_of_two_prompts_waits_for_the_first() -> None:
    shown = advance(fleet(), 0, Arrivals.of([(0.2, 2000, 0, 1, math.inf), (0.21, 1000, 0, 1, math.inf)]))
    first_s, second_s = (alone_s(prompt, 0, 1)[0] for prompt in (2000, 1000))
    assert first_s > 0.01, "the second comes while the first is under way"
    assert total([shown], "completions") == 2
    assert float(shown.latencies["queue_ms"].sums_ms[0]) == pytest.approx((first_s - 0.01) * 1000, rel=1e-6)
    ttfts_s = first_s + (first_s - 0.01 + second_s)
    assert float(shown.latencies["ttft_ms"].sums_ms[0]) == pytest.approx(ttfts_s * 1000, rel=1e-6)
