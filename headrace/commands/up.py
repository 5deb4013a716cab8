"""`headrace up`: the whole line on this machine."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import ClassVar, Literal

import platformdirs
import typer
from aiokafka.errors import KafkaError
from pydantic import Field

from headrace.children import Children
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import new_app, settings_command
from headrace.kafka_door import topics_refused
from headrace.local_stack import LocalStack
from headrace.own_name import own_name
from headrace.policies import PolicyFolder, load_folder
from headrace.policies.topic import publish, published_policies
from headrace.process import Process, run_process, until_stopped
from headrace.settings import LocalKafkaSettings, ProcessSettings
from wire.admin import TopicsError

app = new_app()


class UpSettings(LocalKafkaSettings, ProcessSettings):
    section: ClassVar[str] = "up"

    policies: Path | None = Field(None, description="Folder of policies to publish; see headrace policy --help.")
    workers: int = Field(1, ge=1, le=64, description="How many workers to run.")
    data: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("headrace"), "up"),
        description="Folder for broker, logs and tables, by default in the user's data folder; it is used again.",
    )
    tables: str | None = Field(None, description="Folder or URI of the Delta tables; default: in the folder of --data.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "warning", description="Least level that `up` itself logs; its processes log into files."
    )


_FIRST_QUERY = "SELECT at, endpoint, current, desired, reason FROM decisions_scaling ORDER BY at DESC LIMIT 5"

_EXITS = [ExitCode.UNAVAILABLE, ExitCode.REFUSED, ExitCode.PARTITIONS, ExitCode.STORAGE, ExitCode.CHILD_ENDED]


@settings_command(app, UpSettings, exits=_EXITS)
def up(settings: UpSettings) -> ExitCode:
    """Run everything on this machine until Ctrl-C: a Kafka broker, the topics, your policies, the sink and workers.

    Each is a process of its own with its log in the data folder. When one ends unexpectedly all end, and the message
    says which it was and where its log is. The data stays, and the next start goes on with it.

    Example:
        headrace up --policies policies/ --workers 2
        headrace up --policies policies/ --bootstrap kafka.example:9092
    """
    return run_process("up", settings, _serve)


async def _serve(process: Process[UpSettings]) -> ExitCode:
    data = process.settings.data.absolute()
    policies = load_folder(process.settings.policies) if process.settings.policies else None
    process.health.expect("children", "starting")
    try:
        await until_stopped(process, _run(process, data, policies))
    except TopicsError as error:
        raise topics_refused(error) from error
    except KafkaError as error:
        raise CannotRunError(f"Kafka refused: {error}", ExitCode.UNAVAILABLE) from error
    finally:
        typer.echo(f"data: {data}\nlogs: {data / 'logs'}\ntables: {_tables(process.settings, data)}")
    return ExitCode.OK


async def _run(process: Process[UpSettings], data: Path, policies: PolicyFolder | None) -> None:
    settings = process.settings
    async with Children(data / "logs") as children:
        stack = LocalStack(settings, data, children, process.clock)
        bootstrap = await stack.start_kafka(settings.bootstrap)
        typer.echo(f"kafka: {bootstrap}")
        access = settings.access_to(bootstrap)
        if policies is not None:
            await publish(access, settings.topic_names, policies.policies, clock=process.clock)
        typer.echo(f"policies: {_told(await published_policies(access, settings.topic_names), settings, bootstrap)}")
        started = [await stack.start_sink(_tables(settings, data))]
        started += [await stack.start_worker(number) for number in range(settings.workers)]
        for child in started:
            typer.echo(f"{child.name}: http://{child.health_address}/metrics, log {child.log_path}")
        tables = quote(_tables(settings, data))
        typer.echo(f"tables: {_tables(settings, data)}")
        typer.echo(f'first query: {own_name()} tables query --tables {tables} "{_FIRST_QUERY}"')
        process.health.meet("children")
        typer.echo("ready; Ctrl-C ends all")
        await children.watch()


def _told(published: Mapping[str, object], settings: UpSettings, bootstrap: str) -> str:
    """The endpoints that have a policy, of earlier runs too; where none has, how to give one."""
    if published:
        return ", ".join(sorted(published))
    prefix = f" --topic-prefix {settings.topic_prefix}" if settings.topic_prefix else ""
    apply = f"{own_name()} policy apply FOLDER --bootstrap {bootstrap}{prefix}"
    return f"none, so nothing is decided; give one at any time: {apply} (policy --help shows the smallest)"


def _tables(settings: UpSettings, data: Path) -> str:
    return settings.tables or str(data / "tables")
