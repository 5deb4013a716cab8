"""What a second of serving shows: the columns of RequestSamples, of GpuSamples, and of the gateway's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from records.histogram import Histogram
from simulation.arrays import Floats, Ints

COUNTS = (
    "arrivals",
    "completions",
    "errors",
    "rejections",
    "aborted",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "steps",
    "arrived_input_tokens",
    "preemptions",
)
"""The counters of a replica, named as RequestSample's fields."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LatencyColumns:
    """A histogram of each replica: `counts` (replicas, bounds + 1), `sums_ms` (replicas,)."""

    bounds_ms: tuple[float, ...]
    counts: Ints
    sums_ms: Floats

    def of(self, row: int) -> Histogram:
        """The record's value of one replica."""
        return Histogram(
            explicit_bounds=self.bounds_ms,
            bucket_counts=tuple(self.counts[row].tolist()),
            sum=float(self.sums_ms[row]),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class GpuColumns:
    """Of each GPU of each replica (all GPUs of a replica are alike), shape (replicas,)."""

    gpu_utilization: Floats
    sm_active: Floats
    tensor_active: Floats
    dram_active: Floats
    memory_used_bytes: int
    memory_total_bytes: int
    power_w: Floats
    temperature_c: Floats

    def fields_of(self, row: int) -> dict[str, Any]:
        """The measured fields of a GpuSample of one replica."""
        names = ("gpu_utilization", "sm_active", "tensor_active", "dram_active", "power_w", "temperature_c")
        fields: dict[str, Any] = {name: round(float(getattr(self, name)[row]), 6) for name in names}
        return fields | {
            "memory_used_bytes": self.memory_used_bytes,
            "memory_total_bytes": self.memory_total_bytes,
            "xid": 0,
        }


@dataclass(frozen=True, kw_only=True)
class GatewaySecond:
    """Requests that no replica has yet; `forwarded` left for a replica in this second."""

    arrivals: int
    rejections: int
    aborted: int
    forwarded: int
    waiting: float
    arrived_input_tokens: int
    arrived_output_tokens_estimate: float | None

    def fields(self) -> dict[str, Any]:
        """The measured fields of the router's RequestSample with `replica: ""`."""
        return {
            "arrivals": self.arrivals,
            "completions": 0,
            "errors": 0,
            "rejections": self.rejections,
            "aborted": self.aborted,
            "running": 0.0,
            "waiting": self.waiting,
            "arrived_input_tokens": self.arrived_input_tokens,
            "arrived_output_tokens_estimate": self.arrived_output_tokens_estimate,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class SecondOfServing:
    """The second `[second, second + 1)` as replicas and gateway report it; columns are in the order of `replicas`.

    `counts` and `gauges` are keyed by RequestSample's field names, shape (replicas,): COUNTS, and `running`,
    `running_max`, `waiting`, `kv_cache_usage` and `arrived_output_tokens_estimate`, NaN: unknown. `running` and
    `waiting` are the mean of the readings at the second's two ends, so that their change fits the counts exactly
    wherever in the second a burst falls. A replica that hangs shows what its engine last said, and counts that stand
    still; the second in which it goes on has all that happened meanwhile. `inflight` is the truth.
    """

    second: int
    replicas: tuple[str, ...]
    counts: Mapping[str, Ints]
    gauges: Mapping[str, Floats]
    latencies: Mapping[str, LatencyColumns]
    gpus: GpuColumns
    gateway: GatewaySecond
    concurrency_limit: int
    inflight: Mapping[str, int]

    def fields_of(self, row: int) -> dict[str, Any]:
        """The measured fields of the engine's RequestSample of `replicas[row]`; what is unknown is left out."""
        fields: dict[str, Any] = {name: int(column[row]) for name, column in self.counts.items()}
        for name, column in self.gauges.items():
            if not np.isnan(column[row]):
                fields[name] = float(column[row])
        for name, histograms in self.latencies.items():
            fields[name] = histograms.of(row)
        return fields | {"deferred": 0.0, "concurrency_limit": float(self.concurrency_limit)}
