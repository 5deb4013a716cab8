"""What happened to each endpoint, second by second, read from the Delta tables alone."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.demo.fleet.samples import COUNTS, MEANS, SampleTally, SecondTally
from records.enums import ReplicaState
from records.policy import EndpointPolicy
from simulation.lifecycle import ON_A_NODE
from sinks.catalog import query
from sinks.root import TableRoot

STEP_S = 10
"""Seconds of one point of the latencies: a p95 wants some requests, and a reader wants to see the minute it rose in."""

MINUTE_S = 60

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_SAMPLES = f"SELECT endpoint, at_s, {', '.join((*COUNTS, *MEANS))}, ttft_ms FROM telemetry_requests"
_REPLICAS = """\
SELECT endpoint, replica, epoch, at_s, state FROM telemetry_replicas ORDER BY endpoint, replica, at_s, seq"""
_TARGETS = """\
SELECT endpoint, at_s, spec_replicas FROM telemetry_targets WHERE spec_replicas IS NOT NULL
ORDER BY endpoint, at_s, seq"""
_DECISIONS = """\
SELECT d.endpoint, d.at_s, d.decision_id, d.action, d.reason, d.bound, d.current, d.desired, d.detail, o.result
FROM decisions_scaling d LEFT JOIN (SELECT decision_id, CASE WHEN bool_or(result = 'applied') THEN 'applied'
           ELSE max(result) END AS result FROM outcomes GROUP BY decision_id) o
ON o.decision_id = d.decision_id ORDER BY d.endpoint, d.at_s"""

_SUPPLY: Mapping[str, str] = {
    ReplicaState.REQUESTED: "starting",
    ReplicaState.STARTING: "starting",
    ReplicaState.UNSCHEDULABLE: "starting",
    ReplicaState.READY: "ready",
    ReplicaState.DRAINING: "draining",
    ReplicaState.FAILED: "failed",
}
"""How a replica counts while it is in a state; not at all once it is gone."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A decision that is no hold, and what an actuator answered (None: nothing)."""

    at_s: int
    decision_id: str
    action: str
    reason: str
    bound: str | None
    current: int
    desired: int
    detail: str
    result: str | None


@dataclass(frozen=True, eq=False, kw_only=True)
class EndpointHistory:
    """One endpoint in `[first_s, last_s)`, event time. Arrays have one entry a second: (last_s - first_s,).

    `requests` are those that came (accepted or turned away), `turned_away` the rejected ones among them.
    `first_tokens` came in that second, `within_slo` those of them within the policy's TTFT. `ttft_p95_ms` has one entry
    each STEP_S, nan where no request got a first token. `on_a_node` counts replicas that have their GPUs. `reasons`
    counts the decisions, holds too, by action and reason. `startups_s` are the start-ups that were seen, from the
    request to ready.
    """

    name: str
    policy: EndpointPolicy
    gpus: int
    first_s: int
    last_s: int
    requests: Floats
    turned_away: Floats
    aborted: Floats
    in_flight: Floats
    first_tokens: Floats
    within_slo: Floats
    ttft_p95_ms: Floats
    starting: Whole
    ready: Whole
    draining: Whole
    on_a_node: Whole
    desired: Whole
    decisions: tuple[Decided, ...]
    reasons: Mapping[tuple[str, str], int]
    startups_s: tuple[int, ...]

    @property
    def seconds(self) -> Whole:
        return np.arange(self.first_s, self.last_s)

    def ttft_parts(self, begin: int, end: int) -> Floats:
        """The p95s of the steps that begin in `[begin, end)`, seconds from `first_s` on."""
        return self.ttft_p95_ms[-(-begin // STEP_S) : -(-end // STEP_S)]

    @property
    def gpu_hours(self) -> float:
        """Of all replicas, from the place on a node to the end."""
        return float(self.on_a_node.sum()) * self.gpus / 3600

    @property
    def peak_replicas(self) -> int:
        """What the busiest minute needed: its requests in flight by the concurrency target, or the policy's minimum."""
        minutes = len(self.in_flight) // MINUTE_S
        means = self.in_flight[: minutes * MINUTE_S].reshape(minutes, MINUTE_S).mean(axis=1)
        return max(self.policy.min_replicas, math.ceil(float(means.max(initial=0.0)) / self.policy.concurrency.target))

    @property
    def static_gpu_hours(self) -> float:
        """Of `peak_replicas`, all the time."""
        return self.peak_replicas * (self.last_s - self.first_s) * self.gpus / 3600

    @property
    def saved_percent(self) -> int:
        """How many of the static fleet's GPU-hours were not needed; below 0: it would have been cheaper."""
        return round(100 - 100 * self.gpu_hours / self.static_gpu_hours)


def read_histories(
    root: TableRoot, policies: Iterable[EndpointPolicy], gpus: Mapping[str, int]
) -> list[EndpointHistory]:
    """One for each policy, in their order; `gpus` are those of a replica. Raises StorageError; blocking."""
    tally = SampleTally()
    tally.add(query(root, _SAMPLES))
    replicas = _by_endpoint(query(root, _REPLICAS).to_pylist())
    targets = _by_endpoint(query(root, _TARGETS).to_pylist())
    decisions = _by_endpoint(query(root, _DECISIONS).to_pylist())
    return [
        _history(policy, gpus[policy.endpoint], tally, replicas, targets, decisions)
        for policy in policies
        if tally.of(policy.endpoint)
    ]


Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def _by_endpoint(rows: Iterable[Mapping[str, Any]]) -> Rows:
    found: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["endpoint"]].append(row)
    return found


def _history(
    policy: EndpointPolicy, gpus: int, tally: SampleTally, replicas: Rows, targets: Rows, decisions: Rows
) -> EndpointHistory:
    name = policy.endpoint
    seconds = tally.of(name)
    first_s, last_s = min(seconds), max(seconds) + 1
    slo_ms = math.inf if policy.slo.ttft_p95_ms is None else policy.slo.ttft_p95_ms
    supply = _supply(replicas[name], first_s, last_s)
    return EndpointHistory(
        name=name,
        policy=policy,
        gpus=gpus,
        first_s=first_s,
        last_s=last_s,
        requests=_each(seconds, lambda one: one.arrivals + one.rejections),
        turned_away=_each(seconds, lambda one: one.rejections),
        aborted=_each(seconds, lambda one: one.aborted),
        in_flight=_each(seconds, lambda one: one.in_flight),
        first_tokens=_each(seconds, SecondTally.first_tokens),
        within_slo=_each(seconds, lambda one: one.first_tokens(slo_ms)),
        ttft_p95_ms=np.array(
            [
                np.nan if value is None else value
                for value in (
                    tally.ttft_p95_ms(name, begin, begin + STEP_S) for begin in range(first_s, last_s, STEP_S)
                )
            ]
        ),
        starting=supply["starting"],
        ready=supply["ready"],
        draining=supply["draining"],
        on_a_node=supply["on_a_node"],
        desired=_steps([(row["at_s"], row["spec_replicas"]) for row in targets[name]], first_s, last_s),
        decisions=tuple(_decided(row) for row in decisions[name] if row["action"] != "hold"),
        reasons=Counter((row["action"], row["reason"]) for row in decisions[name]),
        startups_s=tuple(_startups(replicas[name])),
    )


def _each(known: Mapping[int, SecondTally], value_of: Callable[[SecondTally], float]) -> Floats:
    """A value of each second, 0 where no sample came."""
    values = np.zeros(max(known) + 1 - min(known))
    for second, found in known.items():
        values[second - min(known)] = value_of(found)
    return values


def _steps(points: Sequence[tuple[int, int]], first_s: int, last_s: int) -> Whole:
    """Each value from its second on until the next; before the first one that one."""
    if not points:
        return np.zeros(last_s - first_s, np.int64)
    times, values = np.array(points, np.int64).T
    return np.asarray(values[np.maximum(np.searchsorted(times, np.arange(first_s, last_s), side="right") - 1, 0)])


def _supply(rows: Sequence[Mapping[str, Any]], first_s: int, last_s: int) -> Mapping[str, Whole]:
    """How many replicas were in which state; a state lasts until the replica's next record that tells another."""
    counts = {name: np.zeros(last_s - first_s, np.int64) for name in (*set(_SUPPLY.values()), "on_a_node")}
    by_replica: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_replica[row["replica"]].append(row)
    for records in by_replica.values():
        ends = [record["at_s"] for record in records[1:]] + [last_s]
        for record, end_s in zip(records, ends, strict=True):
            span = slice(max(0, record["at_s"] - first_s), max(0, end_s - first_s))
            if record["state"] in _SUPPLY:
                counts[_SUPPLY[record["state"]]][span] += 1
            if record["state"] in ON_A_NODE:
                counts["on_a_node"][span] += 1
    return counts


def _startups(rows: Sequence[Mapping[str, Any]]) -> Iterable[int]:
    """Seconds from requested to ready, of each incarnation that was seen to do both."""
    requested: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["replica"], row["epoch"])
        if row["state"] == ReplicaState.REQUESTED:
            requested.setdefault(key, row["at_s"])
        elif row["state"] == ReplicaState.READY and key in requested:
            yield row["at_s"] - requested.pop(key)


def _decided(row: Mapping[str, Any]) -> Decided:
    return Decided(**{name: row[name] for name in Decided.__dataclass_fields__})
