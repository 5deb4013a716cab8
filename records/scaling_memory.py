"""What horizontal scaling remembers between ticks."""

import msgspec

from records.enums import ScalingAction
from records.fields import Count, Digest, Second


class Recommendation(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The replicas that the up window's metrics proposed at one tick."""

    at_s: Second
    replicas: Count


class PendingDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The last decision that was no hold; `applied` once a TargetObserved or an Outcome showed it."""

    decision_id: Digest
    at_s: Second
    action: ScalingAction
    current: Count
    desired: Count
    applied: bool = False


class ScalingMemory(msgspec.Struct, frozen=True, kw_only=True):
    previous_id: Digest | None = None
    recommendations: tuple[Recommendation, ...] = ()
    pending: PendingDecision | None = None
