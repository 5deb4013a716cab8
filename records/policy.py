"""EndpointPolicy: what an operator wants for one endpoint, with the keys and defaults of the YAML document."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from records.enums import MetricName, Mode, Percentile
from records.fields import Amount, Count, Name

PositiveSeconds = Annotated[int, Meta(ge=1, le=86_400 * 7)]
Seconds = Annotated[int, Meta(ge=0, le=86_400 * 7)]
Replicas = Annotated[int, Meta(ge=0, le=100_000)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A section of the policy document: keys in camel case, as Kubernetes users write them."""


class ScaleTargetRef(_Section, frozen=True, kw_only=True):
    kind: Name
    name: Name
    api_version: Name = "apps/v1"
    namespace: Name = "default"


class ModelCoefficients(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a request in model units: `a*uncached_input + b*output + c*uncached_input*output/1000 + d*cached_input
    + e*images + f`, scaled so that one replica does `capacity_model_units_per_min` a minute at its best mix."""

    name: Name
    hardware: Name
    a: Amount = 0.0
    b: Amount = 0.0
    c: Amount = 0.0
    d: Amount = 0.0
    e: Amount = 0.0
    f: Amount = 0.0
    capacity_model_units_per_min: Annotated[float, Meta(gt=0, le=1e12)] = 100.0
    source: str | None = None
    fitted_at: str | None = None
    error: float | None = None


class Model(_Section, frozen=True, kw_only=True):
    name: Name | None = None
    hardware: Name | None = None
    startup_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 300.0
    coefficients: ModelCoefficients | None = None
    """Resolved from `DIR/models/*.yaml` when the policy is published; never written by hand."""


class Workload(_Section, frozen=True, kw_only=True):
    name: Name
    guaranteed_model_units_per_minute: Amount = 0.0


class Concurrency(_Section, frozen=True, kw_only=True, cache_hash=True):
    target: Annotated[float, Meta(gt=0, le=1e6)] = 8.0
    min: Annotated[float, Meta(gt=0, le=1e6)] = 2.0
    max: Annotated[float, Meta(gt=0, le=1e6)] = 64.0
    auto: bool = True


class Metric(_Section, frozen=True, kw_only=True, cache_hash=True):
    """`target` in the metric's own unit; null: the default of that metric (in-flight: the concurrency target)."""

    name: MetricName
    target: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    percentile: Percentile | None = None


class ScaleUp(_Section, frozen=True, kw_only=True):
    window_seconds: Annotated[int, Meta(ge=5, le=300)] = 20
    every_seconds: Annotated[int, Meta(ge=5, le=3600)] = 5
    max_factor: Annotated[float, Meta(ge=1, le=1000)] = 2.0
    max_step: Annotated[int, Meta(ge=1, le=100_000)] = 4


class ScaleDown(_Section, frozen=True, kw_only=True):
    window_seconds: Annotated[int, Meta(ge=5, le=3600)] = 300
    every_seconds: Annotated[int, Meta(ge=5, le=3600)] = 5
    max_fraction: Annotated[float, Meta(gt=0, le=1)] = 0.5


class ZeroCost(_Section, frozen=True, kw_only=True):
    idle_per_hour: Amount
    cold_start_penalty: Amount


class ScaleToZero(_Section, frozen=True, kw_only=True):
    after_seconds: PositiveSeconds = 900
    cost: ZeroCost | None = None


class Forecasting(_Section, frozen=True, kw_only=True):
    enabled: bool = True
    horizon: Literal["startup_p95"] = "startup_p95"


class Schedule(_Section, frozen=True, kw_only=True):
    zone: Name
    days: Name
    from_: Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")] = msgspec.field(name="from")
    to: Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    min: Replicas


class RolePolicy(_Section, frozen=True, kw_only=True):
    scale_target_ref: ScaleTargetRef
    min: Replicas
    max: Replicas
    metrics: tuple[Metric, ...] = ()


class RoleRatio(_Section, frozen=True, kw_only=True):
    min: Annotated[float, Meta(gt=0, le=1000)]
    max: Annotated[float, Meta(gt=0, le=1000)]


class Roles(_Section, frozen=True, kw_only=True):
    prefill: RolePolicy
    decode: RolePolicy
    ratio: RoleRatio | None = None


class Slo(_Section, frozen=True, kw_only=True, cache_hash=True):
    ttft_p95_ms: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    tpot_p95_ms: Annotated[float, Meta(gt=0, le=1e9)] | None = None


class HealthProbing(_Section, frozen=True, kw_only=True):
    probe_after_idle_seconds: PositiveSeconds = 10
    probe_timeout_seconds: PositiveSeconds = 10
    failures: Annotated[int, Meta(ge=1, le=100)] = 3


class Routing(_Section, frozen=True, kw_only=True):
    sticky: bool = True
    subset_max: Annotated[int, Meta(ge=1, le=10_000)] = 4


class EndpointPolicy(_Section, frozen=True, kw_only=True):
    """Required: endpoint, minReplicas, maxReplicas, metrics and (without `roles`) scaleTargetRef."""

    endpoint: Name
    min_replicas: Replicas
    max_replicas: Replicas
    metrics: Annotated[tuple[Metric, ...], Meta(min_length=1, max_length=32)]
    scale_target_ref: ScaleTargetRef | None = None
    mode: Mode = Mode.ACT
    model: Model = Model()
    workloads: tuple[Workload, ...] = ()
    provisioned_concurrency: Count = 0
    concurrency: Concurrency = Concurrency()
    scale_up: ScaleUp = ScaleUp()
    scale_down: ScaleDown = ScaleDown()
    patience_seconds: Seconds = 600
    scale_to_zero: ScaleToZero = ScaleToZero()
    forecast: Forecasting = Forecasting()
    schedules: tuple[Schedule, ...] = ()
    roles: Roles | None = None
    slo: Slo = Slo()
    health: HealthProbing = HealthProbing()
    routing: Routing = Routing()
    respect_manual_seconds: Seconds = 0
