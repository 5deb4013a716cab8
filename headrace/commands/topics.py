"""`headrace topics`: create, list and check."""

from typing import ClassVar

import typer
from pydantic import Field
from rich.console import Console
from rich.table import Table

from headrace.clock import Clock
from headrace.exit_codes import ExitCode
from headrace.flags import new_app, settings_command
from headrace.one_shot import ask_kafka
from headrace.settings import KafkaSettings, PartitionSettings
from wire.admin import RETENTION_BYTES, TopicSettings, TopicState, check_topics, create_topics, list_topics
from wire.topic_times import timestamp_problems

app = new_app(
    """Create, list or check Headrace's topics.

    Example:

        headrace topics create --bootstrap 127.0.0.1:9092 --partitions 12
    """
)


class CreateSettings(KafkaSettings, PartitionSettings):
    section: ClassVar[str] = "topics"

    replication_factor: int = Field(1, ge=1, le=10_000, description="Copies of each partition; 3 on a cluster.")
    retention_bytes: int = Field(
        RETENTION_BYTES, ge=2**20, description="Most bytes of a partition; older records go first."
    )


@settings_command(app, CreateSettings, name="create", exits=[ExitCode.UNAVAILABLE])
def create(settings: CreateSettings) -> ExitCode:
    """Make the topics that are missing, and wait until they can be used. Topics that exist are left as they are.

    Under a clock that is not the real one (HEADRACE_CLOCK_BASE, HEADRACE_CLOCK_SPEED) they keep the senders'
    timestamps.

    Example:
        headrace topics create --bootstrap 127.0.0.1:9092 --partitions 12
    """
    wanted = TopicSettings(
        partitions=settings.partitions,
        replication_factor=settings.replication_factor,
        retention_bytes=settings.retention_bytes,
        producer_timestamps=not Clock.from_environment().is_real,
    )
    made = ask_kafka(settings.bootstrap, create_topics(settings.access(), settings.topic_names, wanted))
    for name in made:
        typer.echo(f"created {settings.topic_names.real(name)}")
    typer.echo(f"{len(made)} topics created on {settings.bootstrap}")
    return ExitCode.OK


class ListSettings(KafkaSettings):
    section: ClassVar[str] = "topics"


@settings_command(app, ListSettings, name="list", exits=[ExitCode.UNAVAILABLE])
def show(settings: ListSettings) -> ExitCode:
    """Show Headrace's topics as they are on the cluster.

    Example:
        headrace topics list --bootstrap 127.0.0.1:9092
    """
    states = ask_kafka(settings.bootstrap, list_topics(settings.access(), settings.topic_names))
    table = Table("topic", "partitions", "cleanup", "kept", box=None, pad_edge=False)
    for state in states:
        table.add_row(*_row(state))
    Console().print(table)
    return ExitCode.OK


class CheckSettings(KafkaSettings, PartitionSettings):
    section: ClassVar[str] = "topics"


@settings_command(app, CheckSettings, name="check", exits=[ExitCode.UNAVAILABLE, ExitCode.PARTITIONS])
def check(settings: CheckSettings) -> ExitCode:
    """Tell what is wrong with the topics, one line for each: missing, unequal numbers of partitions, senders' stamps.

    Those that share the load have one number of partitions; with --partitions it must be that.

    Example:
        headrace topics check --bootstrap 127.0.0.1:9092
    """
    partitions = settings.partitions if "partitions" in settings.model_fields_set else None
    problems = ask_kafka(settings.bootstrap, _problems(settings, partitions))
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        return ExitCode.PARTITIONS
    typer.echo(f"the topics on {settings.bootstrap} are as they should be")
    return ExitCode.OK


async def _problems(settings: CheckSettings, partitions: int | None) -> list[str]:
    problems = await check_topics(settings.access(), settings.topic_names, partitions)
    if Clock.from_environment().is_real:
        problems += timestamp_problems(await list_topics(settings.access(), settings.topic_names))
    return problems


def _row(state: TopicState) -> tuple[str, str, str, str]:
    cleanup = state.config.get("cleanup.policy", "delete")
    hours = int(state.config.get("retention.ms", 604_800_000)) / 3_600_000
    kept = "newest of each key" if cleanup == "compact" else f"{hours:g} hours"
    return state.kafka_name, str(state.partitions), cleanup, kept
