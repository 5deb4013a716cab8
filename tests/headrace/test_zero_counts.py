"""Counters are there, at zero, before anything is counted: in rooms whose processes have no broker here."""

import asyncio

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from headrace.exit_codes import ExitCode
from tests.headrace.example_process import Run
from tests.headrace.test_otlp import Receiver, serving

BEGIN = """
from actuators.watched_port import WatchedPort
from collectors.reports import Reports
from headrace.fleet.metrics import FleetMetrics
async def main(process):
    WatchedPort(None)
    Reports("chat", ["a", "b"])
    FleetMetrics({})
"""

EXPECTED: dict[str, set[tuple[str, ...]]] = {
    "headrace_actuator_calls": {("compare_and_set", "conflict"), ("get", "unanswered"), ("drain", "ok")},
    "headrace_fleet_api_calls": {("scale", "ok"), ("fault", "not_found")},
    "headrace_collect_answers": {
        ("chat", "failed", "/metrics", "a"),
        ("chat", "not_healthy", "/health", "b"),
    },
    "headrace_collect_problems": {("chat", "bad_value", "a"), ("chat", "restarted", "b")},
    "headrace_collect_samples": {("chat", "a"), ("chat", "b")},
    "headrace_collect_body": {("chat", "a"), ("chat", "b")},
    "headrace_collect_broken_lines": {("chat",)},
    "headrace_otlp_exports": {("sent",), ("failed",)},
}
"""Values of the labels in the order of the labels' names; some of each counter's."""

IMPOSSIBLE: dict[str, tuple[str, ...]] = {
    "headrace_actuator_calls": ("get", "conflict"),
    "headrace_collect_answers": ("chat", "healthy", "/metrics", "a"),
}


def labelled(metric: Metric) -> dict[tuple[str, ...], int]:
    """Counts by the values of the labels."""
    return {
        tuple(it.value.string_value for it in sorted(point.attributes, key=lambda it: it.key)): point.as_int
        for point in metric.sum.data_points
    }


async def test_what_may_be_counted_is_there_at_zero(run: Run) -> None:
    receiver = Receiver()
    async with serving(receiver, 0) as url, asyncio.timeout(60):
        process = run(BEGIN, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        _, logged = await asyncio.to_thread(process.communicate)
    assert process.returncode == ExitCode.OK, logged
    for name, labels in EXPECTED.items():
        counts = labelled(receiver.metrics[name])
        assert labels <= counts.keys(), name
        assert set(counts.values()) == {0}, name
    for name, impossible in IMPOSSIBLE.items():
        assert impossible not in labelled(receiver.metrics[name])
