"""Replicas of one endpoint from the request to the end: what a Deployment's controller and its nodes do, in seconds."""

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from records.enums import ReplicaState
from records.telemetry import ReplicaChanged
from simulation.scale_target import DRAIN_DEADLINE_S, DrainMark

SCHEDULED_AFTER_S = 1
"""From the request of a replica to its container's start on a node, where the start-up time begins; an assumption."""
BACKOFF_FIRST_S, BACKOFF_MAX_S, BACKOFF_RESET_S = 10, 300, 600
"""How long a container that ended waits for its next start, doubling each time, and how long it must have run for the
count to begin anew: the kubelet's CrashLoopBackOff (kubernetes.io, "Pod Lifecycle")."""
REPEAT_S = 30
"""A state is told at every change and this often between (the contract's rule)."""
GONE_TOLD_S = 300
"""How long a replica's end is repeated, for a reader that missed it; so long do workers' windows know of it."""

ON_A_NODE = (ReplicaState.STARTING, ReplicaState.READY, ReplicaState.DRAINING, ReplicaState.FAILED)
"""States in which a pod holds its GPUs, whether or not anything runs on them."""


class ChangeReason(StrEnum):
    """Why a replica is in its state, as its ReplicaChanged says."""

    INITIAL = "initial"
    SCALED_UP = "scaled_up"
    SCHEDULED = "scheduled"
    STARTED = "started"
    START_FAILED = "start_failed"
    DIED = "died"
    RESTARTED = "restarted"
    SCALED_DOWN = "scaled_down"
    DRAINED = "drained"
    DRAIN_DEADLINE = "drain_deadline"


class Startup(Protocol):
    """Draws how long one start takes, seconds from the container's start until it is ready."""

    def draw(self, rng: np.random.Generator) -> float: ...


@dataclass(frozen=True, kw_only=True)
class ReplicaFacts:
    """What is told of each replica besides its state; `start_failure_fraction` of all starts fail."""

    endpoint: str
    hardware: str
    model_version: str
    start_failure_fraction: float = 0.0


@dataclass(slots=True, kw_only=True)
class Replica:
    """One pod. `due_s` is the second of its next step by itself: on a node, ready or failed, requested again."""

    name: str
    number: int
    uid: str
    state: ReplicaState
    reason: ChangeReason
    since_s: int
    told_s: int
    restarts: int = 0
    failures: int = 0
    due_s: int = 0
    ready_after_s: int = 0
    fails: bool = False
    drain_until_s: float = math.inf

    @property
    def epoch(self) -> str:
        """Names this incarnation: `<pod uid>/<restart count>`."""
        return f"{self.uid}/{self.restarts}"

    @property
    def node(self) -> str:
        return f"node-{self.number}"

    @property
    def serves(self) -> bool:
        """Whether a process runs in it that has requests and reports."""
        return self.state in (ReplicaState.READY, ReplicaState.DRAINING)


class Lifecycle:
    """A state machine that is asked once a second. `uid` makes the replicas' own uids; names are never used twice."""

    def __init__(self, facts: ReplicaFacts, startup: Startup, rng: np.random.Generator, uid: str) -> None:
        self._facts = facts
        self._startup = startup
        self._rng = rng
        self._uid = uuid.UUID(uid)
        self._replicas: dict[str, Replica] = {}
        self._gone: dict[str, Replica] = {}
        self._made = 0
        self._seq = 0
        self._failing = 0

    @property
    def replicas(self) -> Mapping[str, Replica]:
        """Those that are created and not gone, oldest first."""
        return self._replicas

    def count(self, state: ReplicaState) -> int:
        return sum(replica.state is state for replica in self._replicas.values())

    def fail_starts(self, count: int) -> None:
        """Let the next `count` starts fail."""
        self._failing += count

    def begin(self, count: int, second: int) -> list[ReplicaChanged]:
        """Make `count` replicas that are ready from `second` on."""
        return [
            self._tell(self._create(ReplicaState.READY, ChangeReason.INITIAL, second), second) for _ in range(count)
        ]

    def die(self, name: str, second: int) -> list[ReplicaChanged]:
        """A replica's process ends by itself: its container starts again, but not where it was draining."""
        replica = self._replicas[name]
        if replica.state is ReplicaState.DRAINING:
            return [self._leave(replica, ChangeReason.DIED, second)]
        return [self._fail(replica, ChangeReason.DIED, second)]

    def advance(
        self, second: int, spec: int, marks: Sequence[DrainMark], inflight: Mapping[str, int]
    ) -> list[ReplicaChanged]:
        """The changes of one second, in the order in which they happen.

        `inflight` holds the requests of each replica at the second's start. Marked replicas leave first, then those
        that are not ready, the newest first, then ready ones with the fewest requests.
        """
        changes = [change for replica in list(self._replicas.values()) for change in self._due(replica, second)]
        changes += self._drained(second, inflight)
        staying = [replica for replica in self._replicas.values() if replica.state is not ReplicaState.DRAINING]
        for _ in range(spec - len(staying)):
            changes.append(self._request(second))
        if len(staying) > spec:
            deadlines = {mark.replica: mark.deadline_s for mark in marks}
            for replica in _leaving_order(staying, list(deadlines), inflight)[: len(staying) - spec]:
                changes.append(self._dismiss(replica, deadlines.get(replica.name, DRAIN_DEADLINE_S), second))
        return changes

    def repeats(self, second: int) -> list[ReplicaChanged]:
        """States that were last told REPEAT_S ago."""
        for name in [name for name, replica in self._gone.items() if second - replica.since_s > GONE_TOLD_S]:
            del self._gone[name]
        known = [*self._replicas.values(), *self._gone.values()]
        return [self._tell(replica, second) for replica in known if second - replica.told_s >= REPEAT_S]

    def _due(self, replica: Replica, second: int) -> Iterable[ReplicaChanged]:
        if second < replica.due_s:
            return
        match replica.state:
            case ReplicaState.REQUESTED:
                replica.due_s = replica.ready_after_s
                yield self._enter(replica, ReplicaState.STARTING, ChangeReason.SCHEDULED, second)
            case ReplicaState.STARTING if replica.fails:
                yield self._fail(replica, ChangeReason.START_FAILED, second)
            case ReplicaState.STARTING:
                yield self._enter(replica, ReplicaState.READY, ChangeReason.STARTED, second)
            case ReplicaState.FAILED:
                replica.restarts += 1
                self._plan_start(replica, second)
                yield self._enter(replica, ReplicaState.REQUESTED, ChangeReason.RESTARTED, second)

    def _drained(self, second: int, inflight: Mapping[str, int]) -> list[ReplicaChanged]:
        """Draining replicas that are empty leave, and those whose time is up."""
        draining = [replica for replica in self._replicas.values() if replica.state is ReplicaState.DRAINING]
        empty = {replica.name for replica in draining if not inflight.get(replica.name, 0)}
        return [
            self._leave(replica, ChangeReason.DRAINED if replica.name in empty else ChangeReason.DRAIN_DEADLINE, second)
            for replica in draining
            if replica.name in empty or second >= replica.drain_until_s
        ]

    def _request(self, second: int) -> ReplicaChanged:
        replica = self._create(ReplicaState.REQUESTED, ChangeReason.SCALED_UP, second)
        self._plan_start(replica, second)
        return self._tell(replica, second)

    def _dismiss(self, replica: Replica, deadline_s: float, second: int) -> ReplicaChanged:
        if replica.state is not ReplicaState.READY:
            return self._leave(replica, ChangeReason.SCALED_DOWN, second)
        replica.drain_until_s = second + deadline_s
        return self._enter(replica, ReplicaState.DRAINING, ChangeReason.SCALED_DOWN, second)

    def _fail(self, replica: Replica, reason: ChangeReason, second: int) -> ReplicaChanged:
        ran_s = second - replica.since_s if replica.state is ReplicaState.READY else 0
        replica.failures = 1 if ran_s >= BACKOFF_RESET_S else replica.failures + 1
        replica.due_s = second + min(BACKOFF_FIRST_S * 2 ** min(replica.failures - 1, 10), BACKOFF_MAX_S)
        return self._enter(replica, ReplicaState.FAILED, reason, second)

    def _leave(self, replica: Replica, reason: ChangeReason, second: int) -> ReplicaChanged:
        del self._replicas[replica.name]
        self._gone[replica.name] = replica
        return self._enter(replica, ReplicaState.GONE, reason, second)

    def _create(self, state: ReplicaState, reason: ChangeReason, second: int) -> Replica:
        number = self._made
        self._made += 1
        name = f"{self._facts.endpoint}-{number}"
        replica = Replica(
            name=name,
            number=number,
            uid=str(uuid.uuid5(self._uid, name)),
            state=state,
            reason=reason,
            since_s=second,
            told_s=second,
        )
        self._replicas[name] = replica
        return replica

    def _plan_start(self, replica: Replica, second: int) -> None:
        """Draws when the start ends and how; one that fails does so somewhere on the way."""
        start_s = self._startup.draw(self._rng)
        drawn_failure, part = self._rng.random(2)
        replica.fails = drawn_failure < self._facts.start_failure_fraction
        if self._failing:
            self._failing -= 1
            replica.fails = True
        ends_s = start_s * part if replica.fails else start_s
        replica.due_s = second + SCHEDULED_AFTER_S
        replica.ready_after_s = replica.due_s + max(1, math.ceil(ends_s))

    def _enter(self, replica: Replica, state: ReplicaState, reason: ChangeReason, second: int) -> ReplicaChanged:
        replica.state, replica.reason, replica.since_s = state, reason, second
        return self._tell(replica, second)

    def _tell(self, replica: Replica, second: int) -> ReplicaChanged:
        self._seq += 1
        replica.told_s = second
        return ReplicaChanged(
            endpoint=self._facts.endpoint,
            replica=replica.name,
            at_s=second,
            state=replica.state,
            epoch=replica.epoch,
            seq=self._seq,
            reason=replica.reason.value,
            node=replica.node if replica.state is not ReplicaState.REQUESTED else None,
            hardware=self._facts.hardware,
            model_version=self._facts.model_version,
        )


def _leaving_order(staying: Sequence[Replica], marked: Sequence[str], inflight: Mapping[str, int]) -> list[Replica]:
    """The first to leave first: as marked, then not ready and newest first, then with the fewest requests."""
    rank = {name: index for index, name in enumerate(marked)}
    last = len(rank)

    def key(replica: Replica) -> tuple[int, bool, int, int]:
        is_ready = replica.state is ReplicaState.READY
        requests = inflight.get(replica.name, 0) if is_ready else 0
        return rank.get(replica.name, last), is_ready, requests, -replica.number

    return sorted(staying, key=key)
