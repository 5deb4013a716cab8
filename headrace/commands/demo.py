"""`headrace demo`: the closed loop on this machine; `headrace demo engine`: the line with real engines."""

import asyncio
import webbrowser
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from aiokafka.errors import KafkaError
from pydantic import Field
from rich.console import Console
from typer.core import TyperGroup

from headrace.clock import BASE_VARIABLE, SPEED_VARIABLE
from headrace.demo.console import open_console, say
from headrace.demo.engine.show import run_show as run_engines
from headrace.demo.fleet.line import FleetPlan
from headrace.demo.fleet.report import page_of
from headrace.demo.fleet.show import run_show as run_fleet
from headrace.demo.folder import new_folder
from headrace.demo.plan import DemoPlan
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import new_app, settings_command
from headrace.kafka_door import topics_refused
from headrace.process import Process, run_process, until_stopped
from headrace.settings import LocalKafkaSettings, ProcessSettings
from sinks.errors import StorageError
from wire.admin import TopicsError

_DEFAULT = "fleet"

S = TypeVar("S", bound="DemoSettings")


class _FleetFirst(TyperGroup):
    """Arguments that begin with no command's name are those of the fleet."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if args and args[0] in self.commands else [_DEFAULT, *args])


app = new_app()
app.callback(cls=_FleetFirst)(lambda: None)


class DemoSettings(LocalKafkaSettings, ProcessSettings):
    """What both demonstrations share."""

    section: ClassVar[str] = "demo"
    of_others: ClassVar[frozenset[tuple[str, str]]] = LocalKafkaSettings.of_others | {
        ("demo", key) for key in ("seconds", "speed", "no_actuator", "open")
    }

    data: Path | None = Field(
        None,
        description="New or empty folder for broker, logs, policies and tables; default: a new one in the user's data "
        "folder.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="Least level that the demo itself logs; its processes log into files."
    )


class FleetDemoSettings(DemoSettings):
    """The closed loop."""

    section: ClassVar[str] = "demo"

    seconds: int = Field(
        120, ge=10, le=3600, description="How long the traffic lasts, real seconds; starting and counting come on top."
    )
    speed: float = Field(10.0, ge=1, le=60, description="Event seconds in a real one, of the whole line.")
    no_actuator: bool = Field(False, description="Leave the actuator out: nothing that is decided is carried out.")
    open: bool = Field(False, description="Open the page in a browser at the end.")


class EngineSettings(DemoSettings):
    """The line with real engines."""

    section: ClassVar[str] = "demo"

    seconds: int = Field(60, ge=10, le=120, description="How long the load lasts; starting and counting come on top.")


_EXITS = [
    ExitCode.INCOMPLETE,
    ExitCode.UNAVAILABLE,
    ExitCode.REFUSED,
    ExitCode.PARTITIONS,
    ExitCode.STORAGE,
    ExitCode.CHILD_ENDED,
    ExitCode.INTERRUPTED,
]


@settings_command(app, FleetDemoSettings, name="fleet", exits=_EXITS)
def fleet(settings: FleetDemoSettings) -> ExitCode:
    """Show the closed loop at work, in about two and a half minutes: a fleet that follows its load, and says why.

    Three endpoints of a simulated fleet are sent requests: one is idle, then gets a hundred times the load within
    seconds, and is idle again; one has the bursts of a real code service; one is steady. Their telemetry goes through a
    real Kafka to two workers, whose decisions an actuator carries out on the fleet. Time runs ten times faster: twenty
    minutes of traffic take two.

    In the end every row of every topic is counted in Kafka and in the Delta tables, and it is told how the burst was
    followed, what it cost, and how to ask why. A page with the plots lies in the run's folder.

    Status 1: decisions were not made from fresh signals, as the machine was too busy for --speed, or rows are not where
    they belong; the verdict at the end says which.

    `headrace demo engine` shows the line with real engines instead; it has flags of its own (--help).

    Ctrl-C at any moment ends every process. The data stays in its folder, which is named at the beginning and the end;
    remove it when you have seen enough.

    Example:
        headrace demo
        headrace demo --no-actuator

    Needs Java and Maven, or a Kafka at --bootstrap.
    """
    return run_process("demo", settings, _serve_fleet)


async def _serve_fleet(process: Process[FleetDemoSettings]) -> ExitCode:
    settings = process.settings

    async def show(plan: DemoPlan, console: Console) -> ExitCode:
        whole = FleetPlan(
            kafka=plan.kafka,
            data=plan.data,
            clock=plan.clock,
            seconds=float(settings.seconds),
            speed=settings.speed,
            acts=not settings.no_actuator,
        )
        code = await run_fleet(whole, console)
        if settings.open:
            await asyncio.to_thread(webbrowser.open, page_of(plan.data).as_uri())
        return code

    return await _serve(process, show)


@settings_command(app, EngineSettings, name="engine", exits=_EXITS)
def engine(settings: EngineSettings) -> ExitCode:
    """Show the line with real engines, in about a minute and a half: llama.cpp, Kafka, workers, decisions, tables.

    Three llama.cpp servers get real HTTP requests: two of them, the endpoint chat, are idle, then busy, overloaded, and
    calm again; the third, search, has a little to do all the time. Their telemetry goes through a real Kafka to two
    workers, whose signals and decisions are shown as they come; nobody scales anything (mode: advise). In the end
    every row of every topic is counted in Kafka and in the Delta tables, and three queries on the tables are answered.

    Ctrl-C at any moment ends every process. The data stays in its folder, which is named at the beginning and the end;
    remove it when you have seen enough.

    Needs the extra `engine`, which `make setup` installs, and Java and Maven or a Kafka at --bootstrap.
    """
    return run_process("demo", settings, _serve_engines)


async def _serve_engines(process: Process[EngineSettings]) -> ExitCode:
    seconds = float(process.settings.seconds)
    return await _serve(process, lambda plan, console: run_engines(plan, seconds, console))


async def _serve(process: Process[S], show: Callable[[DemoPlan, Console], Coroutine[Any, Any, ExitCode]]) -> ExitCode:
    """Run one of the shows on a new folder, which is named at the beginning and the end."""
    if not process.clock.is_real:
        raise CannotRunError(f"{BASE_VARIABLE}, {SPEED_VARIABLE}: set, but the demo sets its own clock; unset them")
    console = open_console()
    started = f"{datetime.fromtimestamp(process.clock.now_s(), UTC):%Y%m%d-%H%M%S}"
    data = new_folder(process.settings.data, started)
    kafka: LocalKafkaSettings = process.settings
    if kafka.bootstrap is not None and not kafka.topic_prefix:
        kafka = kafka.model_copy(update={"topic_prefix": f"demo-{started}."})
    plan = DemoPlan(kafka=kafka, data=data, clock=process.clock)
    codes: list[ExitCode] = []

    async def run() -> None:
        codes.append(await show(plan, console))

    say(console, f"data: {data} (Ctrl-C ends everything and leaves it)")
    telling = asyncio.create_task(_tell_stop(process.stop, lambda text: say(console, text), data))
    try:
        await until_stopped(process, run())
    except TopicsError as error:
        raise topics_refused(error) from error
    except KafkaError as error:
        raise CannotRunError(f"Kafka refused: {error}", ExitCode.UNAVAILABLE) from error
    except StorageError as error:
        raise CannotRunError(error.message, ExitCode.STORAGE) from error
    finally:
        telling.cancel()
        say(console, f"\ndata: {data}")
        for name, folder in (("logs", data / "logs"), ("tables", Path(plan.tables.address)), ("page", page_of(data))):
            if folder.exists():
                say(console, f"{name}: {folder}")
    return codes[0] if codes else ExitCode.INTERRUPTED


async def _tell_stop(stop: asyncio.Event, tell: Callable[[str], None], data: Path) -> None:
    """Said at once: a second Ctrl-C ends the process before anything else could be said."""
    await stop.wait()
    tell(f"interrupted: ending every process (once more: at once); the data stays in {data}")
