"""What two values of a policy may not be together: each rule yields what it finds, and the values it looked at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from decisions.metrics import METRICS, MetricKind, percentile_of, target_of
from decisions.proposals import TOLERANCE
from headrace.policies.problems import KeyPath, path_text
from records.enums import MetricName
from records.fields import TICK_S
from records.policy import EndpointPolicy, Metric
from records.policy_contradictions import Contradiction, contradictions

BOUNDED_TARGET_MAX = 0.9
"""Above it a metric that ends at 1 stays within the tolerance of 10 % around its target, however high the load."""

_BOUNDED = (
    MetricName.GPU_UTILIZATION,
    MetricName.TOKEN_UTILIZATION,
    MetricName.CPU_UTILIZATION,
    MetricName.GPU_MEMORY,
)
"""Utilisations that scale and cannot exceed 1; that of model units is demand over capacity, and can."""

_SEEN_AT_ZERO = (MetricName.INFLIGHT_REQUESTS, MetricName.QUEUE_DEPTH)
"""Metrics that count requests which no replica has yet."""


@dataclass(frozen=True)
class Finding:
    """A broken rule: where it is told, the value there, what is allowed; `involved` are the values it depends on."""

    path: KeyPath
    value: object
    allowed: str
    hint: str = ""
    involved: tuple[KeyPath, ...] = ()


Rule = Callable[[EndpointPolicy], Iterator[Finding]]


def findings(policy: EndpointPolicy) -> list[Finding]:
    """All rules that the policy breaks."""
    return [finding for rule in _RULES for finding in rule(policy)]


def _contradictions(policy: EndpointPolicy) -> Iterator[Finding]:
    """Those of every policy, with what helps whoever wrote it; of targets `_metric_targets` says more."""
    for found in contradictions(policy):
        if found.path[-1] != "target" or found.path[0] != "metrics":
            yield Finding(found.path, found.value, found.allowed, _hint(found), found.involved)


def _hint(found: Contradiction) -> str:
    match found.path:
        case ("minReplicas",):
            return "equal ones turn autoscaling off"
        case (_, "everySeconds"):
            return f"decisions come every {TICK_S} s"
        case ("metrics", _, "name"):
            return f"also in {path_text(found.involved[0])}"
        case _:
            return ""


def _provisioned(policy: EndpointPolicy) -> Iterator[Finding]:
    high = policy.max_replicas
    floor = policy.provisioned_concurrency / policy.concurrency.target
    if floor > high:
        most = int(high * policy.concurrency.target)
        involved: tuple[KeyPath, ...] = (("maxReplicas",), ("concurrency", "target"))
        hint = "its replicas are a floor that load 0 could not leave"
        yield Finding(("provisionedConcurrency",), policy.provisioned_concurrency, f"0 to {most}", hint, involved)


def _metric_targets(policy: EndpointPolicy) -> Iterator[Finding]:
    for index, metric in enumerate(policy.metrics):
        path: KeyPath = ("metrics", index, "target")
        spec, target = METRICS[metric.name], target_of(policy, metric)
        if spec.scales and target is None:
            yield Finding(path, None, f"above 0, {spec.unit}", f"{metric.name} has no default target")
        elif spec.kind is MetricKind.UTILISATION and target is not None:
            yield from _utilisation_target(path, metric, target)


def _utilisation_target(path: KeyPath, metric: Metric, target: float) -> Iterator[Finding]:
    bounded = metric.name in _BOUNDED
    high = BOUNDED_TARGET_MAX if bounded else 1.0
    if target > 1:
        yield Finding(path, target, f"above 0 to {high:g}", "a fraction: 80 % is 0.8" if target <= 100 else "")
    elif target > high:
        hint = (
            f"no load can reach it: within {TOLERANCE:.0%} of the target nothing changes, and {metric.name} ends at 1"
        )
        yield Finding(path, target, f"above 0 to {high:g}", hint)


def _inflight_targets(policy: EndpointPolicy) -> Iterator[Finding]:
    axis = policy.concurrency
    for index, metric in enumerate(policy.metrics):
        if metric.name is not MetricName.INFLIGHT_REQUESTS or metric.target is None:
            continue
        path: KeyPath = ("metrics", index, "target")
        if metric.target > axis.max:
            hint = "no load can reach it: a replica is never given more than concurrency.max"
            involved: tuple[KeyPath, ...] = (("concurrency", "max"),)
            yield Finding(path, metric.target, f"up to concurrency.max, {axis.max:g}", hint, involved)
        elif not axis.auto and metric.target != axis.target:
            hint = "with auto: false one in-flight target holds; leave this one out"
            involved = (("concurrency", "target"), ("concurrency", "auto"))
            yield Finding(path, metric.target, f"concurrency.target, {axis.target:g}", hint, involved)


def _metric_list(policy: EndpointPolicy) -> Iterator[Finding]:
    for index, metric in enumerate(policy.metrics):
        if metric.percentile is not None and percentile_of(metric) is None:
            values = ", ".join(name for name, spec in METRICS.items() if spec.kind is MetricKind.VALUE)
            yield Finding(("metrics", index, "percentile"), metric.percentile, f"none; only for {values}")
    names = [metric.name for metric in policy.metrics]
    if not any(METRICS[name].scales for name in names):
        yield Finding(
            ("metrics",), list(names), "one that scales besides", "cache_hit_rate is reported and never scales"
        )
    elif policy.min_replicas == 0 and not any(name in _SEEN_AT_ZERO for name in names):
        hint = "load 0 could not be left: the others are measured on ready replicas"
        involved: tuple[KeyPath, ...] = (("minReplicas",),)
        allowed = f"with minReplicas 0 one of {', '.join(_SEEN_AT_ZERO)} besides"
        yield Finding(("metrics",), list(names), allowed, hint, involved)


def _workloads(policy: EndpointPolicy) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, workload in enumerate(policy.workloads):
        first = seen.setdefault(workload.name, index)
        if first != index:
            hint, involved = f"also in workloads[{first}]", (("workloads", first),)
            yield Finding(("workloads", index, "name"), workload.name, "each name once", hint, involved)


def _targets(policy: EndpointPolicy) -> Iterator[Finding]:
    if policy.roles is not None:
        hint = "leave roles out, and size prefill and decode as two endpoints"
        yield Finding(("roles",), "given", "null; this version does not decide by roles", hint)
    elif policy.scale_target_ref is None:
        yield Finding(("scaleTargetRef",), None, "a mapping with kind, name, apiVersion, namespace", "what to scale")


_RULES: tuple[Rule, ...] = (
    _contradictions,
    _provisioned,
    _metric_targets,
    _inflight_targets,
    _metric_list,
    _workloads,
    _targets,
)
