"""What horizontal scaling remembers of one endpoint between ticks; written every tick, so it is kept small."""

from typing import Annotated

import msgspec
from msgspec import Meta

from records.enums import ScalingAction
from records.fields import Count, Digest, Second

IdPrefix = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
"""The first 64 bits of a decision's id: enough to know it again among a dozen."""


class Recommendation(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The replicas that the up window's metrics proposed at one tick, before any bound."""

    at_s: Second
    replicas: Count


class PendingDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The last decision that was no hold, with the id and tick of the first of its repeats.

    `applied` once a TargetObserved or an Outcome showed it.
    """

    decision_id: Digest
    at_s: Second
    action: ScalingAction
    current: Count
    desired: Count
    applied: bool = False


class MadeDecision(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A decision that is no hold and that an outcome or the target may still show; repeats are separate ones."""

    at_s: Second
    desired: Count
    id_prefix: IdPrefix


class ScalingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """`recommendations` holds only those that can still be the largest of the down window: each is larger than all
    later ones, so the first is the window's largest, and a steady load keeps one.

    `made` holds the decisions of the last 60 s that an actuator may have carried out. `evidence_from_s` is the first
    tick since when every tick was decided and no configured signal was away; null before the first tick and after an
    outage. `spec_seen` is the newest spec_replicas seen; `manual_from_s` the tick at which a change of it by someone
    else was seen, while that is respected.
    """

    previous_id: Digest | None = None
    recommendations: tuple[Recommendation, ...] = ()
    pending: PendingDecision | None = None
    made: tuple[MadeDecision, ...] = ()
    evidence_from_s: Second | None = None
    spec_seen: Count | None = None
    manual_from_s: Second | None = None
