"""The rights that are printed, against Kafka's own authorizer: enough for the whole work, and none too many."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer

from headrace.children import Children
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.kafka_door import enter
from tests.security.kafka_admin import audited
from tests.security.rights import told_of, without
from tests.security.secured_kafka import SecuredKafka, user
from tests.security.secured_line import NAMES, WHOLE_PREFIX, Line
from wire.acls import Resource, Right, Role, rights_of
from wire.kafka import KafkaAccess, open_consumer
from wire.topics import TopicNames

pytestmark = pytest.mark.kafka

TRIES_MAX = 200

AUDIT_NAMES = {Resource.TOPIC: "Topic", Resource.GROUP: "Group", Resource.TRANSACTIONAL_ID: "TransactionalId"}


async def first_of(consumer: AIOKafkaConsumer) -> None:
    async with consumer:
        await consumer.getone()


def lines_of(secured: SecuredKafka) -> set[tuple[str, str, str, str, str]]:
    return {
        (found.principal, found.verdict, found.operation, found.resource, found.name)
        for found in audited(secured.log())
    }


def used(right: Right, role: Role, lines: set[tuple[str, str, str, str, str]]) -> bool:
    wanted = (f"User:{user(role)}", "Allowed", right.operation.name, AUDIT_NAMES[right.resource])
    return any(
        line[:4] == wanted and (line[4].startswith(right.name) if right.is_prefix else line[4] == right.name)
        for line in lines
    )


async def test_the_whole_line_works_with_the_printed_rights_and_needs_each_of_them(
    secured: SecuredKafka, tmp_path: Path, recordings: Path
) -> None:
    names = TopicNames(WHOLE_PREFIX)
    async with Children(tmp_path / "logs") as children:
        line = Line(secured, tmp_path / "line", children, WHOLE_PREFIX)
        await line.create()
        await asyncio.gather(line.start_processes(), line.collect(recordings))
        await line.log_requests()
        for topic in ("outcomes", "telemetry.gpus", "inference.requests"):
            await asyncio.wait_for(first_of(open_consumer(secured.administrator, names.real(topic))), 60)
        await line.call(Role.ANALYST, "export", "--endpoint", "chat", "--out", str(line.folder / "chat.jsonl"))
        assert "chat" in await line.call(Role.ANALYST, "explain", "chat")
    found = {entry for entry in lines_of(secured) if entry[4].startswith(WHOLE_PREFIX)}
    assert sorted(entry for entry in found if entry[1] == "Denied") == []
    needed = [(role, right) for role in Role for right in rights_of(role, names)]
    assert [(role, str(right)) for role, right in needed if not used(right, role, found)] == []


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize("role", [role for role in Role if role is not Role.TOPICS])
async def test_one_missing_right_is_told_before_anything_begins(secured: SecuredKafka, role: Role) -> None:
    access, rights = secured.scram(role), rights_of(role, NAMES)
    await enter(access, rights)
    for right in rights:
        async with without(secured, role, right):
            told = await refusal(access, rights)
        assert re.search(told_of(right, role), told.message), f"{right}: {told.message}"
        assert told.code is ExitCode.REFUSED


async def refusal(access: KafkaAccess, rights: Sequence[Right]) -> CannotRunError:
    """A broker follows the controller by a moment, in which a right that was taken is still there."""
    for _ in range(TRIES_MAX):
        try:
            await enter(access, rights)
        except CannotRunError as error:
            return error
        await asyncio.sleep(0.02)
    raise AssertionError("it is never told")
