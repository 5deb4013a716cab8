"""Every metric of Headrace, once: what /metrics and OTLP show of it, and docs/health.md tells.

`python -m headrace.metric_table` prints the table of docs/health.md. An instrument's labels are held to those named
here, whatever its room adds to a count: each has few values, which no sender of telemetry chooses.
"""

import sys
from dataclasses import dataclass

from opentelemetry.sdk.metrics.view import View

SUFFIXES = {"s": "_seconds", "By": "_bytes"}
"""What Prometheus' exposition adds to a name, by unit; counters get `_total` too."""


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` is the instrument's, as OTLP has it; `unit` its unit, empty for counts."""

    name: str
    process: str
    unit: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def exposed_name(self) -> str:
        """At /metrics, but for a counter's `_total`."""
        suffix = SUFFIXES.get(self.unit, "")
        return self.name if self.name.endswith(suffix) else self.name + suffix


def _of(process: str, *rows: tuple[str, str, str, str]) -> tuple[Metric, ...]:
    """Rows of name, unit, labels with blanks between, and meaning."""
    return tuple(Metric(name, process, unit, tuple(labels.split()), meaning) for name, unit, labels, meaning in rows)


METRICS: tuple[Metric, ...] = (
    *_of(
        "worker",
        ("headrace_messages_read", "", "topic", "Kafka messages"),
        ("headrace_messages_skipped", "", "topic", "messages left unread under a load beyond capacity"),
        ("headrace_samples_read", "", "", "rows of `telemetry.requests` that were read: a frame has many"),
        ("headrace_undecodable", "", "topic reason", "records that could not be read, by why"),
        (
            "headrace_rows_left_out",
            "",
            "kind",
            "rows that do not count, or count only once: `late`, `duplicate`, `replaced`, `no_policy` and so on",
        ),
        (
            "headrace_sources_off",
            "",
            "state",
            "sources whose clock is off, and `corrected` or `quarantined`",
        ),
        ("headrace_partition_lag_seconds", "s", "partition", "seconds of telemetry not worked on yet"),
        ("headrace_partition_unread", "", "partition topic", "messages not read yet"),
        ("headrace_partitions_by_state", "", "state", "partitions held, by what is done with them"),
        ("headrace_partitions_fenced", "", "", "partitions lost to another owner"),
        ("headrace_partitions_failed", "", "", "partitions taken over anew after an error"),
        (
            "headrace_offset_commit_failures",
            "",
            "",
            "commits of progress that Kafka refused: only its own lag tools suffer",
        ),
        ("headrace_ticks_written", "", "", "ticks in committed transactions"),
        ("headrace_tick_delay", "s", "", "from the event time of the oldest tick in a transaction to its commit"),
        ("headrace_tick_duration", "s", "", "from when a transaction's first tick fell due here to its commit"),
        ("headrace_transaction_seconds", "s", "", "how long transactions took"),
        ("headrace_rebuild_duration", "s", "", "from taking a partition over until its windows were rebuilt"),
        ("headrace_window_series", "", "partition", "series in the windows"),
        (
            "headrace_window_memory",
            "By",
            "partition",
            "memory of the windows: divide by the series",
        ),
    ),
    *_of(
        "actuator",
        ("headrace_actuator_outcomes", "", "result", "outcomes written"),
        ("headrace_actuator_calls", "", "call result", "calls to scale targets"),
        ("headrace_actuator_conflicts", "", "", "changes refused since the target had another version by then"),
        ("headrace_actuator_retries", "", "", "further attempts to carry a decision out"),
        ("headrace_actuator_decision_to_applied", "s", "", "from a decision's tick to the changed target, event time"),
        ("headrace_actuator_read_to_applied", "s", "", "from reading a decision to the changed target, real time"),
        ("headrace_actuator_open_decisions", "", "", "decisions read that have no outcome yet"),
        ("headrace_actuator_undecodable", "", "topic", "messages that are no record"),
        ("headrace_actuator_broken_chains", "", "", "decisions that do not follow the one before"),
        (
            "headrace_actuator_misplaced",
            "",
            "",
            "decisions in another partition than their endpoint's, left out",
        ),
    ),
    *_of(
        "sink",
        ("headrace_sink_rows", "", "table", "rows committed"),
        ("headrace_sink_commits", "", "table", "commits"),
        ("headrace_sink_commit_retries", "", "table", "commits that were tried again"),
        ("headrace_sink_flush_duration", "s", "table", "from the start of a flush to its commit"),
        ("headrace_sink_lag_offsets", "", "", "records not read yet"),
        ("headrace_sink_buffered_bytes", "By", "", "read and not committed yet"),
        ("headrace_sink_lost_offsets", "", "topic", "records that Kafka deleted before they were read"),
    ),
    *_of(
        "collect",
        ("headrace_collect_samples", "", "endpoint replica", "samples made"),
        (
            "headrace_collect_answers",
            "",
            "endpoint replica path outcome",
            "answers of engines, and failures to get one",
        ),
        ("headrace_collect_problems", "", "endpoint replica kind", "what was left out of answers"),
        ("headrace_collect_body", "By", "endpoint replica", "text of /metrics that was read"),
        ("headrace_collect_broken_lines", "", "endpoint", "lines of a recording that are no answer"),
    ),
    *_of(
        "fleet",
        ("headrace_fleet_replicas", "", "endpoint state", "simulated replicas"),
        ("headrace_fleet_requests", "", "endpoint outcome", "simulated requests"),
        ("headrace_fleet_behind", "s", "", "event seconds that are due and not simulated yet"),
        ("headrace_fleet_api_calls", "", "call result", "calls of its API"),
    ),
    *_of(
        "collect, fleet, pods",
        (
            "headrace_producer_records",
            "",
            "outcome",
            "records by what became of them: `sent`, or dropped: `oldest`, `unreadable` and so on",
        ),
        ("headrace_producer_waiting", "", "", "records in the buffer"),
    ),
    *_of(
        "all, with OTLP",
        ("headrace_otlp_exports", "", "result", "exports of these metrics over OTLP: `sent` or `failed`"),
    ),
)


def views() -> list[View]:
    """For the SDK: each instrument keeps its own labels and no others."""
    return [View(instrument_name=metric.name, attribute_keys=set(metric.labels)) for metric in METRICS]


def table() -> str:
    """The Markdown table of docs/health.md."""
    rows = ["| metric | process | unit | labels | what it counts |", "|---|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.exposed_name}` | {metric.process} | {metric.unit} | {labels} | {metric.meaning} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
