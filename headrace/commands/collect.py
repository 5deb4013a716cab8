"""`headrace collect`: an engine's `/metrics` and `/health`, live or recorded, into telemetry."""

import asyncio
from pathlib import Path
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

import structlog
from pydantic import Field, SecretStr

from collectors.answers import Answer
from collectors.collector import Collector
from collectors.deliveries import KafkaDelivery, ReplayFile
from collectors.playing import Recording, play_recording
from collectors.recordings import length_of
from collectors.scraping import TIMEOUT_S, ScrapeSettings, open_scraper
from headrace.clock import SPEED_MAX, SPEED_VARIABLE
from headrace.exit_codes import CannotRunError, ExitCode, code_of_path, reader_gone
from headrace.flags import new_app, settings_command
from headrace.kafka_address import ADDRESSES
from headrace.kafka_door import enter_if_there
from headrace.process import Process, run_process
from headrace.producer_watch import watch_producer
from headrace.setting_checks import check
from headrace.settings import ClusterSettings, ProcessSettings
from wire.acls import Role, rights_of
from wire.hosts import is_host
from wire.kafka import KafkaAccess
from wire.producer import TelemetryProducer
from wire.web_logins import without_logins

app = new_app()
log = structlog.get_logger("headrace.collect")

FLUSH_S = 5.0
"""How long samples that Kafka has not taken yet are waited for at the end."""


class MaybeKafkaSettings(ClusterSettings):
    """A command that does without Kafka when it writes a file."""

    section: ClassVar[str] = "kafka"

    bootstrap: Annotated[str | None, ADDRESSES] = Field(
        None, description="Kafka's address: HOST:PORT, several with commas. Not used with --out."
    )


class CollectSettings(MaybeKafkaSettings, ProcessSettings):
    """One endpoint's engines, or a recording of one."""

    section: ClassVar[str] = "collect"

    endpoint: str = Field(min_length=1, max_length=253, description="Name of the endpoint that the engines serve.")
    replica: tuple[str, ...] = Field(
        (),
        description="NAME=URL of an engine, or its URL alone (its name is then HOST:PORT); give it once for each. "
        "With --recording just the NAME (default: ENDPOINT-0).",
    )
    recording: Path | None = Field(None, description="Recording to read instead of live engines; gzip by its ending.")
    out: str | None = Field(
        None, description="Replay file to write instead of sending to Kafka; - is standard output, gzip by its ending."
    )
    start: float | None = Field(
        None,
        ge=0,
        le=253_402_300_799,
        description="UNIX time of the recording's beginning. Default: now; with --out so that it ends now.",
    )
    speed: float | None = Field(
        None,
        gt=0,
        le=SPEED_MAX,
        description=f"Seconds of the recording in a real one, as {SPEED_VARIABLE} says for the whole pipeline. "
        "With --out a recording is read at once.",
    )
    timeout_seconds: float = Field(TIMEOUT_S, gt=0, le=60, description="How long an engine has for an answer.")
    engine_api_key: SecretStr | None = Field(None, description="Key that the engines want as a bearer token.")

    @check("replica", "recording")
    def _replicas_are_good(self) -> list[str]:
        return _replica_problems(self)

    @check("out", "bootstrap")
    def _has_a_place(self) -> list[str]:
        has_one = self.out is not None or self.bootstrap is not None
        return [] if has_one else ["--bootstrap or --out: one of them is required: Kafka's address, or a file"]

    @check("start", "recording")
    def _start_is_of_a_recording(self) -> list[str]:
        return _recording_alone("--start", self.start, self)

    @check("speed", "recording")
    def _speed_is_of_a_recording(self) -> list[str]:
        return _recording_alone("--speed", self.speed, self)

    @check("out", "security_protocol", "sasl_mechanism", "sasl_username", "sasl_password", "sasl_password_file")
    def _who_is_told(self) -> list[str]:
        return super()._who_is_told() if self.out is None else []

    @check("out", "security_protocol", "ssl_cafile", "ssl_certfile", "ssl_keyfile")
    def _files_are_used(self) -> list[str]:
        return super()._files_are_used() if self.out is None else []

    @property
    def engines(self) -> dict[str, str]:
        """URL without a slash at its end, by name of the replica."""
        return dict(_named_url(given) for given in self.replica)

    @property
    def replicas(self) -> tuple[str, ...]:
        return tuple(self.engines) if self.recording is None else (self.recorded_replica,)

    @property
    def recorded_replica(self) -> str:
        return self.replica[0] if self.replica else f"{self.endpoint}-0"


_EXITS = [
    ExitCode.INCOMPLETE,
    ExitCode.UNAVAILABLE,
    ExitCode.REFUSED,
    ExitCode.STORAGE,
    ExitCode.INTERRUPTED,
    ExitCode.READER_GONE,
]


@settings_command(app, CollectSettings, exits=_EXITS)
def collect(settings: CollectSettings) -> ExitCode:
    r"""Turn what vLLM or llama.cpp's server tells at /metrics and /health into one RequestSample a second and replica.

    Each engine is asked once a second until Ctrl-C. Counters become whole numbers of each second that add up to the
    engine's own; a scrape that fails gives no sample, nor does one while the newest /health is not 200; a counter that
    went down, or another start of the process, begins a new epoch.

    Run it beside the engine, with a clock that is right within a second. The engine needs no change: vLLM serves
    /metrics by default, llama.cpp's server with --metrics.

    Examples:
        headrace collect --endpoint chat-70b --bootstrap kafka:9092 \
            --replica chat-70b-0=http://10.0.0.7:8000
        headrace collect --endpoint chat --replica http://127.0.0.1:8080 --out -
        headrace collect --endpoint chat --recording engine.jsonl.gz \
            --start 1700000000 --out telemetry.jsonl
        headrace replay --policies policies --telemetry telemetry.jsonl --out -

    Status 1: some of a recording's lines, an answer, or some of its series could not be read; the log names the first
    of them, and everything else was used. Or samples did not reach Kafka; the last line says how many.
    """
    if settings.recording is not None and not settings.recording.is_file():
        raise CannotRunError(f"--recording: {settings.recording}: no such file")
    return run_process("collect", settings, _run)


async def _run(process: Process[CollectSettings]) -> ExitCode:
    settings = process.settings
    _check_speed(process)
    if settings.out is not None:
        collector = await _to_file(process, settings.out)
    else:
        collector = await _to_kafka(process, settings.access_to(settings.bootstrap or "", "headrace-collect"))
    reports = collector.reports
    log.info(
        "collect_ended",
        samples=reports.samples,
        answers=dict(reports.answers),
        problems=dict(reports.problems),
        broken_lines=reports.broken_lines,
    )
    return ExitCode.INCOMPLETE if reports.bad_input else ExitCode.OK


async def _to_kafka(process: Process[CollectSettings], access: KafkaAccess) -> Collector:
    settings, clock = process.settings, process.clock
    await enter_if_there(access, rights_of(Role.COLLECTOR, settings.topic_names))
    producer = TelemetryProducer(access, settings.topic_names, clock=None if clock.is_real else clock.now_s)
    process.health.expect("kafka", f"nothing was sent to {access.bootstrap} yet")
    await producer.start()
    watching = asyncio.create_task(watch_producer(process.health, producer))
    collector = Collector(settings.endpoint, settings.replicas, KafkaDelivery(producer))
    try:
        await _collect(process, collector)
    finally:
        await producer.stop(FLUSH_S)
        watching.cancel()
    counts = producer.counts
    if counts.dropped:
        log.error("samples_dropped", oldest=counts.oldest, too_large=counts.too_large, unsent=counts.unsent)
        message = f"{counts.dropped} of {collector.reports.samples} samples did not reach Kafka at {access.bootstrap}"
        raise CannotRunError(f"{message}: {producer.last_error or 'see the log'}", ExitCode.INCOMPLETE)
    return collector


async def _to_file(process: Process[CollectSettings], out: str) -> Collector:
    settings = process.settings
    collector = None
    try:
        with ReplayFile(out) as file:
            collector = Collector(settings.endpoint, settings.replicas, file)
            await _collect(process, collector)
    except BrokenPipeError as error:
        raise reader_gone() from error
    except OSError as error:
        code = code_of_path(error) if collector is None else ExitCode.STORAGE
        raise CannotRunError(f"--out: {out} cannot be written: {error.strerror or error}", code) from error
    return collector


async def _collect(process: Process[CollectSettings], collector: Collector) -> None:
    """Until the recording ends or the process is asked to stop; then what is held back is told."""
    process.health.expect("answers", "no engine has been asked yet")
    stopped = asyncio.create_task(process.stop.wait())
    path = process.settings.recording
    work = asyncio.create_task(_scrape(process, collector) if path is None else _play(process, collector, path))
    try:
        await asyncio.wait([stopped, work], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            await work
    finally:
        stopped.cancel()
        work.cancel()
        await asyncio.wait([work])
    collector.close()


async def _play(process: Process[CollectSettings], collector: Collector, path: Path) -> None:
    settings, clock = process.settings, process.clock
    at_once = settings.out is not None
    start_s = settings.start
    if start_s is None:
        start_s = clock.now_s() - (length_of(path) if at_once else 0.0)
    process.health.meet("answers")
    recording = Recording(path=path, replica=settings.recorded_replica, start_s=start_s)
    await play_recording(recording, collector.receive, collector.reports.broken, None if at_once else clock)


async def _scrape(process: Process[CollectSettings], collector: Collector) -> None:
    settings = process.settings
    key = settings.engine_api_key
    wanted = ScrapeSettings(timeout_s=settings.timeout_seconds, api_key=None if key is None else key.get_secret_value())

    def receive(replica: str, answer: Answer) -> None:
        collector.receive(replica, answer)
        process.health.meet("answers")

    async with open_scraper(wanted, process.clock) as scraper:
        await scraper.watch(settings.engines, receive)


def _check_speed(process: Process[CollectSettings]) -> None:
    """Raises CannotRunError for a pace that the pipeline does not keep: its windows would see too many seconds."""
    wanted, speed = process.settings.speed, process.clock.speed
    if process.settings.out is None and wanted is not None and wanted != speed:
        raise CannotRunError(
            f"--speed: {wanted:g}, but the pipeline's clock runs at {speed:g} ({SPEED_VARIABLE}); give both the same"
        )


def _named_url(given: str) -> tuple[str, str]:
    """`NAME=URL` or `URL`; name and URL without a slash at its end."""
    name, is_named, url = given.partition("=")
    if not is_named or "://" in name:
        name, url = urlsplit(given).netloc.rpartition("@")[2], given
    return name, url.rstrip("/")


def _replica_problems(settings: CollectSettings) -> list[str]:
    if settings.recording is not None:
        if len(settings.replica) > 1 or any("://" in given for given in settings.replica):
            return [
                f"--replica: {without_logins(' '.join(settings.replica))}, allowed with --recording: one NAME, no URL"
            ]
        return []
    if not settings.replica:
        return ["--replica: required without --recording: NAME=URL of an engine, once for each"]
    form = "NAME=URL or URL, with http:// or https:// and without ? and #"
    problems = [
        f"--replica: {without_logins(repr(given))}, allowed: {form}"
        for given in settings.replica
        if not _is_good(*_named_url(given))
    ]
    names = [_named_url(given)[0] for given in settings.replica]
    return problems + [f"--replica: {name!r} is given twice" for name in sorted(set(names)) if names.count(name) > 1]


def _is_good(name: str, url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_host = is_host(parts.hostname or "") and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return 0 < len(name) <= 253 and parts.scheme in ("http", "https") and has_host and not parts.query + parts.fragment


def _recording_alone(flag: str, value: float | None, settings: CollectSettings) -> list[str]:
    has_none = value is not None and settings.recording is None
    return [f"{flag}: {value:g}, allowed: only with --recording"] if has_none else []
