"""Our own metrics: OpenTelemetry instruments everywhere, exposed to Prometheus at /metrics."""

from functools import cache

from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector


@cache
def start_metrics(name: str) -> CollectorRegistry:
    """Collect the instruments of `opentelemetry.metrics.get_meter("headrace.ROOM")` into one registry.

    Memory, CPU seconds and open files of the process are in it too. OpenTelemetry takes one provider a process: the
    second call with another name would not see any instrument, so it raises RuntimeError.
    """
    if isinstance(metrics.get_meter_provider(), MeterProvider):
        raise RuntimeError(f"metrics of this process were already started, now again as {name!r}")
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    reader = PrometheusMetricReader(registry=registry, disable_target_info=True, scope_info_enabled=False)
    metrics.set_meter_provider(MeterProvider([reader], resource=Resource({SERVICE_NAME: f"headrace-{name}"})))
    return registry
