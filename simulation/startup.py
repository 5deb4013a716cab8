"""How long a replica takes from its container's start until it serves.

Source: start-up parts of vLLM with Llama 3 70B on four H100 (a published comparison, anyscale, October 2025): reading
the weights, then making the engine (which compiles and captures graphs).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

_P95 = 1.6448536269514722
"""The standard normal distribution's 95th percentile."""

SPREAD = 0.15
"""Standard deviation of the logarithm: most starts within 30 % of the median. The source gives one run of each kind, so
this is an assumption: shared storage and networks vary by about as much."""


SPREAD_MAX = 2.0
"""Beyond it the 95th percentile is more than 25 times the median, which no start or client shows."""


@dataclass(frozen=True, kw_only=True)
class StartupModel:
    """Log-normal: half of the starts take less than `median_s`; `spread` is the logarithm's standard deviation."""

    median_s: float
    spread: float = SPREAD

    def __post_init__(self) -> None:
        if not 0 < self.median_s < math.inf:
            raise ValueError(f"median_s must be above 0, got {self.median_s}")
        if not 0 <= self.spread <= SPREAD_MAX:
            raise ValueError(f"spread must be in 0..{SPREAD_MAX:g}, got {self.spread}")

    def draw(self, rng: np.random.Generator) -> float:
        """Seconds of one start."""
        return self.median_s * math.exp(self.spread * rng.standard_normal())

    @property
    def p95_s(self) -> float:
        """95 % of the starts take less: exactly, by the distribution."""
        return self.median_s * math.exp(self.spread * _P95)


STARTUP_MODELS: Mapping[str, StartupModel] = MappingProxyType(
    {
        "baseline": StartupModel(median_s=213.5 + 91.8),
        "compile-cache": StartupModel(median_s=233.1 + 44.6),
        "streamed": StartupModel(median_s=92.1 + 91.1),
        "sharded": StartupModel(median_s=27.2 + 92.1),
        "sharded+compile-cache": StartupModel(median_s=27.5 + 38.1),
    }
)
"""Medians are weights + engine as published, s. `baseline` downloads the weights; `streamed` reads them from object
storage while they load, `sharded` each GPU its own part; `compile-cache` finds its compiled graphs on disk."""
