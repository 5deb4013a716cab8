"""What a case is made of: the disorders it may have, its policies, its log, and when its worker dies."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from random import Random

from tests.oracle.model.log import Entry, Metric, Policy

STRANGER, NOBODY = "elsewhere", "nobody"
"""Endpoints of another partition, and without a policy."""


class Disorder(StrEnum):
    """What a plan may ask for. Whether it came to anything is counted by what the oracle made of it."""

    DUPLICATES = "duplicates"
    REPLACED = "replaced"
    REPORTERS = "reporters"
    EPOCHS = "epochs"
    LATE = "late"
    SKEW = "skew"
    BOUNDS = "bounds"
    RESTART = "restart"
    FRAMES = "frames"
    GATEWAY = "gateway"
    CHANGES = "changes"
    AHEAD = "ahead"
    ORDER = "order"
    CLOCK = "clock"
    STRAY = "stray"
    TWO_ENDPOINTS = "two_endpoints"


@dataclass(frozen=True)
class Plan:
    """What a case is made from, the same each time."""

    seed: int
    seconds: int
    replicas: int
    disorders: frozenset[Disorder]


@dataclass(frozen=True)
class Case:
    """`entries` are in the order of their reading; `kills` are rising places among them before which the worker dies,
    with the share of the ticks made until then that it had committed."""

    policies: tuple[Policy, ...]
    entries: tuple[Entry, ...]
    kills: tuple[tuple[int, float], ...] = ()
    cut_seed: int = 0


METRICS = (
    Metric("inflight_requests", "inflight_requests"),
    Metric("queue_depth", "queue_depth"),
    Metric("active_sessions", "active_sessions"),
    Metric("throughput_per_replica", "throughput_per_replica"),
    Metric("token_utilization", "token_utilization"),
    Metric("cpu_utilization", "cpu_utilization"),
    Metric("cache_hit_rate", "cache_hit_rate"),
    Metric("ttft", "ttft:p50", Fraction(1, 2)),
    Metric("ttft", "ttft", Fraction(95, 100)),
    Metric("e2e_latency", "e2e_latency:p90", Fraction(9, 10)),
    Metric("e2e_latency", "e2e_latency:p99", Fraction(99, 100)),
)


def drawn_plan(seed: int) -> Plan:
    """The plan of a seed alone."""
    rng = Random(seed)
    rare = {Disorder.TWO_ENDPOINTS, Disorder.STRAY, Disorder.AHEAD, Disorder.CLOCK}
    disorders = frozenset(one for one in Disorder if rng.random() < (0.2 if one in rare else 0.4))
    return Plan(seed, rng.randint(5, 14), rng.randint(1, 2), disorders)
