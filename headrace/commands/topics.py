"""`headrace topics`: create, list and check."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

import typer
from pydantic import Field
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from headrace.clock import Clock
from headrace.commands.topic_acls import AclSettings, print_acls
from headrace.exit_codes import ExitCode
from headrace.flags import new_app, settings_command
from headrace.one_shot import ask_kafka
from headrace.settings import KafkaSettings, PartitionSettings
from wire.acls import Operation, Right, Role, rights_of
from wire.admin import (
    RETENTION_BYTES,
    TopicSettings,
    TopicState,
    create_topics,
    list_topics,
    partition_counts,
    topic_problems,
)
from wire.topic_times import timestamp_problems
from wire.topics import CO_PARTITIONED, TopicNames

app = new_app(
    """Create, list or check Headrace's topics, or print who needs which rights to them.

    Example:

        headrace topics create --bootstrap 127.0.0.1:9092 --partitions 12
    """
)


class _TopicsGroup(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--acls` stands for the command `acls`."""
        named = ["acls", *(word for word in args if word != "--acls")] if "--acls" in args else args
        parsed: list[str] = super().parse_args(ctx, named)
        return parsed


app.info.cls = _TopicsGroup


class CreateSettings(KafkaSettings, PartitionSettings):
    section: ClassVar[str] = "topics"

    replication_factor: int = Field(1, ge=1, le=10_000, description="Copies of each partition; 3 on a cluster.")
    retention_bytes: int = Field(
        RETENTION_BYTES, ge=2**20, description="Most bytes of a partition; older records go first."
    )


@settings_command(
    app, CreateSettings, name="create", exits=[ExitCode.UNAVAILABLE, ExitCode.REFUSED, ExitCode.PARTITIONS]
)
def create(settings: CreateSettings) -> ExitCode:
    """Make the topics that are missing, and wait until they can be used. Topics that exist are left as they are; those
    that share the load and have not --partitions, where that is given, are named.

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
    access, names = settings.access(), settings.topic_names
    # Of topics that are not there yet nobody can say what we may do.
    made, counts = ask_kafka(access, (), lambda: _made(settings, wanted))
    for name in made:
        typer.echo(f"created {names.real(name)}")
    typer.echo(f"{len(made)} topics created on {settings.bootstrap}")
    others = _other_counts(counts, names, settings.partitions) if "partitions" in settings.model_fields_set else []
    for told in others:
        typer.echo(told, err=True)
    return ExitCode.PARTITIONS if others else ExitCode.OK


async def _made(settings: CreateSettings, wanted: TopicSettings) -> tuple[list[str], dict[str, int]]:
    """The topics made, and how many partitions each has that is there now, by logical name."""
    access, names = settings.access(), settings.topic_names
    made = await create_topics(access, names, wanted)
    return made, await partition_counts(access, names)


def _other_counts(counts: Mapping[str, int], names: TopicNames, partitions: int) -> list[str]:
    """A line for each other number of partitions that topics which share the load have, as `check` would find it."""
    topics_of: defaultdict[int, list[str]] = defaultdict(list)
    for topic in CO_PARTITIONED:
        if topic in counts and counts[topic] != partitions:
            topics_of[counts[topic]].append(names.real(topic))
    return [
        f"{', '.join(topics)}: left as before, with {count} partitions, not {partitions} (hint: headrace topics check)"
        for count, topics in topics_of.items()
    ]


class ListSettings(KafkaSettings):
    section: ClassVar[str] = "topics"


@settings_command(app, ListSettings, name="list", exits=[ExitCode.UNAVAILABLE, ExitCode.REFUSED])
def show(settings: ListSettings) -> ExitCode:
    """Show Headrace's topics as they are on the cluster.

    Example:
        headrace topics list --bootstrap 127.0.0.1:9092
    """
    access, names = settings.access(), settings.topic_names
    states = ask_kafka(access, _looking(names), lambda: list_topics(access, names))
    table = Table("topic", "partitions", "cleanup", "kept", box=None, pad_edge=False)
    for state in states:
        table.add_row(*_row(state))
    Console().print(table)
    return ExitCode.OK


class CheckSettings(KafkaSettings, PartitionSettings):
    section: ClassVar[str] = "topics"


@settings_command(app, CheckSettings, name="check", exits=[ExitCode.UNAVAILABLE, ExitCode.REFUSED, ExitCode.PARTITIONS])
def check(settings: CheckSettings) -> ExitCode:
    """Tell what is wrong with the topics, one line for each: missing, unequal numbers of partitions, senders' stamps.

    Those that share the load have one number of partitions; with --partitions it must be that.

    Example:
        headrace topics check --bootstrap 127.0.0.1:9092
    """
    partitions = settings.partitions if "partitions" in settings.model_fields_set else None
    rights = _looking(settings.topic_names)
    problems = ask_kafka(settings.access(), rights, lambda: _problems(settings, partitions))
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        return ExitCode.PARTITIONS
    typer.echo(f"the topics on {settings.bootstrap} are as they should be")
    return ExitCode.OK


async def _problems(settings: CheckSettings, partitions: int | None) -> list[str]:
    names = settings.topic_names
    found = await list_topics(settings.access(), names)
    problems = topic_problems(found, names, partitions)
    if Clock.from_environment().is_real:
        problems += timestamp_problems(found)
    return problems


settings_command(app, AclSettings, name="acls")(print_acls)


def _looking(names: TopicNames) -> list[Right]:
    """What is needed to look at the topics."""
    return [right for right in rights_of(Role.TOPICS, names) if right.operation is not Operation.CREATE]


def _row(state: TopicState) -> tuple[str, str, str, str]:
    cleanup = state.config.get("cleanup.policy", "delete")
    hours = int(state.config.get("retention.ms", 604_800_000)) / 3_600_000
    kept = "newest of each key" if cleanup == "compact" else f"{hours:g} hours"
    return state.kafka_name, str(state.partitions), cleanup, kept
