"""The metrics that a policy may name: what kind of number each is, its unit and the target it has by default."""

from enum import StrEnum
from functools import lru_cache

import msgspec

from decisions.chain import rounded
from records.enums import MetricName, Percentile
from records.policy import Concurrency, EndpointPolicy, Metric, Slo


class MetricKind(StrEnum):
    """How a metric becomes replicas.

    `total`: a sum over all replicas, divided by the target of one; `utilisation`: 0..1, a mean over ready replicas;
    `value`: a percentile in ms over all requests.
    """

    TOTAL = "total"
    UTILISATION = "utilisation"
    VALUE = "value"


class MetricSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`unit` is that of the observed value and, for a replica, of the target; `default_target` null: none makes sense.

    A metric with `scales = False` is reported in every decision and proposes nothing.
    """

    kind: MetricKind
    unit: str
    default_target: float | None
    scales: bool = True


def _total(unit: str, target: float | None = None) -> MetricSpec:
    return MetricSpec(kind=MetricKind.TOTAL, unit=unit, default_target=target)


def _utilisation(target: float | None, scales: bool = True) -> MetricSpec:
    return MetricSpec(kind=MetricKind.UTILISATION, unit="fraction", default_target=target, scales=scales)


def _value(target: float | None) -> MetricSpec:
    return MetricSpec(kind=MetricKind.VALUE, unit="ms", default_target=target)


METRICS: dict[MetricName, MetricSpec] = {
    MetricName.INFLIGHT_REQUESTS: _total("requests"),
    MetricName.THROUGHPUT_PER_REPLICA: _total("tokens/s"),
    MetricName.QUEUE_DEPTH: _total("requests", 5.0),
    MetricName.ACTIVE_SESSIONS: _total("sessions"),
    MetricName.MODEL_UNIT_UTILIZATION: _utilisation(0.75),
    MetricName.GPU_UTILIZATION: _utilisation(0.8),
    MetricName.TOKEN_UTILIZATION: _utilisation(0.8),
    MetricName.CPU_UTILIZATION: _utilisation(0.8),
    MetricName.GPU_MEMORY: _utilisation(None),
    MetricName.CACHE_HIT_RATE: _utilisation(None, scales=False),
    MetricName.TTFT: _value(500.0),
    MetricName.DECODING_SPEED: _value(50.0),
    MetricName.E2E_LATENCY: _value(None),
}
"""Defaults: 0.75 of model units (decisions.md), 500 ms and 50 ms (the policy example of contract.md); 5 queued requests
and 0.8 of the KV cache are llm-d's thresholds of saturation; 0.8 of GPUs and CPUs is Kubernetes' default for CPUs.
Throughput, sessions, GPU memory (engines reserve it when they start) and end-to-end times have no value that suits
most models: a policy that names one must give its target."""


def percentile_of(metric: Metric) -> Percentile | None:
    """Give the percentile that is read: null for the kinds that have none, p95 unless the policy names another."""
    if METRICS[metric.name].kind is not MetricKind.VALUE:
        return None
    return metric.percentile or Percentile.P95


def metric_key(metric: Metric) -> str:
    """Name the metric in a signal's windows: `ttft`, or `ttft:p50` for another percentile than p95."""
    percentile = percentile_of(metric)
    if percentile is None or percentile is Percentile.P95:
        return metric.name.value
    return f"{metric.name.value}:{percentile.value}"


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy says of one of its metrics, so that no tick looks it up again: `target` with 9 digits, null where
    there is none; `key` as `metric_key`."""

    name: MetricName
    key: str
    percentile: Percentile | None
    kind: MetricKind
    scales: bool
    target: float | None


def terms_of(policy: EndpointPolicy) -> tuple[Term, ...]:
    """Give the terms of all metrics of a policy, in its order."""
    return _terms(policy.metrics, policy.concurrency, policy.slo)


@lru_cache(maxsize=1024)
def _terms(metrics: tuple[Metric, ...], concurrency: Concurrency, slo: Slo) -> tuple[Term, ...]:
    made = []
    for metric in metrics:
        spec, target = METRICS[metric.name], _target(metric, concurrency, slo)
        made.append(
            Term(
                name=metric.name,
                key=metric_key(metric),
                percentile=percentile_of(metric),
                kind=spec.kind,
                scales=spec.scales,
                target=None if target is None else rounded(target),
            )
        )
    return tuple(made)


def target_of(policy: EndpointPolicy, metric: Metric) -> float | None:
    """Give the target that divides the metric; null where neither the policy nor the metric has one.

    In-flight requests take the concurrency target, p95 latencies the policy's SLO before the metric's default.
    """
    return _target(metric, policy.concurrency, policy.slo)


def _target(metric: Metric, concurrency: Concurrency, slo: Slo) -> float | None:
    if metric.target is not None:
        return metric.target
    if metric.name is MetricName.INFLIGHT_REQUESTS:
        return concurrency.target
    if percentile_of(metric) is Percentile.P95:
        if metric.name is MetricName.TTFT and slo.ttft_p95_ms is not None:
            return slo.ttft_p95_ms
        if metric.name is MetricName.DECODING_SPEED and slo.tpot_p95_ms is not None:
            return slo.tpot_p95_ms
    return METRICS[metric.name].default_target
