"""docs/security.md says what the program does."""

import asyncio
import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.broker_jars import fetch_jars, find_java
from headrace.kafka_door import enter
from tests.repository.markdown import ROOT, between, blocks, table_rows
from tests.security.secured_kafka import SecuredKafka
from wire.acls import Operation, Resource, Right, Role, rights_of
from wire.topics import TOPICS, TopicNames

PAGE = (ROOT / "docs" / "security.md").read_text()
NAMES = TopicNames()


def told(cell: str) -> set[str]:
    """The names in a cell; `all` stands for all topics."""
    return set(TOPICS) if cell == "all" else set(cell.split("`")[1::2])


@pytest.mark.parametrize("role", Role)
def test_the_table_of_rights_is_that_of_the_program(role: Role) -> None:
    rows = {row[0].strip("`"): row for row in table_rows(between(PAGE, "<!-- rights -->", "<!-- end of rights -->"))}
    _, reads, writes, besides = rows[role.value]
    rights = rights_of(role, NAMES)

    def names(operation: Operation) -> set[str]:
        return {right.name for right in rights if right.resource is Resource.TOPIC and right.operation is operation}

    assert told(reads) == names(Operation.READ)
    assert told(writes) == names(Operation.WRITE)
    others = [right for right in rights if right.resource is not Resource.TOPIC]
    assert told(besides) == {_name(right) for right in others}
    assert all(f"{right.operation.value} on {right.resource.value} `{_name(right)}`" in besides for right in others)
    assert ("DescribeConfigs" in besides) == bool(names(Operation.DESCRIBE_CONFIGS))
    assert ("Create" in besides) == bool(names(Operation.CREATE))


@pytest.mark.kafka
async def test_the_commands_that_make_a_user_make_one_and_tell_nobody_its_password(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    """With Kafka's own `kafka-configs`, whose class is in the broker's jars."""
    (block,) = [block for block in blocks() if block.mark == "makes a user"]
    made = {"headrace-worker": "headrace-of-the-page", "kafka:9093": secured.broker.bootstrap}
    script = block.text
    for name, real in made.items():
        assert name in script
        script = script.replace(name, real)
    (tmp_path / "worker.password").write_text("a secret = of the page\n")
    (tmp_path / "admin.properties").touch()
    java = shlex.join([str(find_java()), "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", f"{fetch_jars()}/*"])
    tool = tmp_path / "kafka-configs.sh"
    tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > told\nexec {java} kafka.admin.ConfigCommand "$@"\n')
    tool.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ran = await asyncio.to_thread(
        subprocess.run, ["sh", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "secret" not in (tmp_path / "told").read_text()
    assert not (tmp_path / "worker.scram").exists()
    access = replace(
        secured.scram(Role.WORKER), sasl_username="headrace-of-the-page", sasl_password="a secret = of the page"
    )
    await enter(access, ())


def _name(right: Right) -> str:
    return f"{right.name}{'*' if right.is_prefix else ''}"
