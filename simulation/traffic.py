"""Made-up traffic: how many requests a second, how long they are, how long their clients wait."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from simulation.arrays import Floats, Ints
from simulation.engine_model import BLOCK_TOKENS
from simulation.startup import SPREAD_MAX

PARTS = 10
"""A second's bursts come in tenths of it."""
STEADY = 1e-9
"""A burstiness of up to so much is none: no rate is changed by a thousandth, and of the least ones the gamma
distribution's shape is infinite."""
PATIENCE_SPREAD = 0.3
"""Half of the clients within 20 % of the median: an assumption, as nobody publishes when clients give up."""


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """A distribution by its quantiles, straight between them: `values[i]` is that of `fractions[i]` (from 0 to 1)."""

    fractions: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.fractions) != len(self.values) or len(self.values) < 2:
            raise ValueError(
                f"fractions and values must be two or more, and as many, "
                f"got {len(self.fractions)} fractions and {len(self.values)} values"
            )
        if self.fractions[0] != 0 or self.fractions[-1] != 1:
            raise ValueError(f"fractions must go from 0 to 1, got {self.fractions[0]} to {self.fractions[-1]}")
        if any(not lower < upper for lower, upper in pairwise(self.fractions)):
            raise ValueError(f"fractions must rise, got {self.fractions}")
        if any(not lower <= upper < math.inf for lower, upper in pairwise((0.0, *self.values))):
            raise ValueError(f"values must be finite, at least 0 and not fall, got {self.values}")

    @classmethod
    def constant(cls, value: float) -> "Quantiles":
        """Always `value`."""
        return cls(fractions=(0.0, 1.0), values=(value, value))

    @property
    def mean(self) -> float:
        """The distribution's mean: each piece is uniform."""
        pieces = zip(pairwise(self.fractions), pairwise(self.values), strict=True)
        return math.fsum((f1 - f0) * (v0 + v1) / 2 for (f0, f1), (v0, v1) in pieces)

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """`count` values by inverse-transform sampling."""
        return np.interp(rng.random(count), self.fractions, self.values)


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Tokens of a request; the three are drawn independently of each other.

    `cached_share` (0..1) of the prompt is found in the prefix cache, in whole blocks and never all of it.
    """

    input_tokens: Quantiles
    output_tokens: Quantiles
    cached_share: Quantiles = field(default_factory=lambda: Quantiles.constant(0.0))

    def __post_init__(self) -> None:
        if self.cached_share.values[-1] > 1:
            raise ValueError(f"cached_share must be in 0..1, got {self.cached_share.values[-1]}")
        for name in ("input_tokens", "output_tokens"):
            if getattr(self, name).values[0] < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name).values[0]}")


@dataclass(frozen=True, kw_only=True)
class RateProfile:
    """Requests a second over time: `points` are (second from the start, requests/s), straight between them, the last
    rate from then on.

    `burstiness` b: in each tenth of a second the rate is multiplied by a gamma variate of mean 1 and variance b, so
    that the count of a span of expectation m has variance m (1 + b m / tenths of the span); 0 is a Poisson process.
    """

    points: tuple[tuple[float, float], ...]
    burstiness: float = 0.0

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("points must be one or more, got none")
        if any(not early[0] < late[0] for early, late in pairwise(self.points)):
            raise ValueError(f"points must rise in time, got {self.points}")
        for second, rate in self.points:
            if not (math.isfinite(second) and 0 <= rate < math.inf):
                raise ValueError(f"points must be finite, with rates of at least 0, got ({second}, {rate})")
        if not 0 <= self.burstiness < math.inf:
            raise ValueError(f"burstiness must be at least 0, got {self.burstiness}")

    def at(self, second: float | Floats) -> Floats:
        """Requests/s at `second`."""
        seconds, rates = zip(*self.points, strict=True)
        return np.asarray(np.interp(second, seconds, rates))


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a client waits for its whole answer before it goes away: log-normal as StartupModel; infinite: for
    ever."""

    median_s: float = math.inf
    spread: float = PATIENCE_SPREAD

    def __post_init__(self) -> None:
        if not self.median_s > 0:
            raise ValueError(f"median_s must be above 0, got {self.median_s}")
        if not 0 <= self.spread <= SPREAD_MAX:
            raise ValueError(f"spread must be in 0..{SPREAD_MAX:g}, got {self.spread}")

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Seconds of `count` clients."""
        if math.isinf(self.median_s):
            return np.full(count, math.inf)
        return self.median_s * np.exp(self.spread * rng.standard_normal(count))


@dataclass(frozen=True, eq=False, kw_only=True)
class Arrivals:
    """Requests of one second, in order of `offset_s` (0 to below 1, from the second's start). All of one length."""

    offset_s: Floats
    input_tokens: Ints
    cached_tokens: Ints
    output_tokens: Ints
    patience_s: Floats

    def __len__(self) -> int:
        return len(self.offset_s)

    @classmethod
    def none(cls) -> "Arrivals":
        """No requests."""
        whole, real = np.zeros(0, np.int64), np.zeros(0)
        return cls(offset_s=real, input_tokens=whole, cached_tokens=whole, output_tokens=whole, patience_s=real)

    @classmethod
    def of(cls, requests: Sequence[tuple[float, int, int, int, float]]) -> "Arrivals":
        """From rows (offset_s, input, cached, output tokens, patience_s), in order of their offset."""
        if not requests:
            return cls.none()
        offset, prompt, cached, output, patience = zip(*requests, strict=True)
        return cls(
            offset_s=np.array(offset, float),
            input_tokens=np.array(prompt, np.int64),
            cached_tokens=np.array(cached, np.int64),
            output_tokens=np.array(output, np.int64),
            patience_s=np.array(patience, float),
        )


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The requests to one endpoint."""

    rate: RateProfile
    lengths: Lengths
    patience: Patience = field(default_factory=Patience)

    def draw(self, second: int, rng: np.random.Generator) -> Arrivals:
        """The requests of `[second, second + 1)`, counted from the profile's start."""
        begins = np.arange(PARTS) / PARTS
        expected = self.rate.at(second + begins + 0.5 / PARTS) / PARTS
        if self.rate.burstiness > STEADY:
            expected = expected * rng.gamma(1 / self.rate.burstiness, self.rate.burstiness, PARTS)
        counts = rng.poisson(expected)
        count = int(counts.sum())
        offsets = np.sort(np.repeat(begins, counts) + rng.random(count) / PARTS)
        prompt = np.maximum(np.rint(self.lengths.input_tokens.draw(count, rng)), 1).astype(np.int64)
        output = np.maximum(np.rint(self.lengths.output_tokens.draw(count, rng)), 1).astype(np.int64)
        cached = np.minimum(prompt * self.lengths.cached_share.draw(count, rng), prompt - 1).astype(np.int64)
        return Arrivals(
            offset_s=np.minimum(offsets, np.nextafter(1.0, 0.0)),
            input_tokens=prompt,
            cached_tokens=cached // BLOCK_TOKENS * BLOCK_TOKENS,
            output_tokens=output,
            patience_s=self.patience.draw(count, rng),
        )


_FRACTIONS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.97, 0.99, 0.999, 1.0)


def _lengths(prompt: tuple[int, ...], output: tuple[int, ...]) -> Lengths:
    return Lengths(
        input_tokens=Quantiles(fractions=_FRACTIONS, values=prompt),
        output_tokens=Quantiles(fractions=_FRACTIONS, values=output),
    )


LENGTHS: Mapping[str, Lengths] = MappingProxyType(
    {
        "conversation": _lengths(
            prompt=(2, 29, 181, 207, 396, 703, 1020, 1071, 1189, 2734, 4083, 4090, 4142, 6179, 14050),
            output=(7, 16, 41, 54, 85, 103, 129, 177, 395, 424, 451, 509, 601, 954, 1000),
        ),
        "code": _lengths(
            prompt=(3, 17, 75, 147, 578, 1075, 1469, 1909, 2744, 5187, 7303, 7435, 7436, 7437, 7437),
            output=(6, 6, 6, 7, 9, 11, 13, 16, 24, 55, 90, 128, 251, 825, 1899),
        ),
    }
)
"""Quantiles of AzurePublicDataset's AzureLLMInferenceTrace 2023, conv and code (CC-BY-4.0; Patel et al., Splitwise,
ISCA 2024). The trace has no prefix cache. Input and output hardly correlate there (-0.11 and 0.00)."""
