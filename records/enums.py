"""The closed sets of the contract: states, reasons, bounds and results, as they are spelled on the wire."""

from enum import StrEnum


class Source(StrEnum):
    """Who counted: the engine itself, or a router in front of it. The two are never added."""

    ENGINE = "engine"
    ROUTER = "router"


class ReplicaState(StrEnum):
    REQUESTED = "requested"
    UNSCHEDULABLE = "unschedulable"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    GONE = "gone"
    FAILED = "failed"


class Role(StrEnum):
    BOTH = "both"
    PREFILL = "prefill"
    DECODE = "decode"


class ValueState(StrEnum):
    """What a signal's value may be used for; decisions compute with fresh and partial ones alone."""

    FRESH = "fresh"
    PARTIAL = "partial"
    STALE = "stale"
    UNKNOWN = "unknown"
    SUSPECT = "suspect"
    UNDEFINED = "undefined"


class SupplySource(StrEnum):
    """Where the supply's counts come from: ReplicaChanged records, or samples alone."""

    OBSERVED = "observed"
    INFERRED = "inferred"


class Mode(StrEnum):
    ACT = "act"
    ADVISE = "advise"
    OFF = "off"


class MetricName(StrEnum):
    INFLIGHT_REQUESTS = "inflight_requests"
    GPU_UTILIZATION = "gpu_utilization"
    TOKEN_UTILIZATION = "token_utilization"
    CACHE_HIT_RATE = "cache_hit_rate"
    THROUGHPUT_PER_REPLICA = "throughput_per_replica"
    TTFT = "ttft"
    DECODING_SPEED = "decoding_speed"
    E2E_LATENCY = "e2e_latency"
    ACTIVE_SESSIONS = "active_sessions"
    MODEL_UNIT_UTILIZATION = "model_unit_utilization"
    QUEUE_DEPTH = "queue_depth"
    CPU_UTILIZATION = "cpu_utilization"
    GPU_MEMORY = "gpu_memory"


class Percentile(StrEnum):
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"


class ScalingAction(StrEnum):
    SCALE_UP = "scale_up"
    SCALE_DOWN = "scale_down"
    HOLD = "hold"


class ScalingReason(StrEnum):
    """Why a scaling decision is what it is; holds have one too."""

    WITHIN_TARGET = "within_target"
    METRIC = "metric"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    SCHEDULE = "schedule"
    FORECAST = "forecast"
    PROVISIONED = "provisioned"
    UNKNOWN = "unknown"
    INSUFFICIENT_EVIDENCE = "insufficient_evidence"
    SUSPECT = "suspect"
    STABILISING = "stabilising"
    ROLLOUT = "rollout"
    STARTING = "starting"
    FAILED_STARTS = "failed_starts"
    UNSCHEDULABLE = "unschedulable"
    FLAP_BUDGET = "flap_budget"
    CONTESTED = "contested"
    TARGET_CHANGED = "target_changed"
    MANUAL = "manual"
    WOKEN = "woken"
    IN_FLIGHT = "in_flight"
    GATING = "gating"
    DRAINING = "draining"
    ZERO = "zero"
    AUTOSCALING_OFF = "autoscaling_off"
    GPU_BUDGET = "gpu_budget"
    SKIPPED = "skipped"


class ScalingBound(StrEnum):
    """What limited a scaling decision."""

    UP_LIMIT = "up_limit"
    MAX_FRACTION = "max_fraction"
    STABILISATION = "stabilisation"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    SCHEDULE = "schedule"
    FORECAST = "forecast"
    PROVISIONED = "provisioned"
    GPU_BUDGET = "gpu_budget"
    FLAP_BUDGET = "flap_budget"


class OutcomeResult(StrEnum):
    APPLIED = "applied"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    SUPERSEDED = "superseded"
    DRY_RUN = "dry_run"


class BadInput(StrEnum):
    """Why a message, a row of a frame or a line of a file is no record: the `reason` of a DeadLetter."""

    EMPTY = "empty"
    MALFORMED = "malformed"
    MISSING_FIELD = "missing_field"
    MISSING_COLUMN = "missing_column"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    NOT_FINITE = "not_finite"
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    WRONG_FORMAT = "wrong_format"
    UNKNOWN_TOPIC = "unknown_topic"
