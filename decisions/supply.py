"""Step 3: which replicas are supply, and why there may be fewer of them than were asked for."""

from records.decisions import Supply
from records.enums import ScalingReason
from records.signals import SupplySignal

GIVEN_UP_STARTS = 3
"""Failed starts without a `ready` after which a replica is no supply (decisions.md, step 3)."""


def count_supply(signal: SupplySignal) -> Supply:
    """Count replicas by state; those that start for longer than the start-up p95 are left out of `starting`.

    `ready` and `draining` are two states of a replica, so nothing is subtracted: supply is ready + starting.
    """
    overdue = sum(replica.age_s >= signal.startup_p95_s for replica in signal.starting_replicas)
    return Supply(
        ready=signal.ready,
        starting=max(0, signal.starting - overdue),
        draining=signal.draining,
        unschedulable=signal.unschedulable,
        failed=signal.failed,
    )


def has_given_up(signal: SupplySignal) -> bool:
    """Tell whether asking for more is useless: starts fail, and at least as many replicas fail as are ready.

    One replica that fails among many that serve does not keep a loaded fleet from growing.
    """
    return signal.failed_starts >= GIVEN_UP_STARTS and signal.failed >= max(1, signal.ready)


def shortage_reason(signal: SupplySignal, supply: Supply, wanted: int) -> ScalingReason:
    """Name why a fleet whose target is large enough for `wanted` is not yet: what is missing is not asked for again."""
    if wanted <= supply.ready:
        return ScalingReason.WITHIN_TARGET
    if wanted <= supply.ready + supply.starting:
        return ScalingReason.STARTING
    if supply.unschedulable:
        return ScalingReason.UNSCHEDULABLE
    if signal.failed_starts >= GIVEN_UP_STARTS and supply.failed:
        return ScalingReason.FAILED_STARTS
    return ScalingReason.STARTING if signal.starting or signal.failed else ScalingReason.WITHIN_TARGET
