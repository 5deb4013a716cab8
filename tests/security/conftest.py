"""One secured Kafka for all tests here: a broker costs more to start than most of them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.children import Children
from headrace.commands.topics import app
from tests.conftest import QUICK_GROUPS
from tests.security.kafka_admin import acls_of, allow, make_users, set_log_level
from tests.security.secured_kafka import SecuredKafka, password, start_secured, user
from tests.security.secured_line import NAMES, PREFIX, WHOLE_PREFIX, Line
from wire.acls import Role
from wire.admin import TopicSettings, create_topics


def printed_acls(*arguments: str) -> list[str]:
    """What `headrace topics acls` prints."""
    prefix = () if "--topic-prefix" in arguments else ("--topic-prefix", PREFIX)
    result = CliRunner().invoke(app, ["acls", *prefix, *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Its users are one for each role, with the rights that are printed for them; no topics."""
    kafka = start_secured(tmp_path_factory.mktemp("secured"), QUICK_GROUPS)
    try:
        asyncio.run(_prepare(kafka))
        yield kafka
    finally:
        kafka.broker.kill()


@pytest.fixture
async def line(secured: SecuredKafka, tmp_path: Path) -> AsyncIterator[Line]:
    async with Children(tmp_path / "logs") as children:
        yield Line(secured, tmp_path / "line", children)


@pytest.fixture
async def topics(secured: SecuredKafka) -> None:
    await create_topics(secured.administrator, NAMES, TopicSettings(partitions=2))


async def _prepare(kafka: SecuredKafka) -> None:
    administrator = kafka.administrator
    await make_users(administrator, {user(role): password(role) for role in Role})
    for prefix in (PREFIX, WHOLE_PREFIX):
        printed = printed_acls("--topic-prefix", prefix)
        await allow(administrator, [acl for line in printed for acl in acls_of(line)])
    await set_log_level(administrator, "kafka.authorizer.logger", "DEBUG")
