"""Runs of simulated replicas that check, after every second, what always holds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from records.enums import Source
from records.telemetry import RequestSample
from simulation.engine_model import ENGINE_MODELS, EngineModel
from simulation.serving.replicas import ServingReplicas
from simulation.serving.second import SecondOfServing
from simulation.traffic import Arrivals, Lengths, Patience, Quantiles, RateProfile, Traffic
from tests.simulation.conservation import violations

H100 = ENGINE_MODELS["llama-3.1-8b/H100"]
START_S = 1_700_000_000
IDLE = Arrivals.none()


def small(**changes: Any) -> EngineModel:
    """The 8B on an H100 with other limits; a KV cache too small for its context shortens that."""
    tokens = changes.get("kv_cache_tokens", H100.kv_cache_tokens)
    return replace(H100, **{"context_tokens_max": min(H100.context_tokens_max, tokens // 16 * 16), **changes})


def fleet(model: EngineModel = H100, replicas: int = 1, seed: int = 1, **limits: int) -> ServingReplicas:
    """Replicas r0, r1 and so on, idle."""
    serving = ServingReplicas(model, np.random.default_rng(seed), **limits)
    for number in range(replicas):
        serving.add(f"r{number}")
    return serving


def steady(rate: float, prompt: float = 500, output: float = 100, patience: Patience | None = None) -> Traffic:
    """Requests of one length at one rate."""
    return Traffic(
        rate=RateProfile(points=((0.0, rate),)),
        lengths=Lengths(input_tokens=Quantiles.constant(prompt), output_tokens=Quantiles.constant(output)),
        patience=patience or Patience(),
    )


def alike(
    count: int, prompt: int = 500, output: int = 100, at_s: float = 0.0, patience_s: float = math.inf
) -> Arrivals:
    """Requests of one length at one moment."""
    return Arrivals.of([(at_s, prompt, 0, output, patience_s)] * count)


def advance(serving: ServingReplicas, second: int, arrivals: Arrivals = IDLE) -> SecondOfServing:
    """One second, after which everything still holds."""
    shown = serving.advance(START_S + second, arrivals)
    assert violations(serving) == ()
    return shown


def run(serving: ServingReplicas, traffic: Traffic, seconds: Iterable[int], seed: int = 2) -> list[SecondOfServing]:
    """Several seconds of traffic."""
    rng = np.random.default_rng(seed)
    return [advance(serving, second, traffic.draw(second, rng)) for second in seconds]


def total(seconds: Sequence[SecondOfServing], name: str) -> int:
    """A count over all replicas and seconds."""
    return sum(int(one.counts[name].sum()) for one in seconds)


def mean(seconds: Sequence[SecondOfServing], name: str) -> float:
    """A gauge summed over the replicas, its mean over the seconds."""
    return float(np.mean([one.gauges[name].sum() for one in seconds]))


def mean_ms(seconds: Sequence[SecondOfServing], name: str) -> float:
    """The mean of a latency over all requests that finished that phase."""
    count = sum(int(one.latencies[name].counts.sum()) for one in seconds)
    return sum(float(one.latencies[name].sums_ms.sum()) for one in seconds) / count


def samples(shown: SecondOfServing, endpoint: str = "chat") -> list[RequestSample]:
    """A second as it is reported: of each replica, and the gateway's."""
    of_engines = [
        RequestSample(
            endpoint=endpoint,
            replica=name,
            at_s=shown.second,
            source=Source.ENGINE,
            epoch="e1",
            **shown.fields_of(row),
        )
        for row, name in enumerate(shown.replicas)
    ]
    gateway = RequestSample(
        endpoint=endpoint,
        replica="",
        at_s=shown.second,
        source=Source.ROUTER,
        epoch="e1",
        reporter="gateway",
        **shown.gateway.fields(),
    )
    return [*of_engines, gateway]
