"""Whom a scale-down takes, and how long what is in flight may still take."""

import math

from decisions.chain import rounded
from records.decisions import Victim
from records.signals import DrainCandidate, EndpointSignal

DRAIN_LEAST_S = 30.0
"""Least drain deadline (contract.md, ScalingDecision)."""


def choose_victims(signal: EndpointSignal, current: int, desired: int) -> tuple[Victim, ...]:
    """Name `current - desired` replicas: those that cannot be scheduled first, then those that start, then ready
    ones as the signal orders them (least in flight, least cached). Fewer where the names are not known.

    Replicas that are missing without a name are taken to leave first: ready ones go only as far as more are ready
    than desired.
    """
    count = current - desired
    waiting = [
        Victim(replica=name, inflight=None, reason="cannot be scheduled")
        for name in signal.supply.unschedulable_replicas
    ]
    waiting += [Victim(replica=name, inflight=None, reason="still starting") for name in _least_likely_ready(signal)]
    waiting = waiting[:count]
    ready = min(count - len(waiting), max(0, signal.supply.ready - desired))
    return (*waiting, *(_drained(candidate) for candidate in signal.drain_order[:ready]))


def _drained(candidate: DrainCandidate) -> Victim:
    inflight = candidate.inflight
    if inflight is None or not math.isfinite(inflight):
        return Victim(replica=candidate.replica, inflight=None, reason="load unknown")
    return Victim(replica=candidate.replica, inflight=rounded(inflight), reason="least in flight")


def _least_likely_ready(signal: EndpointSignal) -> list[str]:
    """Order the starting replicas: the overdue, then the youngest, which have the longest way to go."""
    p95_s = signal.supply.startup_p95_s
    order = sorted(signal.supply.starting_replicas, key=lambda it: (it.age_s < p95_s, it.age_s, it.replica))
    return [it.replica for it in order]


def drain_deadline_s(signal: EndpointSignal) -> float:
    """Give the p99 of end-to-end times over the down window in seconds, at least 30; 30 where it is unknown."""
    p99_ms = signal.drain_p99_ms
    if p99_ms is None or not math.isfinite(p99_ms):
        return DRAIN_LEAST_S
    return rounded(max(DRAIN_LEAST_S, p99_ms / 1000))
