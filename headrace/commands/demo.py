"""`headrace demo`: the whole line with real engines under changing load."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal

import platformdirs
from aiokafka.errors import KafkaError
from pydantic import Field

from headrace.clock import BASE_VARIABLE, SPEED_VARIABLE
from headrace.demo.line import DemoPlan
from headrace.demo.screen import open_console, say
from headrace.demo.show import run_show
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import new_app, settings_command
from headrace.process import Process, run_process, until_stopped
from headrace.settings import LocalKafkaSettings, ProcessSettings
from sinks.errors import StorageError
from wire.admin import TopicsError

app = new_app()


class DemoSettings(LocalKafkaSettings, ProcessSettings):
    section: ClassVar[str] = "demo"

    seconds: int = Field(60, ge=10, le=120, description="How long the load lasts; starting and counting come on top.")
    data: Path | None = Field(
        None,
        description="New or empty folder for broker, logs, policies, engines and tables; default: a new one in the "
        "user's data folder.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="Least level that the demo itself logs; its processes log into files."
    )


_EXITS = [
    ExitCode.INCOMPLETE,
    ExitCode.UNAVAILABLE,
    ExitCode.PARTITIONS,
    ExitCode.STORAGE,
    ExitCode.CHILD_ENDED,
    ExitCode.INTERRUPTED,
]


@settings_command(app, DemoSettings, exits=_EXITS)
def demo(settings: DemoSettings) -> ExitCode:
    """Show the whole line at work, in about a minute and a half: real engines, Kafka, workers, decisions, tables.

    Three llama.cpp servers get real HTTP requests: two of them, the endpoint chat, are idle, then busy, overloaded, and
    calm again; the third, search, has a little to do all the time. Their telemetry goes through a real Kafka to two
    workers, whose signals and decisions are shown as they come; nobody scales anything (mode: advise). In the end
    every row of every topic is counted in Kafka and in the Delta tables, and three queries on the tables are answered.

    Ctrl-C at any moment ends every process. The data stays in its folder, which is named at the beginning and the end;
    remove it when you have seen enough.

    Needs the extra `engine`, which `make setup` installs, and Java and Maven or a Kafka at --bootstrap.
    """
    return run_process("demo", settings, _serve)


async def _serve(process: Process[DemoSettings]) -> ExitCode:
    if not process.clock.is_real:
        raise CannotRunError(
            f"{BASE_VARIABLE}, {SPEED_VARIABLE}: set, but real engines need the real clock; unset them"
        )
    console = open_console()
    started = f"{datetime.fromtimestamp(process.clock.now_s(), UTC):%Y%m%d-%H%M%S}"
    data = _new_folder(process.settings.data, started)
    kafka = process.settings
    if kafka.bootstrap is not None and not kafka.topic_prefix:
        kafka = kafka.model_copy(update={"topic_prefix": f"demo-{started}."})
    plan = DemoPlan(kafka=kafka, data=data, seconds=float(kafka.seconds), clock=process.clock)
    codes: list[ExitCode] = []

    async def show() -> None:
        codes.append(await run_show(plan, console))

    say(console, f"data: {data} (Ctrl-C ends everything and leaves it)")
    telling = asyncio.create_task(_tell_stop(process.stop, lambda text: say(console, text), data))
    try:
        await until_stopped(process, show())
    except (KafkaError, TopicsError) as error:
        raise CannotRunError(f"Kafka refused: {error}", ExitCode.UNAVAILABLE) from error
    except StorageError as error:
        raise CannotRunError(error.message, ExitCode.STORAGE) from error
    finally:
        telling.cancel()
        say(console, f"\ndata: {data}")
        for name, folder in (("logs", data / "logs"), ("tables", Path(plan.tables.address))):
            if folder.exists():
                say(console, f"{name}: {folder}")
    return codes[0] if codes else ExitCode.INTERRUPTED


async def _tell_stop(stop: asyncio.Event, tell: Callable[[str], None], data: Path) -> None:
    """Said at once: a second Ctrl-C ends the process before anything else could be said."""
    await stop.wait()
    tell(f"interrupted: ending every process (once more: at once); the data stays in {data}")


def _new_folder(wanted: Path | None, started: str) -> Path:
    """`wanted`, or a folder named after the time; made where it is missing. Raises CannotRunError."""
    folder = wanted or Path(platformdirs.user_data_dir("headrace"), "demo", started)
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CannotRunError(f"--data: {folder}, allowed: a new or an empty folder")
    except OSError as error:
        raise CannotRunError(f"--data: {folder}: {error.strerror}", ExitCode.STORAGE) from error
    return folder
