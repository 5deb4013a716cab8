"""What each process has to be allowed by Kafka's access control, and the commands that allow it.

A right to read or write a topic includes the right to describe it. A process that writes in transactions needs its
transactional ids too; an idempotent producer needs nothing besides its topics (Kafka 3.0 and newer).
"""

import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from wire.groups import actuator_group, sink_group, worker_group
from wire.topics import TELEMETRY_TOPICS, TOPICS, TopicNames


class Operation(StrEnum):
    """As `kafka-acls` spells them."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


class Resource(StrEnum):
    """As `kafka-acls` spells them."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, kw_only=True, order=True)
class Right:
    """To do something to a resource of that name, or to all whose names begin with it (`is_prefix`)."""

    resource: Resource
    name: str
    operation: Operation
    is_prefix: bool = False

    def __str__(self) -> str:
        return f"{self.operation.value} on {self.resource.value} {self.name}{'*' if self.is_prefix else ''}"


class Role(StrEnum):
    """Who needs rights; each is a user of its own. `producer` is what pods embed, `gateway` logs requests besides,
    `policy` publishes policies, `topics` makes topics, `analyst` exports and explains."""

    PRODUCER = "producer"
    GATEWAY = "gateway"
    COLLECTOR = "collector"
    WORKER = "worker"
    SINK = "sink"
    ACTUATOR = "actuator"
    POLICY = "policy"
    TOPICS = "topics"
    ANALYST = "analyst"


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Consumer groups, where they are not the defaults; the worker's begins its transactional ids."""

    worker: str | None = None
    sink: str | None = None
    actuator: str | None = None


DECIDED = ("signals", "decisions.scaling")

_READS = {
    Role.WORKER: (*TELEMETRY_TOPICS, "policies", "outcomes", "controllers"),
    Role.SINK: tuple(TOPICS),
    Role.ACTUATOR: ("decisions.scaling", "outcomes"),
    Role.POLICY: ("policies",),
    Role.ANALYST: (*TELEMETRY_TOPICS, "policies", "outcomes", "controllers", *DECIDED),
}
_WRITES = {
    Role.PRODUCER: TELEMETRY_TOPICS,
    Role.GATEWAY: ("telemetry.requests", "inference.requests"),
    Role.COLLECTOR: ("telemetry.requests",),
    Role.WORKER: (*DECIDED, "controllers"),
    Role.ACTUATOR: ("outcomes",),
    Role.POLICY: ("policies",),
}
_LOOKS_AT = {Role.WORKER: tuple(sorted({*_READS[Role.WORKER], *_WRITES[Role.WORKER]})), Role.TOPICS: tuple(TOPICS)}
"""Whose configuration it reads, to tell what is wrong with it."""


def rights_of(
    role: Role, names: TopicNames, groups: Groups | None = None, kept: Sequence[str] | None = None
) -> tuple[Right, ...]:
    """All that a process needs, in the order of resources and names. `kept` are the topics of a sink that does not keep
    all of them."""
    reads = _READS.get(role, ()) if kept is None else kept
    rights = [
        Right(resource=Resource.TOPIC, name=names.real(topic), operation=operation)
        for operation, topics in (
            (Operation.READ, reads),
            (Operation.WRITE, _WRITES.get(role, ())),
            (Operation.DESCRIBE_CONFIGS, _LOOKS_AT.get(role, ())),
            (Operation.CREATE, tuple(TOPICS) if role is Role.TOPICS else ()),
            (Operation.DESCRIBE, tuple(TOPICS) if role is Role.TOPICS else ()),
        )
        for topic in topics
    ]
    return tuple(sorted([*rights, *_group_rights(role, names, groups or Groups())]))


def topics_of(role: Role) -> tuple[str, ...]:
    """The topics, by logical name, that a process uses."""
    used = {*_READS.get(role, ()), *_WRITES.get(role, ()), *_LOOKS_AT.get(role, ())}
    return tuple(topic for topic in TOPICS if topic in used)


def _group_rights(role: Role, names: TopicNames, groups: Groups) -> list[Right]:
    match role:
        case Role.WORKER:
            app = groups.worker or worker_group(names)
            ids = Right(resource=Resource.TRANSACTIONAL_ID, name=f"{app}-", operation=Operation.WRITE, is_prefix=True)
            return [Right(resource=Resource.GROUP, name=app, operation=Operation.READ), ids]
        case Role.SINK:
            return [_group(groups.sink, sink_group(names, ""))]
        case Role.ACTUATOR:
            return [_group(groups.actuator, actuator_group(names, ""))]
    return []


def _group(name: str | None, prefix: str) -> Right:
    """The default names end with what the tables' address, or the actuator's name, makes of them."""
    return Right(resource=Resource.GROUP, name=name or prefix, operation=Operation.READ, is_prefix=name is None)


def acl_commands(principal: str, rights: Sequence[Right], tool: Sequence[str]) -> list[str]:
    """One line of shell for each kind of right: `tool` is the program with how it reaches Kafka."""
    together: defaultdict[tuple[Resource, bool, tuple[Operation, ...]], list[str]] = defaultdict(list)
    operations: defaultdict[tuple[Resource, bool, str], list[Operation]] = defaultdict(list)
    for right in rights:
        operations[right.resource, right.is_prefix, right.name].append(right.operation)
    for (resource, is_prefix, name), allowed in operations.items():
        together[resource, is_prefix, tuple(allowed)].append(name)
    lines = []
    for (resource, is_prefix, allowed_all), resources in together.items():
        words = [*tool, "--add", "--allow-principal", principal]
        words += [word for operation in allowed_all for word in ("--operation", operation.value)]
        words += [word for name in resources for word in (f"--{resource.value}", name)]
        words += ["--resource-pattern-type", "prefixed"] if is_prefix else []
        lines.append(shlex.join(words))
    return lines
