"""Runs of simulated replicas that check, after every second, what always holds."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from simulation.engine_model import ENGINE_MODELS, EngineModel
from simulation.serving.conservation import violations
from simulation.serving.replicas import ServingReplicas
from simulation.serving.second import SecondOfServing
from simulation.traffic import Arrivals, Lengths, Patience, Quantiles, RateProfile, Traffic

H100 = ENGINE_MODELS["llama-3.1-8b/H100"]
START_S = 1_700_000_000


def small(**changes: object) -> EngineModel:
    """The 8B on an H100 with other limits."""
    return replace(H100, **changes)  # type: ignore[arg-type]  # names and types as in EngineModel


def fleet(model: EngineModel = H100, replicas: int = 1, seed: int = 1) -> ServingReplicas:
    """Replicas r0, r1 and so on, idle."""
    serving = ServingReplicas(model, np.random.default_rng(seed))
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


def advance(serving: ServingReplicas, second: int, arrivals: Arrivals) -> SecondOfServing:
    """One second, after which everything still holds."""
    shown = serving.advance(START_S + second, arrivals)
    assert violations(serving) == ()
    return shown


def run(serving: ServingReplicas, traffic: Traffic, seconds: Iterable[int], seed: int = 2) -> list[SecondOfServing]:
    """Several seconds of traffic."""
    rng = np.random.default_rng(seed)
    return [advance(serving, second, traffic.draw(second, rng)) for second in seconds]
