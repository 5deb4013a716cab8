"""What an administrator of a secured Kafka does: users, rights, levels of its log; by requests that aiokafka lacks."""

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from aiokafka.protocol.admin import CreateAclsRequest_v1, DeleteAclsRequest_v1
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

from wire.acls import Operation, Resource, Right
from wire.kafka import KafkaAccess, open_admin

MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
ITERATIONS = 4096
_RESOURCES = {Resource.TOPIC: 2, Resource.GROUP: 3, Resource.TRANSACTIONAL_ID: 5}
_OPERATIONS = {
    Operation.READ: 3,
    Operation.WRITE: 4,
    Operation.CREATE: 5,
    Operation.DESCRIBE: 8,
    Operation.DESCRIBE_CONFIGS: 10,
}
_ALLOW, _LITERAL, _PREFIXED, _SET, _BROKER_LOGGER = 3, 3, 4, 0, 8


class _ScramResponse(Response):  # type: ignore[misc]  # aiokafka has no type annotations that mypy may read
    API_KEY, API_VERSION = 51, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "results",
            CompactArray(
                ("user", CompactString("utf-8")),
                ("error_code", Int16),
                ("error_message", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ScramRequest(RequestStruct):  # type: ignore[misc]  # as above
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 51, 0
    RESPONSE_TYPE = _ScramResponse
    SCHEMA = Schema(
        ("deletions", CompactArray(("name", CompactString("utf-8")), ("mechanism", Int8), ("tags", TaggedFields))),
        (
            "upsertions",
            CompactArray(
                ("name", CompactString("utf-8")),
                ("mechanism", Int8),
                ("iterations", Int32),
                ("salt", CompactBytes),
                ("salted_password", CompactBytes),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _ConfigsResponse(Response):  # type: ignore[misc]  # as above
    API_KEY, API_VERSION = 44, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "responses",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
            ),
        ),
    )


class _ConfigsRequest(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY, API_VERSION = 44, 0
    RESPONSE_TYPE = _ConfigsResponse
    SCHEMA = Schema(
        (
            "resources",
            Array(
                ("resource_type", Int8),
                ("resource_name", String("utf-8")),
                ("configs", Array(("name", String("utf-8")), ("operation", Int8), ("value", String("utf-8")))),
            ),
        ),
        ("validate_only", Boolean),
    )


def _sent(struct: type[RequestStruct], *fields: Any) -> Any:
    """A request of this one version."""

    class Ready(Request[struct]):  # type: ignore[misc]  # as above
        API_KEY = struct.API_KEY

        def build(self, request_struct_class: Any) -> Any:
            return struct(*fields)

    return Ready()


async def _ask(access: KafkaAccess, request: Any) -> Any:
    async with open_admin(access) as admin:
        return await admin._send_to_controller(request)


async def make_users(access: KafkaAccess, passwords: dict[str, str]) -> None:
    """SCRAM users of both mechanisms; Kafka changes one of them in a request."""
    salt = b"a salt of the tests"
    for number, digest in MECHANISMS.values():
        made: list[Any] = [
            (user, number, ITERATIONS, salt, hashlib.pbkdf2_hmac(digest, password.encode(), salt, ITERATIONS), {})
            for user, password in passwords.items()
        ]
        response = await _ask(access, _sent(_ScramRequest, [], made, {}))
        assert all(not error_code for _, error_code, _, _ in response.results), response


@dataclass(frozen=True)
class Acl:
    """That a user may do something."""

    principal: str
    right: Right

    @property
    def _fields(self) -> tuple[Any, ...]:
        right = self.right
        pattern = _PREFIXED if right.is_prefix else _LITERAL
        operation = _OPERATIONS[right.operation]
        return _RESOURCES[right.resource], right.name, pattern, self.principal, "*", operation, _ALLOW


async def allow(access: KafkaAccess, acls: Sequence[Acl]) -> None:
    response = await _ask(access, _sent(CreateAclsRequest_v1, [acl._fields for acl in acls]))
    assert all(not error_code for error_code, _ in response.creation_responses), response


async def withdraw(access: KafkaAccess, acls: Sequence[Acl]) -> None:
    response = await _ask(access, _sent(DeleteAclsRequest_v1, [acl._fields for acl in acls]))
    assert all(not result[0] and len(result[2]) == 1 for result in response.filter_responses), response


async def set_log_level(access: KafkaAccess, logger: str, level: str) -> None:
    response = await _ask(access, _sent(_ConfigsRequest, [(_BROKER_LOGGER, "1", [(logger, _SET, level)])], False))
    assert not response.responses[0][0], response


def acls_of(command: str) -> list[Acl]:
    """What one printed command of kafka-acls allows."""
    words = shlex.split(command)
    options: dict[str, list[str]] = {}
    for option, value in pairwise(words):
        if option.startswith("--") and not value.startswith("--"):
            options.setdefault(option.removeprefix("--"), []).append(value)
    (principal,) = options["allow-principal"]
    return [
        Acl(
            principal,
            Right(
                resource=resource,
                name=name,
                operation=Operation(operation),
                is_prefix=options.get("resource-pattern-type") == ["prefixed"],
            ),
        )
        for resource in Resource
        for name in options.get(resource.value, ())
        for operation in options["operation"]
    ]


_AUDIT = re.compile(
    r"Principal = (?P<principal>\S+) is (?P<verdict>Allowed|Denied) operation = (?P<operation>\w+) "
    r"from host = \S+ on resource = (?P<resource>\w+):(?P<pattern>\w+):(?P<name>\S+) "
)


@dataclass(frozen=True, order=True)
class Audited:
    """One line of the authorizer's log."""

    principal: str
    verdict: str
    operation: str
    resource: str
    name: str


def audited(log: str) -> set[Audited]:
    return {
        Audited(found["principal"], found["verdict"], found["operation"], found["resource"], found["name"])
        for found in _AUDIT.finditer(log)
    }
