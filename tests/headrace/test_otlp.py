"""What a process exports over OTLP, to a small real receiver; and that one that is away does no harm."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from headrace.exit_codes import CannotRunError, ExitCode
from headrace.otlp import otlp_reader
from tests.headrace.example_process import WAITS, Run

HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
EVERY = {"OTEL_METRIC_EXPORT_INTERVAL": "100"}


class Receiver:
    """What was exported to it; the event is set with the first."""

    def __init__(self) -> None:
        self.exports: list[ExportMetricsServiceRequest] = []
        self.received = asyncio.Event()
        self.holds = False
        """Requests are read and not answered."""

    async def take(self, request: web.Request) -> web.Response:
        self.exports.append(ExportMetricsServiceRequest.FromString(await request.read()))
        self.received.set()
        if self.holds:
            await asyncio.Event().wait()
        return web.Response(
            body=ExportMetricsServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )

    @property
    def metrics(self) -> dict[str, Any]:
        """Of the newest export, by name."""
        scopes = [scope for resource in self.exports[-1].resource_metrics for scope in resource.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    @property
    def resource(self) -> dict[str, str]:
        return {
            attribute.key: attribute.value.string_value
            for attribute in self.exports[-1].resource_metrics[0].resource.attributes
        }


@asynccontextmanager
async def serving(receiver: Receiver, port: int) -> AsyncIterator[str]:
    application = web.Application()
    application.add_routes([web.post("/v1/metrics", receiver.take)])
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def test_metrics_come_to_a_receiver_with_their_process(run: Run) -> None:
    receiver = Receiver()
    async with serving(receiver, 0) as url, asyncio.timeout(60):
        process = run(
            WAITS,
            OTEL_EXPORTER_OTLP_ENDPOINT=url,
            OTEL_EXPORTER_OTLP_COMPRESSION="gzip",
            OTEL_RESOURCE_ATTRIBUTES="service.instance.id=one,zone=a",
            **EVERY,
        )
        await receiver.received.wait()
        process.send_signal(signal.SIGTERM)
        _, logged = await asyncio.to_thread(process.communicate)
    assert process.returncode == ExitCode.OK, logged
    (point,) = receiver.metrics["headrace_examples"].sum.data_points
    assert point.as_int == 7
    assert receiver.resource | {"service.name": "headrace-example", "service.instance.id": "one", "zone": "a"} == (
        receiver.resource
    )


async def test_the_end_of_a_process_is_exported_though_no_interval_has_passed(run: Run) -> None:
    receiver = Receiver()
    async with serving(receiver, 0) as url, asyncio.timeout(60):
        process = run("async def main(process):\n    counter.add(3)\n", OTEL_EXPORTER_OTLP_ENDPOINT=url)
        await asyncio.to_thread(process.communicate)
    assert receiver.metrics["headrace_examples"].sum.data_points[0].as_int == 3


async def test_a_receiver_that_is_away_costs_a_line_and_one_when_it_is_back(run: Run) -> None:
    port = free_port()
    async with asyncio.timeout(60):
        process = run(WAITS, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://me:hunter2@127.0.0.1:{port}", **EVERY)
        assert process.stderr is not None
        lines = [await _until(process.stderr, "otlp_export_failed")]
        receiver = Receiver()
        async with serving(receiver, port):
            lines += [await _until(process.stderr, "otlp_export_resumed")]
        process.send_signal(signal.SIGTERM)
        _, rest = await asyncio.to_thread(process.communicate)
    logged = "".join([*lines, rest])
    assert "Traceback" not in logged
    assert "hunter2" not in logged
    told = [json.loads(line) for line in logged.splitlines()]
    urls = {line["url"] for line in told if line["event"].startswith("otlp_export")}
    assert urls == {f"http://(hidden)@127.0.0.1:{port}/v1/metrics"}
    events = [line["event"] for line in told]
    # Its end finds the receiver away once more, at the latest.
    assert events.count("otlp_export_failed") in (1, 2)
    assert events.count("otlp_export_resumed") == 1
    assert set(events) == {
        "health_served",
        "otlp_export_failed",
        "otlp_export_resumed",
        "stop_asked",
        "process_ended",
    }


async def test_a_receiver_that_never_answers_does_not_keep_a_process_from_ending(run: Run) -> None:
    receiver = Receiver()
    receiver.holds = True
    async with serving(receiver, 0) as url, asyncio.timeout(60):
        process = run(WAITS, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_TIMEOUT="600", **EVERY)
        await receiver.received.wait()
        process.send_signal(signal.SIGTERM)
        _, logged = await asyncio.to_thread(process.communicate)
    assert process.returncode == ExitCode.OK
    assert "Traceback" not in logged


async def _until(lines: Any, event: str) -> str:
    """All that is said up to the line with an event."""
    found = ""
    while event not in found:
        line = await asyncio.to_thread(lines.readline)
        assert line, found
        found += line
    return found


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4318"},
            "OTEL_EXPORTER_OTLP_ENDPOINT: '127.0.0.1:4318', allowed: http",
        ),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "ftp://x"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'ftp://x', allowed"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', allowed: http/protobuf",
        ),
        (HERE | {"OTEL_METRIC_EXPORT_INTERVAL": "10s"}, "OTEL_METRIC_EXPORT_INTERVAL: '10s', allowed: milliseconds"),
        (HERE | {"OTEL_METRIC_EXPORT_INTERVAL": "0"}, "OTEL_METRIC_EXPORT_INTERVAL: '0', allowed: milliseconds above"),
        (HERE | {"OTEL_METRIC_EXPORT_TIMEOUT": "inf"}, "OTEL_METRIC_EXPORT_TIMEOUT: 'inf', allowed: milliseconds"),
        (HERE | {"OTEL_EXPORTER_OTLP_TIMEOUT": "ten"}, "OTEL_EXPORTER_OTLP_TIMEOUT: 'ten', allowed: seconds above 0"),
        (
            HERE | {"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "zstd"},
            "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION: 'zstd', allowed: none, gzip, deflate",
        ),
        (
            HERE | {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere/ca.pem"},
            "OTEL_EXPORTER_OTLP_CERTIFICATE: '/nowhere/ca.pem': cannot be read: No such file or directory",
        ),
        (
            HERE | {"OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE": __file__},
            f"OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE: {__file__!r}: holds no certificate in PEM form",
        ),
        (
            HERE | {"OTEL_EXPORTER_OTLP_CLIENT_KEY": "/nowhere/own.key"},
            "OTEL_EXPORTER_OTLP_CLIENT_KEY: '/nowhere/own.key': cannot be read",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://me:hunter2@x"},
            "OTEL_EXPORTER_OTLP_ENDPOINT: 'ftp://(hidden)@x', allowed: http",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(CannotRunError) as refused:
        otlp_reader(given)
    assert refused.value.message.startswith(told)
    assert len(refused.value.message.splitlines()) == 1


def test_all_that_cannot_be_followed_is_told_together() -> None:
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "x:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with pytest.raises(CannotRunError) as refused:
        otlp_reader(given)
    assert [line.partition(":")[0] for line in refused.value.message.splitlines()] == list(given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318", "OTEL_METRICS_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_nothing_is_exported_unless_an_endpoint_is_set(given: dict[str, str]) -> None:
    assert otlp_reader(given) is None
