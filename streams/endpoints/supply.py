"""The endpoint's replicas as ReplicaChanged tells of them, and, where nothing does, as their samples do."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from decisions.supply import GIVEN_UP_STARTS
from records.enums import ReplicaState
from records.supply_memory import ReplicaMemory
from records.telemetry import ReplicaChanged
from streams.endpoints.intake import REPLICA_LABEL_BYTES_MAX, REPLICAS_MAX, label_bytes

STARTS_KEPT = 32
STARTS_MIN = 5
"""Measured starts from which on their p95 replaces the policy's `startupSeconds`."""
FORMER_EPOCHS_KEPT = 8
INFERRED_FRESH_S = 20
"""A replica known from samples alone is ready while its newest is at most this much older than the endpoint's."""

_BEFORE_READY = frozenset({ReplicaState.REQUESTED, ReplicaState.UNSCHEDULABLE, ReplicaState.STARTING})
_UP = frozenset({ReplicaState.READY, ReplicaState.DRAINING})


@dataclass(slots=True)
class SupplyState:
    """What is known of an endpoint's replicas, by name. `failed_starts` counts failures since any replica's last
    `ready`; `starts_s` holds the newest measured start-up times in s. `changes` rises with each change."""

    replicas: dict[str, ReplicaMemory] = field(default_factory=dict)
    starts_s: tuple[float, ...] = ()
    failed_starts: int = 0
    observed: bool = False
    changes: int = 0
    _label_bytes: int | None = None
    """Of all replicas' names and epochs; null until somebody asks."""

    def has_room(self, changed: ReplicaChanged) -> bool:
        """Whether the record may be applied: it brings no new label, or there is room for it."""
        known = self.replicas.get(changed.replica)
        if known is not None and (changed.epoch == known.epoch or changed.epoch in known.former_epochs):
            return True
        if known is None and len(self.replicas) >= REPLICAS_MAX:
            return False
        if self._label_bytes is None:
            self._label_bytes = sum(map(_label_bytes, self.replicas.values()))
        more = label_bytes(changed.epoch) if known is not None else label_bytes(changed.replica, changed.epoch)
        return self._label_bytes + more <= REPLICA_LABEL_BYTES_MAX

    def apply(self, changed: ReplicaChanged) -> None:
        """Take a ReplicaChanged as read. Repeats and records older than what is known change nothing."""
        self.observed = True
        self.changes += 1
        known = self.replicas.get(changed.replica)
        if known is None or known.inferred:
            base = _first_seen(changed, known)
        elif changed.epoch != known.epoch:
            if changed.epoch in known.former_epochs:
                return
            base = _next_epoch(changed, known)
        else:
            if (changed.at_s, changed.seq) < (known.at_s, known.seq):
                return
            base = known
        self.replicas[changed.replica] = entered = self._entered(base, changed, is_first=base is not known)
        if self._label_bytes is not None and base is not known:
            self._label_bytes += _label_bytes(entered) - (0 if known is None else _label_bytes(known))

    def _entered(self, base: ReplicaMemory, changed: ReplicaChanged, is_first: bool) -> ReplicaMemory:
        """`base` after the record, which is the first of its epoch or one more."""
        entered = is_first or changed.state is not base.state
        requested_s = base.requested_s
        failures, failed = base.failures, base.failed
        if changed.state in _BEFORE_READY and requested_s is None and changed.state is not ReplicaState.UNSCHEDULABLE:
            requested_s = changed.at_s
        if changed.state is ReplicaState.READY:
            if entered and requested_s is not None:
                self.starts_s = (*self.starts_s, float(max(0, changed.at_s - requested_s)))[-STARTS_KEPT:]
            if entered:
                self.failed_starts = 0
            requested_s, failures, failed = None, 0, False
        was_up = not is_first and base.state in _UP
        if changed.state is ReplicaState.FAILED and entered and not failed and not was_up:
            failures, failed = failures + 1, True
            self.failed_starts += 1
        return msgspec.structs.replace(
            base,
            state=changed.state,
            since_s=changed.at_s if entered and not is_first else base.since_s,
            at_s=changed.at_s,
            seq=changed.seq,
            requested_s=requested_s,
            failures=failures,
            failed=failed,
        )

    def infer(self, heard: Mapping[str, tuple[str, int, int]], quarantined: Collection[str]) -> None:
        """Take the replicas that samples of the window speak of: name -> (epoch, first, last second heard).

        Replicas that no ReplicaChanged named count as ready while fresh, measured by the endpoint's newest sample: a
        silence of all of them is an outage of telemetry, and no replica leaves by it; nor does one with a bad clock.
        """
        for replica, (epoch, first_s, _) in heard.items():
            if replica not in self.replicas:
                self.changes += 1
                self.replicas[replica] = ReplicaMemory(
                    replica=replica, epoch=epoch, state=ReplicaState.READY, since_s=first_s, inferred=True
                )
                self._label_bytes = None
        newest = max((last for _, _, last in heard.values()), default=None)
        if newest is None:
            return
        for replica, known in list(self.replicas.items()):
            if (
                known.inferred
                and replica not in quarantined
                and (replica not in heard or heard[replica][2] < newest - INFERRED_FRESH_S)
            ):
                self.changes += 1
                del self.replicas[replica]
                self._label_bytes = None

    def knows(self, names: Sequence[str]) -> bool:
        """Whether these are all the replicas there are."""
        return len(names) == len(self.replicas) and all(name in self.replicas for name in names)

    def forget_gone(self, heard: Mapping[str, tuple[str, int, int]], before_s: int) -> None:
        """Drop replicas that have been gone since before `before_s` and whose samples have ended too."""
        for replica, known in list(self.replicas.items()):
            if known.state is ReplicaState.GONE and known.since_s < before_s and replica not in heard:
                self.changes += 1
                del self.replicas[replica]
                self._label_bytes = None

    def startup_p95_s(self, default_s: float) -> float:
        """The p95 (nearest rank) of the measured starts, `default_s` while there are too few."""
        if len(self.starts_s) < STARTS_MIN:
            return default_s
        return sorted(self.starts_s)[math.ceil(0.95 * len(self.starts_s)) - 1]


def _label_bytes(replica: ReplicaMemory) -> int:
    return label_bytes(replica.replica, replica.epoch, *replica.former_epochs)


def has_given_up(replica: ReplicaMemory) -> bool:
    """Whether it failed to start so often that it is no supply, whatever it says of itself before it is ready."""
    return replica.failures >= GIVEN_UP_STARTS and replica.state in _BEFORE_READY


def is_starting(replica: ReplicaMemory) -> bool:
    """Requested or starting, and not given up."""
    return replica.state in (ReplicaState.REQUESTED, ReplicaState.STARTING) and not has_given_up(replica)


def _first_seen(changed: ReplicaChanged, inferred: ReplicaMemory | None) -> ReplicaMemory:
    """A replica that samples made known was ready before the first record that says so."""
    keeps = inferred is not None and changed.state is ReplicaState.READY
    return ReplicaMemory(
        replica=changed.replica,
        epoch=changed.epoch,
        state=changed.state,
        since_s=min(inferred.since_s, changed.at_s) if keeps and inferred is not None else changed.at_s,
        heard_s=inferred.heard_s if inferred is not None else None,
    )


def _next_epoch(changed: ReplicaChanged, known: ReplicaMemory) -> ReplicaMemory:
    """A new incarnation: its start is measured anew, unless the one before was a mere request for it."""
    waited = known.state in (ReplicaState.REQUESTED, ReplicaState.UNSCHEDULABLE)
    return ReplicaMemory(
        replica=changed.replica,
        epoch=changed.epoch,
        state=changed.state,
        since_s=changed.at_s,
        requested_s=known.requested_s if waited else None,
        failures=known.failures,
        restarted_s=changed.at_s if known.state in _UP or known.restarted_s is not None else None,
        former_epochs=(*known.former_epochs, known.epoch)[-FORMER_EPOCHS_KEPT:],
        heard_s=known.heard_s,
    )
