"""What is remembered of an endpoint's replicas and target, which telemetry of five minutes does not tell again."""

import msgspec

from records.enums import ReplicaState
from records.fields import Count, Label, Name, Natural, Second


class ReplicaMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A replica's newest epoch and state, and when each began, in event time."""

    replica: Name
    epoch: Label
    state: ReplicaState
    since_s: Second
    seq: Natural = 0
    requested_s: Second | None = None


class SupplyMemory(msgspec.Struct, frozen=True, kw_only=True):
    replicas: tuple[ReplicaMemory, ...] = ()
    starts_s: tuple[float, ...] = ()
    failed_starts: Count = 0
