"""Our own metrics: OpenTelemetry instruments everywhere, exposed to Prometheus at /metrics, and exported over OTLP."""

import os
import socket
from collections.abc import Mapping

from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, OTELResourceDetector, Resource
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from headrace.metric_table import views
from headrace.otlp import begin_exports_at_zero, otlp_reader

LAST_EXPORT_MS = 1000
"""How long the end of a process waits for its last export."""


class Metrics:
    """Collects the instruments of `opentelemetry.metrics.get_meter("headrace.ROOM")` into `registry` until `stop`.

    Memory, CPU seconds and open files of the process are in it too. Raises CannotRunError for settings of OTLP that
    cannot be followed. OpenTelemetry takes one provider a process: a second one would not see any instrument, so it
    raises RuntimeError.
    """

    def __init__(self, name: str, environment: Mapping[str, str] = os.environ) -> None:
        if isinstance(metrics.get_meter_provider(), MeterProvider):
            raise RuntimeError(f"metrics of this process were already started, now again as {name!r}")
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        exposition = PrometheusMetricReader(registry=self.registry, disable_target_info=True, scope_info_enabled=False)
        otlp = otlp_reader(environment)
        self._provider = MeterProvider(
            [exposition] if otlp is None else [exposition, otlp],
            resource=_resource(name),
            views=views(),
            shutdown_on_exit=False,
        )
        metrics.set_meter_provider(self._provider)
        if otlp is not None:
            begin_exports_at_zero()

    def stop(self) -> None:
        """Export a last time, if it takes no longer than LAST_EXPORT_MS."""
        self._provider.shutdown(LAST_EXPORT_MS)


def _resource(name: str) -> Resource:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before ours."""
    ours = {SERVICE_NAME: f"headrace-{name}", SERVICE_INSTANCE_ID: f"{socket.gethostname()}:{os.getpid()}"}
    return Resource.create(ours).merge(OTELResourceDetector().detect())
