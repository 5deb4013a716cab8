"""What a sink counts, once a flush or a poll; exposed by whoever owns the process."""

from collections.abc import Iterable

from opentelemetry.metrics import get_meter

from wire import zero_counts

_meter = get_meter("headrace.sinks")

rows = _meter.create_counter("headrace_sink_rows", description="Rows committed, by table")
commits = _meter.create_counter("headrace_sink_commits", description="Commits with rows or progress, by table")
retries = _meter.create_counter("headrace_sink_commit_retries", description="Commits that were tried again, by table")
flush_duration = _meter.create_histogram(
    "headrace_sink_flush_duration",
    unit="s",
    description="From the start of a flush to its commit, by table",
    explicit_bucket_boundaries_advisory=(0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
lost_offsets = _meter.create_counter(
    "headrace_sink_lost_offsets", description="Offsets that the topic had deleted before they were read, by topic"
)
lag_offsets = _meter.create_gauge(
    "headrace_sink_lag_offsets", description="Offsets between what was read and the topics' ends, over all partitions"
)
buffered_bytes = _meter.create_gauge(
    "headrace_sink_buffered_bytes", unit="By", description="Bytes read and not committed yet"
)


def begin_at_zero(tables: Iterable[str], topics: Iterable[str]) -> None:
    """All counters, by the tables and the names of topics on the cluster."""
    kept = list(tables)
    for counter in (rows, commits, retries):
        zero_counts.begin_at_zero(counter, table=kept)
    zero_counts.begin_at_zero(lost_offsets, topic=topics)
