"""Sub-steps of a tenth of a second against an engine that is simulated step by step."""

import numpy as np
import pytest

from simulation.traffic import Lengths, Quantiles, RateProfile, Traffic
from tests.simulation.serving_runs import H100, advance, fleet, mean_ms, total
from tests.simulation.step_by_step import Request, serve

SECONDS = 15


@pytest.mark.parametrize(
    ("rate", "prompt", "output", "seed"),
    [(2, 500, 200, 71), (20, 500, 200, 72), (60, 100, 20, 73), (4, 4000, 100, 74), (9, 4000, 100, 75)],
    ids=lambda value: f"{value}",
)
def test_latencies_are_those_of_single_steps(rate: float, prompt: int, output: int, seed: int) -> None:
    """Time per token and in all within 4 %; TTFT, of which the sub-steps only know the mean step, within 25 %."""
    traffic = Traffic(
        rate=RateProfile(points=((0, float(rate)),)),
        lengths=Lengths(
            input_tokens=Quantiles(fractions=(0, 1), values=(0.5 * prompt, 1.5 * prompt)),
            output_tokens=Quantiles(fractions=(0, 1), values=(0.5 * output, 1.5 * output)),
        ),
    )
    rng = np.random.default_rng(seed)
    seconds = [traffic.draw(second, rng) for second in range(SECONDS)]
    requests = [
        Request(second + offset, length, tokens)
        for second, one in enumerate(seconds)
        for offset, length, tokens in zip(
            one.offset_s.tolist(), one.input_tokens.tolist(), one.output_tokens.tolist(), strict=True
        )
    ]
    serve(H100, requests)
    serving = fleet()
    shown = [advance(serving, second, arrivals) for second, arrivals in enumerate(seconds)]
    while serving.inflight["r0"]:
        shown.append(advance(serving, len(shown)))
    assert total(shown, "completions") == len(requests)
    per_token = [(one.ended_s - one.first_token_s) / (one.output - 1) for one in requests]
    expected = {
        "e2e_ms": np.mean([one.ended_s - one.arrived_s for one in requests]),
        "tpot_ms": np.mean(per_token),
        "ttft_ms": np.mean([one.first_token_s - one.arrived_s for one in requests]),
    }
    for name, tolerance in (("e2e_ms", 0.04), ("tpot_ms", 0.04), ("ttft_ms", 0.25)):
        assert mean_ms(shown, name) == pytest.approx(float(expected[name]) * 1000, rel=tolerance), name
