"""EndpointSignal: all that one tick knows of one endpoint, and all that its decision may use."""

import msgspec

from records.enums import OutcomeResult, Source, SupplySource, ValueState
from records.fields import Count, Digest, Fraction, Instant, Label, Name, Natural, Second


class SignalValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One metric over one window. `value` is null unless the state is fresh or partial.

    The unit is the metric's: totals over all replicas for the kinds that are divided by replicas, 0..1 for
    utilisations, ms for latencies. `coverage` is the heard share of the ready replicas' seconds in the window.
    `measured` is how many ready replicas the value was measured on. `check` names the cross-check that failed.
    """

    value: float | None
    state: ValueState
    coverage: Fraction
    measured: Count = 0
    check: str | None = None


class StartingReplica(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A replica that is requested or starting, and since when."""

    replica: Name
    age_s: Natural


class SupplySignal(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas of the endpoint by state, without those of a rollout's surge.

    `starting` counts all that are requested or starting (`starting_replicas` has the age of each); the decision
    leaves out those older than `startup_p95_s`. `failed` counts replicas that failed to start since the last
    `ready`; `failed_starts` the failures themselves. `unschedulable_replicas` names the unschedulable ones.
    """

    source: SupplySource
    ready: Count = 0
    starting: Count = 0
    draining: Count = 0
    unschedulable: Count = 0
    failed: Count = 0
    starting_replicas: tuple[StartingReplica, ...] = ()
    startup_p95_s: float = 300.0
    failed_starts: Count = 0
    unschedulable_replicas: tuple[Name, ...] = ()


class SourceSignal(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A source that is not plainly well: skewed, quarantined, late, silent, or two processes under one name."""

    replica: Label
    source: Source
    reporter: Label | None
    offset_s: float | None
    state: ValueState
    late: Count = 0


class DownBlocker(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A reason why a scale-down may not happen at this tick, whatever the metrics say.

    `kind`: coverage (a ready replica was heard less than 0.9 of its ready seconds), restart (a ready replica's source
    restarted inside the window), rollout, rebuild (the pipeline's own state does not reach back the whole window),
    suspect (two processes under one name, or a quarantined source), refused (what was sent inside the window had no
    room under the endpoint's limits: the values leave it out).
    """

    kind: str
    replica: Label | None = None
    until_s: Second | None = None


class DrainCandidate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A ready replica that could leave, least loaded first; `inflight` is its mean over the up window."""

    replica: Name
    inflight: float | None
    cache_hit_rate: float | None = None


class ObservedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The newest outcome of this endpoint's scaling decisions that was read before the tick."""

    decision_id: Digest
    result: OutcomeResult
    at_s: Second
    retryable: bool = False
    observed: Count | None = None


class SkippedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records `[first_offset, end_offset)` of an input topic's partition, left unread since they came faster than the
    worker could take them. `until_s`: all of them had been received by then."""

    topic: Name
    first_offset: Natural
    end_offset: Natural
    until_s: Instant


class EndpointSignal(msgspec.Struct, frozen=True, kw_only=True):
    """One tick `[.., at_s)` of one endpoint.

    `windows` has the policy's window lengths in seconds as keys, then the metric's key (its name; with another
    percentile than p95 `name:p50`). `offsets` is, for each input topic, the offset of the next record to read when
    the tick ran (in a replay: how many lines of that topic had been read). `processed_s` is the processing
    time at which the tick fell due: what had been read by then counts. It is not when the tick was computed or written.
    `drain_p99_ms` is the p99 of `e2e_ms` over the down window. `unheard` names ready replicas that have been unheard
    for longer than the policy's patience: they count with the target in every metric. `skipped_records`
    are what has been left unread since the tick before: no window holds them.
    """

    endpoint: Name
    at_s: Second
    processed_s: Instant
    offsets: dict[str, int]
    supply: SupplySignal
    windows: dict[str, dict[str, SignalValue]]
    spec_replicas: Count | None = None
    rollout: bool = False
    target_at_s: Second | None = None
    sources: tuple[SourceSignal, ...] = ()
    down_blockers: tuple[DownBlocker, ...] = ()
    unheard: tuple[str, ...] = ()
    drain_order: tuple[DrainCandidate, ...] = ()
    drain_p99_ms: float | None = None
    outcome: ObservedOutcome | None = None
    skipped_records: tuple[SkippedRecords, ...] = ()


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected `horizon_s` from `at_s`; `used` tells whether it beat persistence and raised a floor."""

    endpoint: Name
    at_s: Second
    horizon_s: float
    used: bool
    requests_per_s_p50: float | None = None
    requests_per_s_p90: float | None = None
    model_units_per_min_p50: float | None = None
    model_units_per_min_p90: float | None = None
    loss: float | None = None
    loss_persistence: float | None = None
    loss_seasonal: float | None = None
    model: str | None = None
    reason: str | None = None
