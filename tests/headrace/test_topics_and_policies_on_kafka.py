"""`headrace topics` and `headrace policy apply` against a real Kafka, as a user calls them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.exit_codes import ExitCode
from headrace.policies.topic import publish, published_policies
from tests.conftest import Kafka
from tests.headrace.test_main import headrace
from tests.headrace.test_policies import SMALL
from wire.kafka import KafkaAccess, open_producer
from wire.topics import CO_PARTITIONED, TOPICS, TopicNames

pytestmark = pytest.mark.kafka

Call = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def prefix(kafka: Kafka) -> str:
    return kafka.prefix()


@pytest.fixture
def call(kafka: Kafka, prefix: str) -> Call:
    """Calls a command on topics of this test alone: exit status, and the lines of stdout and stderr."""

    def run(*arguments: str) -> tuple[int, list[str]]:
        env = {"HEADRACE_BOOTSTRAP": kafka.bootstrap, "HEADRACE_TOPIC_PREFIX": prefix, "HEADRACE_PARTITIONS": "2"}
        told = headrace(*arguments, env=env)
        return told.returncode, (told.stdout + told.stderr).splitlines()

    return run


def test_topics_are_created_listed_and_checked(call: Call, prefix: str) -> None:
    status, lines = call("topics", "check")
    assert status == ExitCode.PARTITIONS
    assert len(lines) == len(TOPICS)
    assert all("missing (hint: headrace topics create)" in line for line in lines)

    assert call("topics", "create")[0] == 0
    assert call("topics", "check")[0] == 0
    assert call("topics", "create")[1][-1].startswith("0 topics created")
    _, listed = call("topics", "list")
    assert [line.split()[0] for line in listed[1:]] == [prefix + name for name in TOPICS]
    assert {line.split()[1] for line in listed[1:]} == {"2"}

    status, lines = call("topics", "check", "--partitions", "3")
    assert status == ExitCode.PARTITIONS
    assert f"{prefix}policies: 2 partitions" in "\n".join(lines)

    status, lines = call("topics", "create", "--partitions", "3")
    shared = ", ".join(prefix + name for name in CO_PARTITIONED)
    left = f"{shared}: left as before, with 2 partitions, not 3 (hint: headrace topics check)"
    assert (status, lines[1:]) == (ExitCode.PARTITIONS, [left])


def test_a_replication_that_cannot_be_is_one_line_and_a_wrong_flag(call: Call, kafka: Kafka) -> None:
    status, (line,) = call("topics", "create", "--replication-factor", "3")
    assert status == ExitCode.USAGE
    assert line.startswith(f"Kafka at {kafka.bootstrap} refused: replication factor 3, with 1 broker (topics: ")


def test_policies_are_published_changed_and_deleted(call: Call, tmp_path: Path, kafka: Kafka, prefix: str) -> None:
    assert call("policy", "apply", str(tmp_path))[0] == ExitCode.USAGE
    (tmp_path / "chat.yaml").write_text(SMALL)
    status, lines = call("policy", "apply", str(tmp_path))
    assert status == ExitCode.PARTITIONS
    assert lines == [f"{prefix}policies: no such topic on {kafka.bootstrap} (hint: headrace topics create)"]

    call("topics", "create")
    assert call("policy", "apply", str(tmp_path)) == (0, ["chat: created"])
    assert call("policy", "apply", str(tmp_path)) == (0, ["chat: unchanged"])
    (tmp_path / "chat.yaml").write_text(SMALL.replace("maxReplicas: 8", "maxReplicas: 9") + "mode: advise\n")
    assert call("policy", "apply", str(tmp_path)) == (0, ["chat: changed maxReplicas, mode"])

    (tmp_path / "chat.yaml").rename(tmp_path / "other.yaml")
    (tmp_path / "other.yaml").write_text(SMALL.replace("chat", "other"))
    status, lines = call("policy", "apply", str(tmp_path))
    assert lines == ["other: created", "chat: stays, though it is not in the folder (--delete chat removes it)"]
    status, lines = call("policy", "apply", "--delete", "chat", "--delete", "nobody")
    assert lines[:2] == ["chat: deleted", "nobody: was not there, nothing to delete"]
    left = asyncio.run(published_policies(KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(prefix)))
    assert {endpoint: policy and policy.max_replicas for endpoint, policy in left.items()} == {"other": 8}


def test_nothing_is_published_when_one_file_is_wrong(call: Call, tmp_path: Path, kafka: Kafka, prefix: str) -> None:
    call("topics", "create")
    (tmp_path / "good.yaml").write_text(SMALL)
    (tmp_path / "wrong.yaml").write_text(SMALL.replace("chat", "wrong").replace("minReplicas: 1", "minReplicas: 9"))
    status, lines = call("policy", "apply", str(tmp_path))
    assert status == ExitCode.USAGE
    assert lines == [
        f"{tmp_path}/wrong.yaml:3: minReplicas: 9, allowed: 0 to maxReplicas, 8 (hint: equal ones turn autoscaling off)"
    ]
    assert asyncio.run(published_policies(KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(prefix))) == {}


FOREIGN = b'{"endpoint":"code","minReplicas":1,"maxReplicas":3,"metrics":[{"name":"queue_depth","target":2}]}'


async def test_an_unreadable_record_is_replaced(call: Call, kafka: Kafka, prefix: str, tmp_path: Path) -> None:
    await asyncio.to_thread(call, "topics", "create")
    access, names = KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(prefix)
    for value in (b'{"half": ', FOREIGN):
        async with open_producer(access) as producer:
            await producer.send_and_wait(names.real("policies"), value, key=b"chat")
            await producer.send_and_wait(names.real("policies"), value, key=b"\xff")
        assert await published_policies(access, names) == {"chat": None}
    changes = await publish(access, names, [], delete=["chat"])
    assert changes.deleted == ("chat",)
    assert await published_policies(access, names) == {}
