"""An endpoint's replicas by state, as a signal tells of them."""

from records.enums import ReplicaState, SupplySource
from records.signals import StartingReplica, SupplySignal
from records.supply_memory import ReplicaMemory
from streams.endpoints.endpoint_state import EndpointState
from streams.endpoints.supply import has_given_up, is_starting


def supply_signal(state: EndpointState, tick: int, rollout_spec: int | None) -> SupplySignal:
    """Replicas by state; during a rollout those above the target's spec are its surge, the youngest first."""
    supply = state.supply
    known = sorted(supply.replicas.values(), key=lambda one: one.replica)
    others = [one for one in known if one.state is not ReplicaState.READY]
    ready = len(known) - len(others)
    starting = sorted(
        (StartingReplica(replica=one.replica, age_s=_age(one, tick)) for one in others if is_starting(one)),
        key=lambda one: (-one.age_s, one.replica),
    )
    if rollout_spec is not None:
        starting = starting[: max(0, rollout_spec - ready)]
        ready = min(ready, rollout_spec)
    unschedulable = tuple(
        one.replica for one in others if one.state is ReplicaState.UNSCHEDULABLE and not has_given_up(one)
    )
    inferred = not supply.observed or any(one.inferred for one in known)
    return SupplySignal(
        source=SupplySource.INFERRED if inferred else SupplySource.OBSERVED,
        ready=ready,
        starting=len(starting),
        draining=sum(one.state is ReplicaState.DRAINING for one in others),
        unschedulable=len(unschedulable),
        failed=sum(one.state is ReplicaState.FAILED or has_given_up(one) for one in others),
        starting_replicas=tuple(starting),
        startup_p95_s=supply.startup_p95_s(state.policy.model.startup_seconds),
        failed_starts=supply.failed_starts,
        unschedulable_replicas=unschedulable,
    )


def _age(replica: ReplicaMemory, tick: int) -> int:
    since_s = replica.since_s if replica.requested_s is None else replica.requested_s
    return max(0, tick - since_s)
