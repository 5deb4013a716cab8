"""What a partition's controller hands out, and what it counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from records.decisions import ScalingDecision
from records.memory import ControllerMemory
from records.signals import EndpointSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class TickEffects:
    """All that one tick of one endpoint leaves, written together or not at all.

    `decisions` is empty while ticks are skipped after an outage.
    """

    endpoint: str
    at_s: int
    signal: EndpointSignal
    decisions: tuple[ScalingDecision, ...]
    memory: ControllerMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSize:
    """What one partition's windows hold: series, and bytes; `sources_off` counts clocks that are off, by what is done
    about them."""

    series: int = 0
    window_bytes: int = 0
    sources_off: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PolicyDeleted:
    """A tombstone on `policies`."""

    endpoint: str


class Count(StrEnum):
    """What became of input rows that were not simply taken."""

    LATE = "late"
    """Older than every window that will still be read."""
    DUPLICATE = "duplicate"
    REPLACED = "replaced"
    WRONG_PARTITION = "wrong_partition"
    NO_POLICY = "no_policy"
    TOO_FAR_AHEAD = "too_far_ahead"
    UNATTRIBUTED = "unattributed"
    """An engine's sample that names no replica."""
    TOO_MANY_SERIES = "too_many_series"
    """A sample of a series for which its endpoint has no room: see streams.endpoints.intake."""
    TOO_MANY_BOUNDS = "too_many_bounds"
    """A histogram whose bounds are one set too many for its endpoint and field; the rest of its sample counts."""
    TOO_MANY_REPLICAS = "too_many_replicas"
    TOO_MANY_GPUS = "too_many_gpus"
    UNKNOWN_DECISION = "unknown_decision"
    """An outcome of a decision that is not remembered."""


@dataclass(slots=True)
class Counts:
    """Rows by what became of them, since the controller was made; `rows` counts all that were fed."""

    rows: int = 0
    by_kind: dict[Count, int] = field(default_factory=lambda: dict.fromkeys(Count, 0))

    def add(self, kind: Count, rows: int) -> None:
        self.by_kind[kind] += rows

    def __getitem__(self, kind: Count) -> int:
        return self.by_kind[kind]
