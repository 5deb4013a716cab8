"""What values of one policy may not be together, as far as deciding by it would make no sense.

Whoever publishes a policy file is told with its lines (headrace/policies); whoever publishes past that makes a dead
letter.
"""

from collections.abc import Iterator

import msgspec

from records.enums import MetricName, Percentile
from records.fields import TICK_S
from records.policy import EndpointPolicy, Metric

KeyPath = tuple[str | int, ...]
"""Where a value is in a document: `("metrics", 1, "target")` is written `metrics[1].target`."""

UTILISATIONS = frozenset(
    {
        MetricName.GPU_UTILIZATION,
        MetricName.TOKEN_UTILIZATION,
        MetricName.MODEL_UNIT_UTILIZATION,
        MetricName.CPU_UTILIZATION,
        MetricName.GPU_MEMORY,
    }
)

_LATENCIES = frozenset({MetricName.TTFT, MetricName.DECODING_SPEED, MetricName.E2E_LATENCY})
"""Metrics that are read at a percentile, p95 unless another is named."""


class Contradiction(msgspec.Struct, frozen=True):
    """The path of a wrong value, the value, what is allowed there, and the paths of the others that it depends on."""

    path: KeyPath
    value: object
    allowed: str
    involved: tuple[KeyPath, ...] = ()


def path_text(path: KeyPath) -> str:
    """`metrics[1].target`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def contradictions(policy: EndpointPolicy) -> Iterator[Contradiction]:
    """All that there is, by keys as in the document."""
    low, high = policy.min_replicas, policy.max_replicas
    if low > high:
        both: tuple[KeyPath, ...] = (("minReplicas",), ("maxReplicas",))
        yield Contradiction(("minReplicas",), low, f"0 to maxReplicas, {high}", both)
    yield from _cycles(policy)
    yield from _concurrency(policy)
    yield from _metrics(policy)


def _cycles(policy: EndpointPolicy) -> Iterator[Contradiction]:
    for key, cycle in (("scaleUp", policy.scale_up), ("scaleDown", policy.scale_down)):
        every, window = cycle.every_seconds, cycle.window_seconds
        if every % TICK_S:
            yield Contradiction((key, "everySeconds"), every, f"a multiple of {TICK_S}")
        if window < every:
            involved: tuple[KeyPath, ...] = ((key, "everySeconds"),)
            yield Contradiction((key, "windowSeconds"), window, f"everySeconds, {every}, or more", involved)


def _concurrency(policy: EndpointPolicy) -> Iterator[Contradiction]:
    axis = policy.concurrency
    low, target, high = (("concurrency", key) for key in ("min", "target", "max"))
    if axis.min > axis.max:
        yield Contradiction(low, axis.min, f"up to concurrency.max, {axis.max:g}", (high,))
    elif not axis.min <= axis.target <= axis.max:
        allowed = f"concurrency.min to concurrency.max, {axis.min:g} to {axis.max:g}"
        yield Contradiction(target, axis.target, allowed, (low, high))


def _metrics(policy: EndpointPolicy) -> Iterator[Contradiction]:
    seen: dict[tuple[MetricName, Percentile | None], int] = {}
    for index, metric in enumerate(policy.metrics):
        if metric.name in UTILISATIONS and metric.target is not None and metric.target > 1:
            yield Contradiction(("metrics", index, "target"), metric.target, "above 0 to 1")
        first = seen.setdefault(_identity(metric), index)
        if first != index:
            yield Contradiction(("metrics", index, "name"), metric.name, "each metric once", (("metrics", first),))


def _identity(metric: Metric) -> tuple[MetricName, Percentile | None]:
    """What is measured: two metrics of the same would be one value in a signal."""
    return metric.name, (metric.percentile or Percentile.P95) if metric.name in _LATENCIES else None
