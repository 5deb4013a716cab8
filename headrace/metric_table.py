"""Every metric of Headrace, once: what /metrics and OTLP show of it, and docs/health.md tells.

`python -m headrace.metric_table` prints the table of docs/health.md. An instrument's labels are held to those named
here, whatever its room adds to a count: each has few values, which no sender of telemetry chooses.
"""

import sys
from dataclasses import dataclass
from typing import Literal

from opentelemetry.sdk.metrics.view import View

Kind = Literal["counter", "gauge", "histogram"]

SUFFIXES = {"s": "_seconds", "By": "_bytes"}
"""What Prometheus' exposition adds to a name, by unit; counters get `_total` too."""


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` is the instrument's, as OTLP has it; `unit` its unit, empty for counts."""

    name: str
    kind: Kind
    process: str
    unit: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def exposed_name(self) -> str:
        """At /metrics; a histogram's series have `_bucket`, `_sum` and `_count` after it."""
        suffix = SUFFIXES.get(self.unit, "")
        named = self.name if self.name.endswith(suffix) else self.name + suffix
        return f"{named}_total" if self.kind == "counter" else named


def _of(process: str, *rows: tuple[str, Kind, str, str, str]) -> tuple[Metric, ...]:
    """Rows of name, kind, unit, labels with blanks between, and meaning."""
    return tuple(
        Metric(name, kind, process, unit, tuple(labels.split()), meaning) for name, kind, unit, labels, meaning in rows
    )


METRICS: tuple[Metric, ...] = (
    *_of(
        "worker",
        ("headrace_messages_read", "counter", "", "topic", "Kafka messages"),
        ("headrace_messages_skipped", "counter", "", "topic", "messages left unread under a load beyond capacity"),
        ("headrace_samples_read", "counter", "", "", "rows of `telemetry.requests` that were read: a frame has many"),
        ("headrace_undecodable", "counter", "", "topic reason", "records that could not be read, by why"),
        (
            "headrace_rows_left_out",
            "counter",
            "",
            "kind",
            "rows that do not count, or count only once: `late`, `duplicate`, `replaced`, `no_policy` and so on",
        ),
        (
            "headrace_sources_off",
            "gauge",
            "",
            "state",
            "sources whose clock is off, and `corrected` or `quarantined`",
        ),
        ("headrace_partition_lag_seconds", "gauge", "s", "partition", "seconds of telemetry not worked on yet"),
        ("headrace_partition_unread", "gauge", "", "partition topic", "messages not read yet"),
        ("headrace_partitions_by_state", "gauge", "", "state", "partitions held, by what is done with them"),
        ("headrace_partitions_fenced", "counter", "", "", "partitions lost to another owner"),
        ("headrace_partitions_failed", "counter", "", "", "partitions taken over anew after an error"),
        (
            "headrace_offset_commit_failures",
            "counter",
            "",
            "",
            "commits of progress that Kafka refused: only its own lag tools suffer",
        ),
        ("headrace_ticks_written", "counter", "", "", "ticks in committed transactions"),
        (
            "headrace_tick_delay",
            "histogram",
            "s",
            "",
            "from the event time of the oldest tick in a transaction to its commit",
        ),
        (
            "headrace_tick_duration",
            "histogram",
            "s",
            "",
            "from when a transaction's first tick fell due here to its commit",
        ),
        ("headrace_transaction_seconds", "histogram", "s", "", "how long transactions took"),
        (
            "headrace_rebuild_duration",
            "histogram",
            "s",
            "",
            "from taking a partition over until its windows were rebuilt",
        ),
        ("headrace_window_series", "gauge", "", "partition", "series in the windows"),
        (
            "headrace_window_memory",
            "gauge",
            "By",
            "partition",
            "memory of the windows: divide by the series",
        ),
    ),
    *_of(
        "actuator",
        ("headrace_actuator_outcomes", "counter", "", "result", "outcomes written"),
        ("headrace_actuator_calls", "counter", "", "call result", "calls to scale targets"),
        (
            "headrace_actuator_conflicts",
            "counter",
            "",
            "",
            "changes refused since the target had another version by then",
        ),
        ("headrace_actuator_retries", "counter", "", "", "further attempts to carry a decision out"),
        (
            "headrace_actuator_decision_to_applied",
            "histogram",
            "s",
            "",
            "from a decision's tick to the changed target, event time",
        ),
        (
            "headrace_actuator_read_to_applied",
            "histogram",
            "s",
            "",
            "from reading a decision to the changed target, real time",
        ),
        ("headrace_actuator_open_decisions", "gauge", "", "", "decisions read that have no outcome yet"),
        ("headrace_actuator_undecodable", "counter", "", "topic", "messages that are no record"),
        ("headrace_actuator_broken_chains", "counter", "", "", "decisions that do not follow the one before"),
        (
            "headrace_actuator_misplaced",
            "counter",
            "",
            "",
            "decisions in another partition than their endpoint's, left out",
        ),
    ),
    *_of(
        "sink",
        ("headrace_sink_rows", "counter", "", "table", "rows committed"),
        ("headrace_sink_commits", "counter", "", "table", "commits"),
        ("headrace_sink_commit_retries", "counter", "", "table", "commits that were tried again"),
        ("headrace_sink_flush_duration", "histogram", "s", "table", "from the start of a flush to its commit"),
        ("headrace_sink_lag_offsets", "gauge", "", "", "records not read yet"),
        ("headrace_sink_buffered_bytes", "gauge", "By", "", "read and not committed yet"),
        ("headrace_sink_lost_offsets", "counter", "", "topic", "records that Kafka deleted before they were read"),
    ),
    *_of(
        "collect",
        ("headrace_collect_samples", "counter", "", "endpoint replica", "samples made"),
        (
            "headrace_collect_answers",
            "counter",
            "",
            "endpoint replica path outcome",
            "answers of engines, and failures to get one",
        ),
        ("headrace_collect_problems", "counter", "", "endpoint replica kind", "what was left out of answers"),
        ("headrace_collect_body", "counter", "By", "endpoint replica", "text of /metrics that was read"),
        ("headrace_collect_broken_lines", "counter", "", "endpoint", "lines of a recording that are no answer"),
    ),
    *_of(
        "fleet",
        ("headrace_fleet_replicas", "gauge", "", "endpoint state", "simulated replicas"),
        ("headrace_fleet_requests", "counter", "", "endpoint outcome", "simulated requests"),
        ("headrace_fleet_behind", "gauge", "s", "", "event seconds that are due and not simulated yet"),
        ("headrace_fleet_api_calls", "counter", "", "call result", "calls of its API"),
    ),
    *_of(
        "collect, fleet, pods",
        (
            "headrace_producer_records",
            "counter",
            "",
            "outcome",
            "records by what became of them: `sent`, or dropped: `oldest`, `unreadable` and so on",
        ),
        ("headrace_producer_waiting", "gauge", "", "", "records in the buffer"),
    ),
    *_of(
        "all, with OTLP",
        ("headrace_otlp_exports", "counter", "", "result", "exports of these metrics over OTLP: `sent` or `failed`"),
    ),
)


def views() -> list[View]:
    """For the SDK: each instrument keeps its own labels and no others."""
    return [View(instrument_name=metric.name, attribute_keys=set(metric.labels)) for metric in METRICS]


def table() -> str:
    """The Markdown table of docs/health.md."""
    rows = [
        "| at /metrics | type | unit | over OTLP | process | labels | what it counts |",
        "|---|---|---|---|---|---|---|",
    ]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        names = f"| `{metric.exposed_name}` | {metric.kind} | {metric.unit} | `{metric.name}`"
        rows.append(f"{names} | {metric.process} | {labels} | {metric.meaning} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
