"""What is remembered of an endpoint's replicas, target and sources: what telemetry of five minutes does not tell."""

import msgspec

from records.enums import ReplicaState, Source
from records.fields import Count, Label, Name, Natural, Second
from records.signals import ObservedOutcome


class ReplicaMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A replica's newest epoch and state, and when each began, in event time.

    `at_s` and `seq` are those of the newest ReplicaChanged applied. `requested_s` is when this epoch's start began,
    null once it was ready or where that is not known; `failures` counts starts that failed since the last `ready`,
    once an epoch, `failed` tells whether this epoch is among them. `restarted_s` is when the epoch last changed.
    `heard_s` is the second of the newest sample, null while the windows show it or where none ever came.
    `inferred`: no ReplicaChanged named it, it is known from its samples alone.
    """

    replica: Name
    epoch: Label
    state: ReplicaState
    since_s: Second
    seq: Natural = 0
    requested_s: Second | None = None
    at_s: Second = 0
    failures: Count = 0
    failed: bool = False
    restarted_s: Second | None = None
    former_epochs: tuple[Label, ...] = ()
    heard_s: Second | None = None
    inferred: bool = False


class TargetMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The newest TargetObserved; `rollout_s` is the last event time at which a rollout was under way."""

    at_s: Second
    seq: Natural = 0
    spec_replicas: Count | None = None
    rollout: bool = False
    rollout_s: Second | None = None


class SkewChange(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """From the sample at `offset` of telemetry.requests on (received at `since_s`), a source's seconds are moved back
    by `shift_s`, and its values are suspect where `quarantined`. `skew_s` is the median offset that said so. In a frame
    with several samples of the source, `row` of them came before that one."""

    offset: Natural
    shift_s: int
    quarantined: bool
    skew_s: float
    since_s: float
    row: Natural = 0


class SourceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A source whose clock was off, or whose samples came too late, inside the windows' span.

    `changes` are rising in `offset`; the last one holds now. `late` counts samples that were left out for their age,
    the newest of them received at `late_s`.
    """

    replica: Label
    source: Source
    reporter: Label | None
    changes: tuple[SkewChange, ...] = ()
    late: Count = 0
    late_s: Second | None = None


class SupplyMemory(msgspec.Struct, frozen=True, kw_only=True):
    """`starts_s` are the newest measured start-up times, seconds from `requested` (else `starting`) to `ready`;
    `observed` tells whether any ReplicaChanged was ever read."""

    replicas: tuple[ReplicaMemory, ...] = ()
    starts_s: tuple[float, ...] = ()
    failed_starts: Count = 0
    observed: bool = False
    target: TargetMemory | None = None
    outcome: ObservedOutcome | None = None
    sources: tuple[SourceMemory, ...] = ()
