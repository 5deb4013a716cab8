"""What values of one policy may not be together, as far as deciding by it would make no sense."""

from collections.abc import Iterator

from records.enums import MetricName
from records.fields import TICK_S
from records.policy import EndpointPolicy

UTILISATIONS = frozenset(
    {
        MetricName.GPU_UTILIZATION,
        MetricName.TOKEN_UTILIZATION,
        MetricName.MODEL_UNIT_UTILIZATION,
        MetricName.CPU_UTILIZATION,
        MetricName.GPU_MEMORY,
    }
)


def contradictions(policy: EndpointPolicy) -> Iterator[tuple[str, str]]:
    """The path of a wrong key, as in the document, and what is allowed there."""
    if policy.min_replicas > policy.max_replicas:
        yield "minReplicas", f"at most maxReplicas, {policy.max_replicas}"
    for key, cycle in (("scaleUp", policy.scale_up), ("scaleDown", policy.scale_down)):
        if cycle.every_seconds % TICK_S:
            yield f"{key}.everySeconds", f"a multiple of {TICK_S}"
        if cycle.window_seconds < cycle.every_seconds:
            yield f"{key}.windowSeconds", f"at least everySeconds, {cycle.every_seconds}"
    if not policy.concurrency.min <= policy.concurrency.target <= policy.concurrency.max:
        yield "concurrency.target", f"{policy.concurrency.min:g} to {policy.concurrency.max:g}"
    seen = set()
    for index, metric in enumerate(policy.metrics):
        if metric.name in UTILISATIONS and metric.target is not None and metric.target > 1:
            yield f"metrics[{index}].target", "above 0, at most 1"
        if (metric.name, metric.percentile) in seen:
            yield f"metrics[{index}].name", "each metric once"
        seen.add((metric.name, metric.percentile))
