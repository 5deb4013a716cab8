"""`headrace fleet`: a simulated fleet of model servers that reports as a real one, and is scaled over HTTP."""

import asyncio
import json
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Literal

import structlog
from pydantic import Field

from headrace.exit_codes import ExitCode
from headrace.flags import new_app, settings_command
from headrace.fleet.journal_file import JournalFile
from headrace.fleet.metrics import FleetMetrics
from headrace.fleet.pacing import paced_seconds
from headrace.fleet.scenario_file import load_scenario
from headrace.fleet.server import ApiPlace, served
from headrace.host_name import HostName
from headrace.kafka_door import enter_if_there
from headrace.process import Process, run_process
from headrace.producer_watch import watch_producer
from headrace.settings import KafkaSettings, ProcessSettings
from headrace.standard_output import output_lost
from simulation.fleet import Fleet
from simulation.journal import Journal, JournalEntry
from simulation.scale_api import make_app
from simulation.scenario import Scenario
from simulation.simulated_endpoint import SimulatedEndpoint
from wire.acls import Role, rights_of
from wire.producer import ProducerSettings, TelemetryProducer

app = new_app()
log = structlog.get_logger("headrace.fleet")

FLUSH_S = 5.0
"""How long records that Kafka has not taken yet are waited for at the end."""
FRAMES_LINGER_S = 0.1
"""Records wait this long for others of their second, so that a frame holds many."""


class FleetSettings(KafkaSettings, ProcessSettings):
    section: ClassVar[str] = "fleet"

    scenario: Path = Field(description="YAML file of the endpoints, their engines and their traffic.")
    seconds: int | None = Field(
        None, ge=1, le=31_536_000, description="End after so many seconds of event time; default: never."
    )
    api_host: HostName = Field("127.0.0.1", description="Address on which the scale API is served.")
    api_port: int = Field(0, ge=0, le=65_535, description="Its port; 0 takes a free one and logs it.")
    api_file: Path | None = Field(None, description="File that gets the API's URL once it is served.")
    journal: Path | None = Field(
        None, description="File to which every call of the API is added, one JSON object a line."
    )
    messages: Literal["json", "arrow"] = Field(
        "json", description="Send samples one a message, or as Arrow frames of many."
    )
    instance: str | None = Field(
        None,
        min_length=1,
        max_length=253,
        description="Any text that names this start: it makes uids, versions and epochs. Default: another one each "
        "time, as each start is a new fleet.",
    )


@settings_command(
    app,
    FleetSettings,
    exits=[
        ExitCode.INCOMPLETE,
        ExitCode.UNAVAILABLE,
        ExitCode.REFUSED,
        ExitCode.STORAGE,
        ExitCode.INTERRUPTED,
        ExitCode.READER_GONE,
    ],
)
def fleet(settings: FleetSettings) -> ExitCode:
    r"""Run simulated model servers that report every second as real ones do, and can be scaled over HTTP.

    Requests come as the scenario says; replicas serve them with prefill, decode, KV cache and queues, take their time
    to start, drain, and can be made to hang, to die or to be slow. What they report goes to Kafka like any telemetry.
    No broker is needed to go on: what it misses is counted.

    At the end, one line of JSON on standard output tells what became of the requests, and the GPU seconds used.

    Examples:
        headrace fleet --scenario fleet.yaml --bootstrap 127.0.0.1:9092
        headrace fleet --scenario fleet.yaml --api-port 8090 \
            --seconds 1200 --journal calls.jsonl
        curl http://127.0.0.1:8090/v1/targets/chat

    Status 1: some records did not reach Kafka.
    """
    scenario = load_scenario(settings.scenario)

    async def run(process: Process[FleetSettings]) -> ExitCode:
        return await _run(process, scenario)

    return run_process("fleet", settings, run)


async def _run(process: Process[FleetSettings], scenario: Scenario) -> ExitCode:
    settings, clock = process.settings, process.clock
    instance = settings.instance or str(uuid.uuid4())
    first_s = int(clock.now_s())
    endpoints = {
        spec.endpoint: SimulatedEndpoint(spec, seed=scenario.seed, instance=instance, first_s=first_s)
        for spec in scenario.endpoints
    }
    metrics = FleetMetrics(endpoints)
    with ExitStack() as stack:
        file = (
            None if settings.journal is None else stack.enter_context(JournalFile(settings.journal, process.stop.set))
        )
        written = _each_of([metrics.count_call, *([file.write] if file else [])])
        fleet = Fleet(endpoints, Journal(written=written))
        place = ApiPlace(host=settings.api_host, port=settings.api_port, file=settings.api_file)

        def summary(after_s: int | None) -> Mapping[str, Any]:
            return _summary_of(endpoints, first_s, after_s)

        async with served(make_app(fleet, summary, clock.now_s), place):
            log.info("fleet_started", instance=instance, first_s=first_s, endpoints=sorted(endpoints))
            dropped = await _simulate(process, endpoints, metrics, first_s)
        if file is not None:
            file.raise_failed()
    _print(_summary_of(endpoints, first_s, None))
    return ExitCode.INCOMPLETE if dropped else ExitCode.OK


async def _simulate(
    process: Process[FleetSettings], endpoints: Mapping[str, SimulatedEndpoint], metrics: FleetMetrics, first_s: int
) -> int:
    """Until the last second, or a stop; how many records did not reach Kafka."""
    settings, clock = process.settings, process.clock
    is_arrow = settings.messages == "arrow"
    # Reports arrive when their second is over: that this host is late is no delay of the simulated network, and on a
    # fast clock a moment of it would look like unsteady clocks of all replicas.
    reported_s = float(first_s)
    access = settings.access("headrace-fleet")
    await enter_if_there(access, rights_of(Role.PRODUCER, settings.topic_names))
    producer = TelemetryProducer(
        access,
        settings.topic_names,
        ProducerSettings(frames=True, linger_s=clock.real_seconds(FRAMES_LINGER_S)) if is_arrow else None,
        clock=None if clock.is_real else lambda: reported_s,
    )
    process.health.expect("kafka", f"nothing was sent to {settings.bootstrap} yet")
    await producer.start()
    watching = asyncio.create_task(watch_producer(process.health, producer))

    def note_delay(behind_s: float) -> None:
        metrics.behind_s = behind_s

    try:
        async for second in paced_seconds(clock, first_s, settings.seconds, process.stop, note_delay):
            reported_s = second + 1.0
            for endpoint in endpoints.values():
                for record in endpoint.advance(second):
                    producer.send(record)
                await asyncio.sleep(0)
    finally:
        await producer.stop(FLUSH_S)
        watching.cancel()
    counts = producer.counts
    if counts.dropped:
        log.error("records_dropped", oldest=counts.oldest, too_large=counts.too_large, unsent=counts.unsent)
    return counts.dropped


def _each_of(called: list[Callable[[JournalEntry], None]]) -> Callable[[JournalEntry], None]:
    def write(entry: JournalEntry) -> None:
        for call in called:
            call(entry)

    return write


def _summary_of(endpoints: Mapping[str, SimulatedEndpoint], first_s: int, after_s: int | None) -> dict[str, Any]:
    """What GET /v1/summary and the last line say."""
    newest_s = max((endpoint.newest_s for endpoint in endpoints.values()), default=first_s - 1)
    summaries = {name: endpoint.summary.as_object(after_s) for name, endpoint in sorted(endpoints.items())}
    return {"first_s": first_s, "newest_s": newest_s, "endpoints": summaries}


def _print(summary: Mapping[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps(summary) + "\n")
        sys.stdout.flush()
    except OSError as error:
        raise output_lost(error) from error
