"""`headrace topics acls`: what each process has to be allowed, as commands of Kafka's own `kafka-acls`."""

import re
import shlex
from typing import Annotated, ClassVar

import typer
from pydantic import Field

from headrace.exit_codes import ExitCode
from headrace.kafka_address import ADDRESSES
from headrace.setting_checks import check
from headrace.settings import ClusterSettings
from wire.acls import Groups, Role, acl_commands, rights_of

ROLES = tuple(role.value for role in Role)


class AclPlace(ClusterSettings):
    """A Kafka that is named in the commands, and not asked."""

    section: ClassVar[str] = "kafka"

    bootstrap: Annotated[str, ADDRESSES] = Field("127.0.0.1:9092", description="Kafka's address, for the commands.")


PROCESS = "{process}"
"""Stands in a principal for the name of each process."""


class AclSettings(AclPlace):
    """Which rights of whom."""

    section: ClassVar[str] = "acls"

    process: tuple[str, ...] = Field((), description=f"One of {', '.join(ROLES)}; may be repeated; default: all.")
    principal: str = Field(
        "User:headrace-{process}",
        min_length=1,
        description="The user of each process; {process} is its name. With certificates what Kafka makes of their "
        "subject, such as User:CN={process}.",
    )
    tool: str = Field(
        "kafka-acls.sh", min_length=1, description="The program, with options for it, such as --command-config FILE."
    )
    worker_group: str | None = Field(None, min_length=1, description="The workers' --group, where one is given.")
    sink_group: str | None = Field(None, min_length=1, description="The sinks' --group, where one is given.")
    actuator_group: str | None = Field(None, min_length=1, description="The actuators' --group, where one is given.")

    @check("process")
    def _are_processes(self) -> list[str]:
        return [f"--process: {name!r}, allowed: {', '.join(ROLES)}" for name in self.process if name not in ROLES]

    @check("principal")
    def _is_principal(self) -> list[str]:
        kind, _, name = self.principal.partition(":")
        if not kind or not name:
            return [f"--principal: {self.principal!r}, allowed: KIND:NAME, such as User:NAME"]
        unknown = sorted(set(re.findall(r"\{[^}]*\}", name)) - {PROCESS})
        return [f"--principal: {word}, allowed: {PROCESS}" for word in unknown]


def print_acls(settings: AclSettings) -> ExitCode:
    """Print what each process needs of Kafka's access control: one command of Kafka's own kafka-acls a line.

    A right to read or write includes the right to describe. Each process has a user of its own; give none of them more.

    Examples:
        headrace topics acls --bootstrap kafka:9093 \\
            --tool "kafka-acls.sh --command-config admin.properties" | sh
        headrace topics acls --process worker --topic-prefix prod.
    """
    tool = [*shlex.split(settings.tool), "--bootstrap-server", settings.bootstrap]
    groups = Groups(worker=settings.worker_group, sink=settings.sink_group, actuator=settings.actuator_group)
    names = settings.topic_names
    for role in Role:
        if role.value in (settings.process or ROLES):
            principal = settings.principal.replace(PROCESS, role.value)
            for line in acl_commands(principal, rights_of(role, names, groups), tool):
                typer.echo(line)
    return ExitCode.OK
