"""What a worker counts, as OpenTelemetry instruments; observed values are read when they are exported."""

from collections.abc import Callable, Iterable, Mapping

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds for durations; OpenTelemetry's own are made for milliseconds."""

Observed = Callable[[], Iterable[tuple[float, Mapping[str, str]]]]


class WorkerMetrics:
    """Instruments of one worker process. `observe_gauge` adds one that is read from its owners."""

    def __init__(self) -> None:
        self._meter = metrics.get_meter("headrace.streams")
        self.messages = self._meter.create_counter("headrace_messages_read", description="Kafka messages by topic")
        self.undecodable = self._meter.create_counter("headrace_undecodable", description="dead letters by topic")
        self.left_out = self._meter.create_counter(
            "headrace_rows_left_out", description="rows by why they do not count"
        )
        self.skipped = self._meter.create_counter(
            "headrace_messages_skipped", description="left unread under a load beyond capacity, by topic"
        )
        self.ticks = self._meter.create_counter("headrace_ticks_written", description="ticks in committed transactions")
        self.fenced = self._meter.create_counter(
            "headrace_partitions_fenced", description="given up because another worker has taken them over"
        )
        self.failed = self._meter.create_counter("headrace_partitions_failed", description="and were taken over anew")
        self._transaction_s = self._meter.create_histogram(
            "headrace_transaction_seconds",
            unit="s",
            description="from the begin of a transaction to its commit",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )

    def transaction_written(self, ticks: int, seconds: float) -> None:
        self.ticks.add(ticks)
        self._transaction_s.record(seconds)

    def observe_gauge(self, name: str, unit: str, description: str, read: Observed) -> None:
        self._meter.create_observable_gauge(name, [_callback(read)], unit=unit, description=description)


def _callback(read: Observed) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, dict(labels)) for value, labels in read()]

    return observe
