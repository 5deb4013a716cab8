"""Topics on a real Kafka: made as the contract says, found again, and checked."""

import asyncio
import logging

import pytest

from records.enums import Source
from records.telemetry import RequestSample
from tests.conftest import Kafka
from wire.admin import TopicSettings, TopicsSettingError, check_topics, create_topics, list_topics
from wire.kafka import KafkaAccess, open_admin, open_producer
from wire.topic_times import timestamp_problems
from wire.topics import CO_PARTITIONED, TOPIC_OF, TOPICS, TopicNames, key_of

DAY_MS = "86400000"

# Beside contract.md's table: cleanup, retention in ms, compaction lag in ms, co-partitioned, in transactions.
CONTRACT = {
    "telemetry.requests": ("delete", DAY_MS, None, True, False),
    "telemetry.gpus": ("delete", DAY_MS, None, True, False),
    "telemetry.replicas": ("delete", "604800000", None, True, False),
    "telemetry.targets": ("delete", "604800000", None, True, False),
    "inference.requests": ("delete", DAY_MS, None, False, False),
    "policies": ("compact", None, None, True, False),
    "signals": ("delete", DAY_MS, None, False, True),
    "forecasts": ("delete", DAY_MS, None, False, True),
    "decisions.scaling": ("delete", "604800000", None, False, True),
    "outcomes": ("compact", None, "604800000", True, False),
    "controllers": ("compact", None, None, True, True),
}


def test_every_topic_is_as_in_the_contract() -> None:
    assert set(TOPICS) == set(CONTRACT)
    for name, (cleanup, retention_ms, lag_ms, co_partitioned, transactional) in CONTRACT.items():
        spec = TOPICS[name]
        assert spec.cleanup == cleanup
        assert (spec.retention_ms and str(spec.retention_ms)) == retention_ms
        assert str(spec.compaction_lag_ms or "") == (lag_ms or "")
        assert (spec.co_partitioned, spec.transactional) == (co_partitioned, transactional)
        assert spec.key == ("request_id" if name == "inference.requests" else "endpoint")


def test_each_record_type_has_one_topic() -> None:
    assert len(TOPIC_OF) == len(TOPICS)
    assert TOPIC_OF[RequestSample] == "telemetry.requests"


def test_key_is_the_endpoint() -> None:
    sample = RequestSample(endpoint="chat", replica="chat-0", at_s=1, source=Source.ENGINE)
    assert key_of(sample) == "chat"


def test_prefix_maps_there_and_back() -> None:
    names = TopicNames("prod.")
    assert names.real("signals") == "prod.signals"
    assert names.logical("prod.signals") == "signals"
    for foreign in ("signals", "prod.unknown", "test.signals"):
        with pytest.raises(KeyError):
            names.logical(foreign)
    with pytest.raises(ValueError, match="topic prefix"):
        TopicNames("a b")


@pytest.mark.kafka
async def test_topics_are_created_once_with_their_configuration(kafka: Kafka) -> None:
    access, names = KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(kafka.prefix())
    settings = TopicSettings(partitions=3, overrides={"inference.requests": 5}, retention_bytes=10**8)
    assert await create_topics(access, names, settings) == list(TOPICS)
    assert await create_topics(access, names, settings) == []
    assert await check_topics(access, names, 3) == []
    assert timestamp_problems(await list_topics(access, names)) == []

    states = {state.name: state for state in await list_topics(access, names)}
    assert set(states) == set(CONTRACT)
    assert states["inference.requests"].partitions == 5
    assert all(states[name].partitions == 3 for name in CO_PARTITIONED)
    for name, (cleanup, retention_ms, lag_ms, _, _) in CONTRACT.items():
        config = states[name].config
        assert config["cleanup.policy"] == cleanup
        assert config["compression.type"] == "zstd"
        assert config["message.timestamp.type"] == "LogAppendTime"
        if retention_ms is not None:
            assert (config["retention.ms"], config["retention.bytes"]) == (retention_ms, str(10**8))
        assert config["min.compaction.lag.ms"] == (lag_ms or "0")


@pytest.mark.kafka
async def test_input_topics_that_their_senders_stamp_are_named(kafka: Kafka) -> None:
    access, names = KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(kafka.prefix())
    await create_topics(access, names, TopicSettings(partitions=1, producer_timestamps=True))
    problems = timestamp_problems(await list_topics(access, names))
    assert len(problems) == len(CO_PARTITIONED)
    assert (
        problems[0] == f"{names.real('telemetry.requests')}: message.timestamp.type CreateTime, allowed LogAppendTime"
    )


@pytest.mark.kafka
async def test_new_topics_can_be_written_without_a_retry(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    access, names = KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(kafka.prefix())
    await create_topics(access, names)
    async with open_producer(access) as producer:
        sent = [await producer.send(names.real(topic), b"x", b"key", part) for topic in TOPICS for part in range(12)]
        await asyncio.gather(*sent)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.kafka
async def test_check_names_what_is_missing_and_what_differs(kafka: Kafka) -> None:
    access, names = KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(kafka.prefix())
    problems = await check_topics(access, names)
    assert len(problems) == len(TOPICS)
    assert problems[0] == f"{names.real('telemetry.requests')}: missing (hint: headrace topics create)"

    await create_topics(access, names, TopicSettings(partitions=2))
    async with open_admin(access) as admin:
        await admin.delete_topics([names.real("policies")])
    while len(await list_topics(access, names)) == len(TOPICS):
        pass
    await create_topics(access, names, TopicSettings(partitions=4))
    problems = await check_topics(access, names)
    cure = "(hint: grow those that have fewer to 4, with kafka-topics.sh --alter --partitions 4)"
    together = f"one number of partitions is shared by {', '.join(map(names.real, CO_PARTITIONED))} {cure}"
    assert problems == [f"{names.real('policies')}: 4 partitions, allowed 2", together]
    problems = await check_topics(access, names, 4)
    assert len(problems) == len(CO_PARTITIONED)
    assert problems[-1] == together


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TopicSettings(replication_factor=3), r"replication factor 3, with 1 broker"),
        (TopicSettings(retention_bytes=2**63), rf"InvalidConfigurationError: [^\n]*{2**63}[^\n]*"),
    ],
    ids=["replication", "configuration"],
)
async def test_what_is_refused_alike_is_told_once_with_its_topics(
    kafka: Kafka, settings: TopicSettings, message: str
) -> None:
    access, names = KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(kafka.prefix())
    first, last = (names.real(topic) for topic in ("telemetry.requests", "decisions.scaling"))
    with pytest.raises(TopicsSettingError, match=rf"^{message} \(topics: {first}, [^\n]*{last}[^\n]*\)$"):
        await create_topics(access, names, settings)


def test_topic_settings_name_every_bad_value() -> None:
    with pytest.raises(ValueError, match="unknown") as caught:
        TopicSettings(partitions=0, overrides={"unknown": 3, "policies": 2})
    assert len(str(caught.value).splitlines()) == 3
