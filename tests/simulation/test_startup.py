"""How long replicas take to start."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from simulation.startup import STARTUP_MODELS, StartupModel

STRATEGIES = {
    "baseline": "baseline(HF download)",
    "compile-cache": "compile_cache",
    "streamed": "runai_streamer(S3)",
    "sharded": "runai_streamer_sharded(S3)",
    "sharded+compile-cache": "sharded+compile_cache",
}


@pytest.mark.parametrize("name", STARTUP_MODELS)
def test_the_medians_are_the_published_parts(name: str, recordings: Path) -> None:
    with (recordings / "replicas" / "cold_start_h100.csv").open() as lines:
        rows = [row for row in csv.DictReader(lines) if (row["tp"], row["strategy"]) == ("4", STRATEGIES[name])]
    (row,) = rows
    assert STARTUP_MODELS[name].median_s == pytest.approx(float(row["model_load_s"]) + float(row["init_engine_s"]))


@pytest.mark.parametrize("seed", [41, 42], ids=lambda seed: f"seed={seed}")
@pytest.mark.parametrize("name", STARTUP_MODELS)
def test_half_and_nineteen_of_twenty_starts_take_less(name: str, seed: int) -> None:
    model, rng = STARTUP_MODELS[name], np.random.default_rng(seed)
    drawn = np.array([model.draw(rng) for _ in range(4000)])
    assert np.mean(drawn < model.median_s) == pytest.approx(0.5, abs=0.03)
    assert np.mean(drawn < model.p95_s) == pytest.approx(0.95, abs=0.015)


def test_without_spread_all_starts_are_alike() -> None:
    model = StartupModel(median_s=30, spread=0)
    assert {model.draw(np.random.default_rng(seed)) for seed in range(5)} == {30.0}
    assert model.p95_s == 30


@pytest.mark.parametrize(
    ("median_s", "spread", "message"),
    [
        (0.0, 0.1, "median_s must be above 0, got 0.0"),
        (math.nan, 0.1, "median_s must be above 0, got nan"),
        (30.0, -0.1, "spread must be in 0..2, got -0.1"),
        (30.0, 3.0, "spread must be in 0..2, got 3.0"),
    ],
)
def test_what_no_start_can_be_is_refused(median_s: float, spread: float, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        StartupModel(median_s=median_s, spread=spread)
