"""The worker's cross-checks find nothing at replicas that are well, whatever their load does."""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pytest

from records.enums import ValueState
from records.signals import SignalValue
from records.telemetry import RequestSample
from simulation.serving.replicas import ServingReplicas
from simulation.traffic import Lengths, Patience, Quantiles, RateProfile, Traffic
from tests.simulation.serving_runs import advance, samples, small
from tests.streams.controller.line import Line, policy, run

SECONDS = 60
METRICS = [{"name": "inflight_requests"}, {"name": "queue_depth"}, {"name": "ttft"}, {"name": "throughput_per_replica"}]

BURSTS = RateProfile(points=((0, 2.0), (20, 2.0), (20.5, 250.0), (30, 250.0), (30.5, 1.0), (45, 60.0)), burstiness=3.0)
LENGTHS = Lengths(
    input_tokens=Quantiles(fractions=(0, 0.5, 1), values=(1, 300, 4000)),
    output_tokens=Quantiles(fractions=(0, 0.5, 1), values=(1, 40, 500)),
)


def reported(seed: int) -> Iterator[list[RequestSample]]:
    """Bursts that overrun small replicas, with preemptions and clients that go; replicas come, drain, leave and are
    slow."""
    rng = np.random.default_rng(seed)
    traffic = Traffic(rate=BURSTS, lengths=LENGTHS, patience=Patience(median_s=12, spread=1.0))
    serving = ServingReplicas(small(kv_cache_tokens=16_384, max_num_seqs=32, waiting_max=40), rng)
    serving.add("r0")
    serving.add("r1")
    for second in range(SECONDS):
        if second == 24:
            serving.add("r2")
        if second == 26:
            serving.slow("r2", 2.5)
        if second == 40:
            serving.drain("r0")
        if "r0" in serving.names and not serving.inflight["r0"] and second > 40:
            serving.remove("r0")
        yield samples(advance(serving, second, traffic.draw(second, rng)))


def values_of(seed: int, change: Callable[[RequestSample], RequestSample] = lambda one: one) -> list[SignalValue]:
    """A worker's values at all ticks, over all windows."""
    line = Line()
    for second in reported(seed):
        line.samples(map(change, second))
    return [
        value
        for made in run(line, policy(metrics=METRICS))
        for window in made.signal.windows.values()
        for value in window.values()
    ]


def failed(values: list[SignalValue]) -> list[str | None]:
    """The cross-checks that are named."""
    return [value.check for value in values if value.state is ValueState.SUSPECT]


@pytest.mark.parametrize("seed", [61, 62], ids=lambda seed: f"seed={seed}")
def test_a_healthy_replica_passes_all_cross_checks(seed: int) -> None:
    values = values_of(seed)
    assert failed(values) == []
    assert sum(value.state is ValueState.FRESH and bool(value.value) for value in values) > 20


def test_a_replica_that_loses_count_does_not() -> None:
    def halve(one: RequestSample) -> RequestSample:
        return msgspec.structs.replace(one, completions=(one.completions or 0) // 2)

    assert "conservation" in failed(values_of(61, halve))
