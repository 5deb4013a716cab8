"""Exports metrics over OTLP/HTTP where OpenTelemetry's own variables name an endpoint; a receiver that is away does no
harm."""

import logging
from collections.abc import Mapping
from typing import Any

import structlog
from opentelemetry import metrics
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)

from headrace.exit_codes import CannotRunError
from headrace.otlp_settings import ENDPOINTS, otlp_problems
from wire.web_logins import without_logins
from wire.zero_counts import begin_at_zero

LIBRARY = "opentelemetry"

log = structlog.get_logger("headrace.otlp")

_exports = metrics.get_meter("headrace.process").create_counter(
    "headrace_otlp_exports", description="exports over OTLP by result"
)


def begin_exports_at_zero() -> None:
    """Once the process has its meter provider."""
    begin_at_zero(_exports, result=("sent", "failed"))


def otlp_reader(environment: Mapping[str, str]) -> MetricReader | None:
    """What exports, every OTEL_METRIC_EXPORT_INTERVAL ms (60,000); null where no endpoint is set, or
    OTEL_METRICS_EXPORTER or OTEL_SDK_DISABLED turn it off.

    Raises CannotRunError for variables of OpenTelemetry that cannot be followed: an address, a file, a time.
    """
    is_given = any(environment.get(name) for name in ENDPOINTS)
    is_off = environment.get("OTEL_METRICS_EXPORTER") == "none"
    if not is_given or is_off or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if problems := otlp_problems(environment):
        raise CannotRunError("\n".join(problems))
    # Imported here: most processes export nothing, and it brings an HTTP client of its own.
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    exporter = OTLPMetricExporter()
    return PeriodicExportingMetricReader(QuietExporter(exporter, exporter._endpoint))


class _FirstMessage(logging.Handler):
    """Keeps what the library says first of an export, which has the cause: it logs each attempt, and last that there
    will be none."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = self.text or record.getMessage()


class QuietExporter(MetricExporter):
    """Hands on to `exporter`; logs one line when exporting to `url` begins to fail, and one when it works again."""

    def __init__(self, exporter: MetricExporter, url: str) -> None:
        super().__init__(exporter._preferred_temporality, exporter._preferred_aggregation)
        self._exporter = exporter
        self._url = without_logins(url)
        self._is_failing = False
        self._said = _FirstMessage()
        library = logging.getLogger(LIBRARY)
        library.addHandler(self._said)
        library.propagate = False

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        self._said.text = ""
        try:
            result = self._exporter.export(metrics_data, timeout_millis=timeout_millis, **kwargs)
        except Exception as error:
            self._said.text = repr(error)
            result = MetricExportResult.FAILURE
        failed = result is not MetricExportResult.SUCCESS
        _exports.add(1, {"result": "failed" if failed else "sent"})
        if failed and not self._is_failing:
            log.warning("otlp_export_failed", url=self._url, error=without_logins(self._said.text))
        elif self._is_failing and not failed:
            log.info("otlp_export_resumed", url=self._url)
        self._is_failing = failed
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self._exporter.shutdown(timeout_millis, **kwargs)
