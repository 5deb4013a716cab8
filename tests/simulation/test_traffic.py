"""Made-up requests have the rates and lengths that were asked for."""

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulation.traffic import LENGTHS, Arrivals, Lengths, Patience, Quantiles, RateProfile, Traffic

SEEDS = pytest.mark.parametrize("seed", [51, 52], ids=lambda seed: f"seed={seed}")
CHAT = LENGTHS["conversation"]


def drawn(traffic: Traffic, seconds: int, seed: int) -> list[Arrivals]:
    rng = np.random.default_rng(seed)
    return [traffic.draw(second, rng) for second in range(seconds)]


@SEEDS
def test_a_ramp_has_its_rate_at_each_second(seed: int) -> None:
    traffic = Traffic(rate=RateProfile(points=((10, 100.0), (30, 1000.0))), lengths=CHAT)
    counts = np.array([len(one) for one in drawn(traffic, 40, seed)])
    expected = np.interp(np.arange(40) + 0.5, [10, 30], [100, 1000])
    assert (np.abs(counts - expected) < 4.5 * np.sqrt(expected)).all()
    assert counts.sum() == pytest.approx(expected.sum(), rel=0.03)


@pytest.mark.parametrize("burstiness", [5e-324, 1e-300, 1e-9])
def test_the_least_burstiness_is_none(burstiness: float) -> None:
    bursty = Traffic(rate=RateProfile(points=((0, 100.0),), burstiness=burstiness), lengths=CHAT)
    steady = Traffic(rate=RateProfile(points=((0, 100.0),)), lengths=CHAT)
    assert [len(one) for one in drawn(bursty, 3, 51)] == [len(one) for one in drawn(steady, 3, 51)]


@SEEDS
@pytest.mark.parametrize("burstiness", [0.0, 0.5, 4.0])
def test_the_spread_of_counts_is_that_of_a_gamma_poisson(burstiness: float, seed: int) -> None:
    """Of a tenth of a second: 1 + b x the expectation; of a second the same, its tenths being independent."""
    traffic = Traffic(rate=RateProfile(points=((0, 100.0),), burstiness=burstiness), lengths=CHAT)
    seconds = drawn(traffic, 400, seed)
    tenths = np.concatenate([np.histogram(one.offset_s, np.arange(11) / 10)[0] for one in seconds])
    whole = np.array([len(one) for one in seconds])
    assert tenths.mean() == pytest.approx(10, rel=0.12)
    assert tenths.var() / tenths.mean() == pytest.approx(1 + 10 * burstiness, rel=0.2)
    assert whole.var() / whole.mean() == pytest.approx(1 + 10 * burstiness, rel=0.3)


@SEEDS
def test_offsets_are_in_order_and_within_the_second(seed: int) -> None:
    for one in drawn(Traffic(rate=RateProfile(points=((0, 500.0),), burstiness=1.0), lengths=CHAT), 20, seed):
        assert (np.diff(one.offset_s) >= 0).all()
        assert (one.offset_s >= 0).all()
        assert (one.offset_s < 1).all()


@SEEDS
@pytest.mark.parametrize(("name", "file"), [("conversation", "conv"), ("code", "code")])
def test_lengths_are_distributed_as_in_the_trace(name: str, file: str, seed: int, recordings: Path) -> None:
    with (recordings / "azure-llm-2023" / f"AzureLLMInferenceTrace_{file}.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    requests = drawn(Traffic(rate=RateProfile(points=((0, 500.0),)), lengths=LENGTHS[name]), 40, seed)
    for column, field in (("ContextTokens", "input_tokens"), ("GeneratedTokens", "output_tokens")):
        traced = np.array([float(row[column]) for row in rows])
        made = np.concatenate([getattr(one, field) for one in requests])
        for fraction in (0.05, 0.25, 0.5, 0.75, 0.9, 0.95):
            assert np.quantile(made, fraction) == pytest.approx(np.quantile(traced, fraction), rel=0.08, abs=1.5)
        assert made.min() >= 1
        # Straight lines between the quantiles: the mean is off by what lies between them.
        assert made.mean() == pytest.approx(getattr(LENGTHS[name], field).mean, rel=0.05)
        assert made.mean() == pytest.approx(traced.mean(), rel=0.12)


@SEEDS
def test_cached_tokens_are_whole_blocks_and_never_all(seed: int) -> None:
    lengths = Lengths(
        input_tokens=Quantiles(fractions=(0, 1), values=(1, 400)),
        output_tokens=Quantiles.constant(1),
        cached_share=Quantiles(fractions=(0, 0.4, 1), values=(0, 0, 1)),
    )
    requests = drawn(Traffic(rate=RateProfile(points=((0, 300.0),)), lengths=lengths), 10, seed)
    prompt = np.concatenate([one.input_tokens for one in requests])
    cached = np.concatenate([one.cached_tokens for one in requests])
    assert (cached % 16 == 0).all()
    assert (cached < prompt).all()
    assert np.mean(cached == 0) > 0.4
    assert cached.sum() / prompt.sum() == pytest.approx(0.3, abs=0.06)


@SEEDS
def test_half_of_the_clients_wait_for_the_median(seed: int) -> None:
    traffic = Traffic(rate=RateProfile(points=((0, 500.0),)), lengths=CHAT, patience=Patience(median_s=20))
    waits = np.concatenate([one.patience_s for one in drawn(traffic, 10, seed)])
    assert np.median(waits) == pytest.approx(20, rel=0.03)
    assert waits.min() > 0


def test_without_patience_given_clients_wait_for_ever() -> None:
    (one,) = drawn(Traffic(rate=RateProfile(points=((0, 50.0),)), lengths=CHAT), 1, 1)
    assert np.isinf(one.patience_s).all()


@SEEDS
def test_the_same_seed_gives_the_same_requests(seed: int) -> None:
    traffic = Traffic(
        rate=RateProfile(points=((0, 50.0),), burstiness=1.0), lengths=CHAT, patience=Patience(median_s=9)
    )

    def as_bytes(seed: int) -> list[bytes]:
        return [b"".join(column.tobytes() for column in vars(one).values()) for one in drawn(traffic, 5, seed)]

    assert as_bytes(seed) == as_bytes(seed)
    assert as_bytes(seed) != as_bytes(seed + 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RateProfile(points=()), "points must be one or more, got none"),
        (lambda: RateProfile(points=((5, 1.0), (5, 2.0))), "points must rise in time, got ((5, 1.0), (5, 2.0))"),
        (lambda: RateProfile(points=((0, -1.0),)), "points must be finite, with rates of at least 0, got (0, -1.0)"),
        (lambda: RateProfile(points=((0, math.nan),)), "points must be finite, with rates of at least 0, got (0, nan)"),
        (lambda: RateProfile(points=((0, 1.0),), burstiness=-1), "burstiness must be at least 0, got -1"),
        (lambda: Patience(median_s=0), "median_s must be above 0, got 0"),
        (lambda: Patience(median_s=5, spread=9), "spread must be in 0..2, got 9"),
        (lambda: Quantiles(fractions=(0, 1), values=(1,)), "fractions and values must be two or more, and as many"),
        (lambda: Quantiles(fractions=(0.1, 1), values=(1, 2)), "fractions must go from 0 to 1, got 0.1 to 1"),
        (lambda: Quantiles(fractions=(0, 0.5, 0.5, 1), values=(1, 2, 3, 4)), "fractions must rise"),
        (lambda: Quantiles(fractions=(0, 1), values=(2, 1)), "values must be finite, at least 0 and not fall"),
        (lambda: Quantiles(fractions=(0, 1), values=(1, math.inf)), "values must be finite, at least 0 and not fall"),
        (
            lambda: Lengths(input_tokens=Quantiles.constant(0), output_tokens=Quantiles.constant(1)),
            "input_tokens must be at least 1, got 0",
        ),
        (
            lambda: Lengths(
                input_tokens=Quantiles.constant(9),
                output_tokens=Quantiles.constant(1),
                cached_share=Quantiles.constant(1.5),
            ),
            "cached_share must be in 0..1, got 1.5",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_traffic_can_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the message is compared below
        make()
    assert str(refused.value).startswith(message)
