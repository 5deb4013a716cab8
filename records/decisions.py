"""What was decided, and why. `decision_id` is the SHA-256 of the record's canonical JSON without it.

`previous_id` makes a chain of the decisions of one endpoint and topic; it is null at the first.
"""

import msgspec

from records.enums import (
    MetricName,
    Mode,
    Percentile,
    Role,
    ScalingAction,
    ScalingBound,
    ScalingReason,
    ValueState,
)
from records.fields import Count, Digest, Fraction, Name, Second


class Candidate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one metric over one window proposed, before any bound.

    `observed` and `proposed` are null unless `state` is fresh or partial. `rejected_because` is null for the
    candidate that decided.
    """

    metric: MetricName
    percentile: Percentile | None
    window_s: int
    observed: float | None
    state: ValueState
    coverage: Fraction
    target: float | None
    proposed: Count | None
    rejected_because: str | None


class Floors(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Least replicas by each reason, null where one does not apply."""

    minimum: Count | None
    schedule: Count | None = None
    forecast: Count | None = None
    provisioned: Count | None = None


class Supply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Replicas by state; `starting` holds only those that are still expected to become ready."""

    ready: Count
    starting: Count
    draining: Count
    unschedulable: Count
    failed: Count


class Victim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    replica: Name
    inflight: float | None
    reason: str


class RoleScaling(msgspec.Struct, frozen=True, kw_only=True):
    role: Role
    current: Count
    desired: Count


class SkippedTicks(msgspec.Struct, frozen=True, kw_only=True):
    """Ticks for which no decision was made because the pipeline was away; both ends belong to it."""

    first_tick: Second
    last_tick: Second


class ScalingDecision(msgspec.Struct, frozen=True, kw_only=True):
    """How many replicas one endpoint shall have from the tick `at_s` on. A hold has `desired = current`."""

    endpoint: Name
    at_s: Second
    decision_id: Digest
    previous_id: Digest | None
    policy_hash: Digest
    mode: Mode
    action: ScalingAction
    reason: ScalingReason
    bound: ScalingBound | None
    detail: str
    current: Count
    desired: Count
    candidates: tuple[Candidate, ...]
    floors: Floors
    supply: Supply
    gpus: Count | None
    victims: tuple[Victim, ...] = ()
    drain_deadline_s: float | None = None
    roles: tuple[RoleScaling, ...] | None = None
    skipped: SkippedTicks | None = None
