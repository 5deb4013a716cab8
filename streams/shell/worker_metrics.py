"""What a worker counts, as OpenTelemetry instruments; observed values are read when they are exported."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Histogram, Observation

from records.enums import BadInput
from records.outcomes import DeadLetter
from streams.endpoints.effects import Count
from streams.shell.inputs import INPUT_TOPICS, MEMORY_TOPICS
from wire.zero_counts import begin_at_zero

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bounds for durations; OpenTelemetry's own are made for milliseconds."""

Observed = Callable[[], Iterable[tuple[float, Mapping[str, str]]]]


@dataclass(frozen=True, kw_only=True)
class TransactionTimes:
    """Of a transaction with so many `ticks`: the earliest tick's event time, when the first of them fell due here, and
    begin and end of the transaction; UNIX s."""

    ticks: int
    event_s: float
    due_s: float
    began_s: float
    ended_s: float


class WorkerMetrics:
    """Instruments of one worker process. `observe_gauge` adds one that is read from its owners."""

    def __init__(self) -> None:
        self._meter = metrics.get_meter("headrace.streams")
        self.messages = self._meter.create_counter("headrace_messages_read", description="Kafka messages by topic")
        self.samples = self._meter.create_counter("headrace_samples_read", description="rows of telemetry.requests")
        self.undecodable = self._meter.create_counter(
            "headrace_undecodable", description="dead letters by topic and reason"
        )
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
        self._begin_at_zero()
        self._transaction_s = self._seconds(
            "headrace_transaction_seconds", "from the begin of a transaction to its commit"
        )
        self._tick_s = self._seconds(
            "headrace_tick_duration", "from a transaction's first tick falling due to its commit"
        )
        self._delay_s = self._seconds(
            "headrace_tick_delay", "from the event time of a transaction's oldest tick to its commit"
        )
        self.rebuild_s = self._seconds(
            "headrace_rebuild_duration", "from taking a partition over until its windows are rebuilt"
        )

    def _begin_at_zero(self) -> None:
        for counter in (self.samples, self.ticks, self.fenced, self.failed):
            begin_at_zero(counter)
        begin_at_zero(self.left_out, kind=Count)
        for counter in (self.messages, self.skipped):
            begin_at_zero(counter, topic=INPUT_TOPICS)
        begin_at_zero(self.undecodable, topic={*INPUT_TOPICS, *MEMORY_TOPICS}, reason=BadInput)

    def _seconds(self, name: str, description: str) -> Histogram:
        return self._meter.create_histogram(
            name, unit="s", description=description, explicit_bucket_boundaries_advisory=_SECONDS
        )

    def transaction_written(self, times: TransactionTimes) -> None:
        self.ticks.add(times.ticks)
        self._transaction_s.record(times.ended_s - times.began_s)
        self._tick_s.record(times.ended_s - times.due_s)
        self._delay_s.record(times.ended_s - times.event_s)

    def count_undecodable(self, topic: str, letters: Iterable[DeadLetter]) -> None:
        for reason, count in Counter(letter.reason for letter in letters).items():
            self.undecodable.add(count, {"topic": topic, "reason": reason})

    def observe_gauge(self, name: str, unit: str, description: str, read: Observed) -> None:
        self._meter.create_observable_gauge(name, [_callback(read)], unit=unit, description=description)


def _callback(read: Observed) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, dict(labels)) for value, labels in read()]

    return observe
