"""What stands in the log, as plain values; every number of a sample is a whole one or a Fraction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

ENGINE, ROUTER = "engine", "router"

COUNT_NAMES = (
    "arrivals",
    "completions",
    "errors",
    "rejections",
    "aborted",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
)
GAUGE_NAMES = ("running", "running_max", "waiting", "active_sessions")
SHARE_NAMES = ("kv_cache_usage", "cpu", "streamed_fraction")
SCALAR_NAMES = (*COUNT_NAMES, *GAUGE_NAMES, *SHARE_NAMES)
HISTOGRAM_NAMES = ("ttft_ms", "e2e_ms")

Identity = tuple[str, str, str, str]
"""replica, epoch, source, reporter (the replica itself where a sample names none)"""
SourceName = tuple[str, str, str]
"""replica, source, reporter"""
Speaker = tuple[str, str | None]
"""replica, and the reporter where the replica is ""."""


@dataclass(frozen=True)
class Histogram:
    """Counts by bucket; `raw` has the values that were counted, where their reporter is known to have seen them."""

    bounds: tuple[Fraction, ...]
    counts: tuple[int, ...]
    sum: Fraction | None
    raw: tuple[Fraction, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One row of telemetry.requests; `received_s` null where it does not say when it was received."""

    endpoint: str
    replica: str
    source: str
    at_s: int
    received_s: Fraction | None = None
    epoch: str = ""
    seq: int = 0
    reporter: str | None = None
    scalars: Mapping[str, int | Fraction] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        return (self.replica, self.epoch, self.source, self.replica if self.reporter is None else self.reporter)

    @property
    def name(self) -> SourceName:
        return (self.replica, self.source, self.replica if self.reporter is None else self.reporter)

    @property
    def speaker(self) -> Speaker:
        return (self.replica, None) if self.replica else ("", self.reporter or "")


@dataclass(frozen=True)
class Message:
    """One message of telemetry.requests: a record, or a frame of many rows; it is read whole or not at all."""

    offset: int
    stamped_s: Fraction
    samples: tuple[Sample, ...]
    is_frame: bool = False

    def received_s(self, sample: Sample) -> Fraction:
        """Nothing is received after Kafka has it."""
        return self.stamped_s if sample.received_s is None else min(sample.received_s, self.stamped_s)


@dataclass(frozen=True)
class Change:
    """One record of telemetry.replicas."""

    endpoint: str
    replica: str
    at_s: int
    state: str
    received_s: Fraction


@dataclass(frozen=True)
class Clock:
    """Everything was read up to a time."""

    now_s: Fraction


Entry = Message | Change | Clock


@dataclass(frozen=True)
class Metric:
    """`fraction` is that of a percentile; null for metrics that have none. `key` names it in a signal."""

    name: str
    key: str
    fraction: Fraction | None = None


@dataclass(frozen=True)
class Policy:
    endpoint: str
    metrics: tuple[Metric, ...]
    up_s: int = 20
    down_s: int = 300
    patience_s: int = 600
