"""The table of metrics is that of the program, in names, units and labels, and labels are held to it."""

import ast
from collections.abc import Iterator
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from headrace.metric_table import METRICS, views
from tests.repository.markdown import ROOT

ROOMS = ("wire", "streams", "sinks", "collectors", "actuators", "simulation", "headrace")
SECONDS = "_seconds"
"""WorkerMetrics makes its histograms of seconds by a method of this name."""


def _trees() -> Iterator[ast.Module]:
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            yield ast.parse(file.read_text())


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _texts(call: ast.Call) -> list[str]:
    return [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _unit(call: ast.Call) -> str:
    given: list[object] = [
        word.value.value for word in call.keywords if word.arg == "unit" and isinstance(word.value, ast.Constant)
    ]
    if _name(call) == SECONDS:
        given = ["s"]
    elif _name(call) == "observe_gauge":
        given = [*_texts(call)[1:2]]
    return "" if given in ([], ["1"]) else str(given[0])


def _kind(call: ast.Call) -> str:
    made = _name(call)
    return next((kind for kind in ("counter", "gauge") if made.endswith(kind)), "histogram")


def test_every_instrument_is_in_the_table_with_its_type_and_unit() -> None:
    made = {}
    for call in (call for tree in _trees() for call in _calls(tree)):
        texts = _texts(call)
        makes = _name(call).startswith(("create_", "observe_gauge", SECONDS))
        if makes and texts and texts[0].startswith("headrace_"):
            made[texts[0]] = _kind(call), _unit(call)
    assert made == {metric.name: (metric.kind, metric.unit) for metric in METRICS}


def test_metrics_are_exposed_and_exported_as_the_table_says() -> None:
    registry, exported = CollectorRegistry(), InMemoryMetricReader()
    exposition = PrometheusMetricReader(registry=registry, disable_target_info=True, scope_info_enabled=False)
    provider = MeterProvider([exposition, exported], views=views(), shutdown_on_exit=False)
    meter = provider.get_meter("test")
    for metric in METRICS:
        match metric.kind:
            case "counter":
                meter.create_counter(metric.name, unit=metric.unit).add(1)
            case "gauge":
                meter.create_gauge(metric.name, unit=metric.unit).set(1)
            case "histogram":
                meter.create_histogram(metric.name, unit=metric.unit).record(1)
    page = generate_latest(registry).decode()
    told = dict(line.split()[2:] for line in page.splitlines() if line.startswith("# TYPE "))
    assert told == {metric.exposed_name: metric.kind for metric in METRICS}
    collected = exported.get_metrics_data()
    assert collected is not None
    (scope,) = collected.resource_metrics[0].scope_metrics
    assert {metric.name: metric.unit for metric in scope.metrics} == {metric.name: metric.unit for metric in METRICS}


def test_every_label_that_is_given_is_in_the_table_and_each_of_the_table_is_given() -> None:
    given = set()
    for tree in _trees():
        counting = [call for call in _calls(tree) if _name(call) in ("add", "record", "set", "Observation")]
        names = {one.id for call in counting for one in call.args if isinstance(one, ast.Name)}
        labels = [one for call in counting for one in call.args]
        labels += [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and _target(node) in names]
        given |= {
            key.value
            for one in labels
            if isinstance(one, ast.Dict)
            for key in one.keys
            if isinstance(key, ast.Constant)
        }
    observed = {"partition", "state"}
    """Of gauges that are yielded as a value and its labels."""
    assert given | observed == {label for metric in METRICS for label in metric.labels}


def _target(assigned: ast.Assign) -> str:
    return getattr(assigned.targets[0], "id", "")


def test_a_label_that_is_not_in_the_table_is_dropped_and_bounds_are_kept() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], views=views(), shutdown_on_exit=False)
    meter = provider.get_meter("test")
    read = meter.create_counter("headrace_messages_read")
    for number in range(100):
        read.add(1, {"topic": "telemetry.requests", "endpoint": f"e{number}"})
    took = meter.create_histogram("headrace_tick_delay", unit="s", explicit_bucket_boundaries_advisory=[1.0, 2.0])
    took.record(1.5, {"endpoint": "chat"})
    collected = reader.get_metrics_data()
    assert collected is not None
    (scope,) = collected.resource_metrics[0].scope_metrics
    found: dict[str, list[Any]] = {metric.name: list(metric.data.data_points) for metric in scope.metrics}
    (messages,) = found["headrace_messages_read"]
    assert (dict(messages.attributes or {}), messages.value) == ({"topic": "telemetry.requests"}, 100)
    (delay,) = found["headrace_tick_delay"]
    assert (dict(delay.attributes or {}), tuple(delay.explicit_bounds)) == ({}, (1.0, 2.0))
