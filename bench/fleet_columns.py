"""Samples of a large fleet as columns: each second has other values, made by array operations.

What is inside a replica is what was there, and what came, less what left: a fleet that does not conserve its requests
would have all its values suspect, and nothing be decided on them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from records.enums import Source
from streams.windows.buckets import BUCKET, set_column
from streams.windows.columns import SampleColumns
from streams.windows.identities import Identities

Numbers = NDArray[np.float64] | NDArray[np.int64]

EPOCH = "6f1c2b34-9d5e-4a70-8f21/0"


@dataclass
class FleetColumns:
    """Lean samples of `replicas` replicas of each of `endpoints`, one second of all of them at a time."""

    endpoints: tuple[str, ...]
    replicas: int
    seed: int

    def __post_init__(self) -> None:
        self._chance = np.random.default_rng(self.seed)
        self._identities = Identities.of(
            (endpoint, f"{endpoint}-{number:03d}", EPOCH, Source.ENGINE.value, None)
            for endpoint in self.endpoints
            for number in range(self.replicas)
        )
        self._numbers = FleetNumbers(self._chance, len(self._identities))

    def of_second(self, at_s: int) -> SampleColumns:
        """The next second: its samples were received up to half a second after it ended."""
        size = len(self._identities)
        buckets = np.zeros(size, BUCKET)
        buckets["seq"] = at_s
        for name, values in self._numbers.of_next_second().items():
            set_column(buckets, name, values)
        return SampleColumns(
            identities=self._identities,
            at_s=np.full(size, at_s, np.int64),
            received_s=np.sort(at_s + 1 + self._chance.random(size) / 2),
            buckets=buckets,
            histograms={},
        )


class FleetNumbers:
    """What `size` replicas have to report of their seconds, one after the other."""

    def __init__(self, chance: np.random.Generator, size: int) -> None:
        self._chance, self._size = chance, size
        self._inside = np.zeros(size)

    def of_next_second(self) -> dict[str, Numbers]:
        """Scalar fields by name, (size,) each."""
        chance, size = self._chance, self._size
        arrivals = chance.integers(0, 20, size)
        there = self._inside + arrivals
        completions = np.round(there * (0.4 + 0.3 * chance.random(size)))
        self._inside = there - completions
        waiting = np.round(self._inside * 0.3 * chance.random(size), 2)
        running = self._inside - waiting
        return {
            "arrivals": arrivals,
            "completions": completions,
            "running": running,
            "running_max": running + 1,
            "waiting": waiting,
            "input_tokens": arrivals * chance.integers(200, 2000, size),
            "cached_tokens": arrivals * chance.integers(0, 100, size),
            "output_tokens": chance.integers(0, 4000, size),
            "steps": chance.integers(20, 60, size),
            "arrived_input_tokens": arrivals * 900,
            "arrived_output_tokens_estimate": arrivals * 210.0,
            "kv_cache_usage": np.round(chance.random(size), 4),
            "concurrency_limit": np.full(size, 64.0),
            "active_sessions": np.round(running * 2, 1),
            "cpu": np.round(chance.random(size), 3),
            "streamed_fraction": np.ones(size),
        }
