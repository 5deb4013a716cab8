"""`headrace broker`: a real Kafka alone."""

import asyncio
from pathlib import Path
from typing import ClassVar

import platformdirs
import typer
from pydantic import Field

from headrace.broker import HEAP_MB, EmbeddedBroker
from headrace.broker_jars import fetch_jars, find_java
from headrace.children import Children
from headrace.exit_codes import ExitCode
from headrace.flags import new_app, settings_command
from headrace.process import Process, run_process, until_stopped
from headrace.settings import ProcessSettings

app = new_app()


class BrokerSettings(ProcessSettings):
    """One broker on this machine."""

    section: ClassVar[str] = "broker"

    data: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("headrace"), "broker"),
        description="Its folder, by default in the user's data folder; the same folder gives the same broker again.",
    )
    port: int = Field(0, ge=0, le=65_535, description="Its port on 127.0.0.1; 0: the folder's, at first a free one.")
    heap_mb: int = Field(HEAP_MB, ge=128, le=65_536, description="Java's heap; it takes some 130 MB besides.")
    fetch_only: bool = Field(False, description="Only fetch Kafka's jars, for later use without a network.")


@settings_command(app, BrokerSettings, exits=[ExitCode.UNAVAILABLE, ExitCode.STORAGE, ExitCode.CHILD_ENDED])
def broker(settings: BrokerSettings) -> ExitCode:
    """Run a real Apache Kafka (one KRaft node, on 127.0.0.1) until Ctrl-C, and print its address when it answers.

    It needs Java 17 or newer. The first start fetches Kafka's jars with Maven (about 45 MB, into HEADRACE_CACHE or
    the user's cache folder); every later one works without a network.

    Example:
        headrace broker --port 9092 &
        export HEADRACE_BOOTSTRAP=127.0.0.1:9092
        headrace topics create
    """
    if settings.fetch_only:
        find_java()
        typer.echo(fetch_jars())
        return ExitCode.OK
    return run_process("broker", settings, _serve)


async def _serve(process: Process[BrokerSettings]) -> ExitCode:
    settings = process.settings
    embedded = EmbeddedBroker(settings.data, port=settings.port, heap_mb=settings.heap_mb)
    process.health.expect("kafka", "starting")
    try:
        await until_stopped(process, _run(process, embedded))
    finally:
        await asyncio.to_thread(embedded.stop)
    return ExitCode.OK


async def _run(process: Process[BrokerSettings], embedded: EmbeddedBroker) -> None:
    await asyncio.to_thread(embedded.start)
    process.health.meet("kafka")
    typer.echo(embedded.bootstrap)
    async with Children(embedded.folder) as children:
        children.adopt("the broker", embedded.process, embedded.log_path)
        await children.watch()
