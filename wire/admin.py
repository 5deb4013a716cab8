"""Creates, lists and checks the topics of a deployment."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)

from wire.acls import Operation, Resource, Right
from wire.admission import missing_told
from wire.kafka import AdminClient, KafkaAccess, open_admin, open_consumer, started
from wire.topics import CO_PARTITIONED, TOPICS, TopicNames, TopicSpec

PARTITIONS_DEFAULT = 12
RETENTION_BYTES = 1024**3
"""Byte limit of one partition of a topic that is not compacted: 1 GiB, with zstd some 18 million lean samples."""
METADATA_TIMEOUT_S = 30.0
_POLL_S = 0.05
_RETRY_MS = 10
_OF_SETTINGS = frozenset(
    error.errno
    for error in (
        InvalidConfigurationError,
        InvalidPartitionsError,
        InvalidReplicationFactorError,
        InvalidTopicError,
        PolicyViolationError,
    )
)
"""What Kafka answers to how a topic was to be made, however often it is asked."""


class TopicsError(Exception):
    """Kafka refused topics, or they did not appear in time; the message has one problem a line."""


class TopicsDeniedError(TopicsError):
    """Somebody else may make them, we may not."""


class TopicsSettingError(TopicsError):
    """How they were to be made does not suit this cluster: only another setting cures it."""


@dataclass(frozen=True, kw_only=True)
class TopicSettings:
    """How topics are made.

    `partitions` holds for all topics, `overrides` for single ones by logical name (not for co-partitioned ones).
    Timestamps are the broker's, so that a sender's wrong clock shows against them; `producer_timestamps` leaves them
    to the senders, for a pipeline whose clock is not the real one. Raises ValueError.
    """

    partitions: int = PARTITIONS_DEFAULT
    overrides: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    replication_factor: int = 1
    retention_bytes: int = RETENTION_BYTES
    producer_timestamps: bool = False

    def __post_init__(self) -> None:
        problems = [f"{name}: no such topic" for name in self.overrides if name not in TOPICS]
        problems += [f"{name}: allowed only with all others" for name in self.overrides if name in CO_PARTITIONED]
        counts = {"partitions": self.partitions, "replication_factor": self.replication_factor, **self.overrides}
        problems += [
            f"{name}: {count}, allowed 1 to 10000" for name, count in counts.items() if not 0 < count <= 10_000
        ]
        if problems:
            raise ValueError("\n".join(problems))

    def partitions_of(self, topic: str) -> int:
        return self.overrides.get(topic, self.partitions)


@dataclass(frozen=True, kw_only=True)
class TopicState:
    """A topic of ours as it is on the cluster; `name` is the logical one, `config` what was set on it."""

    name: str
    kafka_name: str
    partitions: int
    config: Mapping[str, str]


def topic_config(spec: TopicSpec, settings: TopicSettings) -> dict[str, str]:
    """The configuration of a topic, as Kafka spells it."""
    config = {
        "cleanup.policy": spec.cleanup,
        "compression.type": "zstd",
        "max.message.bytes": str(spec.message_bytes_max + 1024),
        "message.timestamp.type": "LogAppendTime",
    }
    if settings.producer_timestamps:
        config |= {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
    if spec.retention_ms is not None:
        config |= {"retention.ms": str(spec.retention_ms), "retention.bytes": str(settings.retention_bytes)}
    if spec.compaction_lag_ms:
        config["min.compaction.lag.ms"] = str(spec.compaction_lag_ms)
    return config


async def create_topics(
    access: KafkaAccess,
    names: TopicNames,
    settings: TopicSettings | None = None,
    timeout_s: float = METADATA_TIMEOUT_S,
) -> list[str]:
    """Makes the topics that are missing and waits until all can be written; returns the logical names of the new ones.

    Topics that exist are left as they are. Raises TopicsError, aiokafka's KafkaError where no broker answers.
    """
    settings = settings or TopicSettings()
    async with started(open_admin(access)) as admin:
        existing = set(await admin.list_topics())
        missing = [spec for spec in TOPICS.values() if names.real(spec.name) not in existing]
        if missing:
            response = await admin.create_topics([_new_topic(spec, names, settings) for spec in missing])
            await _raise_refused(admin, access, settings, response.topic_errors)
        led = await _until_led(admin, [names.real(topic) for topic in TOPICS], timeout_s)
    await _until_answered(access, led, timeout_s)
    return [spec.name for spec in missing]


def _new_topic(spec: TopicSpec, names: TopicNames, settings: TopicSettings) -> NewTopic:
    return NewTopic(
        name=names.real(spec.name),
        num_partitions=settings.partitions_of(spec.name),
        replication_factor=settings.replication_factor,
        topic_configs=topic_config(spec, settings),
    )


async def _raise_refused(
    admin: AdminClient, access: KafkaAccess, settings: TopicSettings, topic_errors: Sequence[tuple[Any, ...]]
) -> None:
    """Two processes may create the topics at once: one that is there already is as good as made."""
    denied = [name for name, code, _ in topic_errors if code == TopicAuthorizationFailedError.errno]
    if denied:
        missing = [Right(resource=Resource.TOPIC, name=name, operation=Operation.CREATE) for name in sorted(denied)]
        raise TopicsDeniedError(missing_told(access, missing))
    refused = [error for error in topic_errors if error[1] not in (0, TopicAlreadyExistsError.errno)]
    if not refused:
        return
    brokers = len((await admin.describe_cluster())["brokers"])
    topics_of: defaultdict[str, list[str]] = defaultdict(list)
    for name, code, message in refused:
        topics_of[_refusal_told(code, message or "", settings, brokers)].append(name)
    kind = TopicsSettingError if any(code in _OF_SETTINGS for _, code, _ in refused) else TopicsError
    raise kind("\n".join(f"{told} (topics: {', '.join(topics)})" for told, topics in topics_of.items()))


def _refusal_told(code: int, message: str, settings: TopicSettings, brokers: int) -> str:
    """One text for all topics that are refused alike."""
    if code == InvalidReplicationFactorError.errno:
        return f"replication factor {settings.replication_factor}, with {brokers} broker{'s' * (brokers != 1)}"
    return f"{for_code(code).__name__}: {message}".removesuffix(": ")


async def _until_led(admin: AdminClient, kafka_names: list[str], timeout_s: float) -> list[TopicPartition]:
    """New topics appear in the metadata a moment after they were made, and clients that ask before that fail.

    Returns all partitions.
    """
    topics, waiting = [], kafka_names
    try:
        async with asyncio.timeout(timeout_s):
            while waiting:
                topics = await admin.describe_topics(kafka_names)
                waiting = [topic["topic"] for topic in topics if not _is_led(topic)]
                if waiting:
                    await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise TopicsError("\n".join(f"{name}: no leader after {timeout_s} s" for name in waiting)) from None
    return [TopicPartition(topic["topic"], part["partition"]) for topic in topics for part in topic["partitions"]]


def _is_led(topic: Mapping[str, Any]) -> bool:
    partitions = topic["partitions"]
    return not topic["error_code"] and bool(partitions) and all(part["leader"] >= 0 for part in partitions)


async def _until_answered(access: KafkaAccess, partitions: Sequence[TopicPartition], timeout_s: float) -> None:
    """The metadata names a leader before it leads; a producer that writes until then warns at every retry."""
    # The consumer is not given the topics: it would warn as well. So it finds out about one topic at each retry.
    try:
        async with asyncio.timeout(timeout_s), started(open_consumer(access, retry_backoff_ms=_RETRY_MS)) as consumer:
            await consumer.end_offsets(partitions)
    except TimeoutError:
        raise TopicsError(f"the topics cannot be read and written after {timeout_s} s") from None


async def partition_counts(access: KafkaAccess, names: TopicNames) -> dict[str, int]:
    """Of each topic of ours that is on the cluster, and that we may see, by logical name. Raises KafkaError."""
    async with started(open_admin(access)) as admin:
        found = {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}
    return {topic: found[names.real(topic)] for topic in TOPICS if names.real(topic) in found}


async def list_topics(
    access: KafkaAccess, names: TopicNames, topics: Collection[str] = tuple(TOPICS)
) -> list[TopicState]:
    """Those of `topics` that are on the cluster, in the order of TOPICS. Raises aiokafka's KafkaError."""
    async with started(open_admin(access)) as admin:
        wanted = {names.real(topic): topic for topic in TOPICS if topic in topics}
        found = {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}
        present = [name for name in wanted if name in found]
        configs = await _configs(admin, present) if present else {}
    return [
        TopicState(name=wanted[name], kafka_name=name, partitions=found[name], config=configs[name]) for name in present
    ]


async def _configs(admin: AdminClient, kafka_names: list[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in kafka_names]
    found: dict[str, dict[str, str]] = {name: {} for name in kafka_names}
    for response in await admin.describe_configs(resources):
        for _, _, _, name, entries in response.resources:
            found[name] = {entry[0]: entry[1] for entry in entries}
    return found


async def session_timeouts_ms(access: KafkaAccess) -> tuple[int, int] | None:
    """Least and most session timeout of a consumer group's member; null where a broker does not tell us."""
    try:
        async with started(open_admin(access)) as admin:
            brokers = (await admin.describe_cluster())["brokers"]
            (response,) = await admin.describe_configs(
                [ConfigResource(ConfigResourceType.BROKER, str(brokers[0]["node_id"]))]
            )
    except KafkaError:
        return None
    told = {entry[0]: entry[1] for _, _, _, _, entries in response.resources for entry in entries}
    least, most = (told.get(f"group.{word}.session.timeout.ms") for word in ("min", "max"))
    return (int(least), int(most)) if least and most else None


async def check_topics(
    access: KafkaAccess,
    names: TopicNames,
    partitions: int | None = None,
    topics: Collection[str] = tuple(TOPICS),
) -> list[str]:
    """As `topic_problems`, of the topics as they are on the cluster now. Raises aiokafka's KafkaError."""
    return topic_problems(await list_topics(access, names, topics), names, partitions, topics)


def topic_problems(
    found: Iterable[TopicState],
    names: TopicNames,
    partitions: int | None = None,
    topics: Collection[str] = tuple(TOPICS),
) -> list[str]:
    """What is wrong with `topics`, of which `found` are on the cluster; one line each, empty where all is well.

    Missing topics, unequal partition counts of co-partitioned ones (or others than `partitions`), another cleanup.
    """
    states = {state.name: state for state in found}
    problems = [
        f"{names.real(topic)}: missing (hint: headrace topics create)"
        for topic in TOPICS
        if topic in topics and topic not in states
    ]
    problems += _unequal(
        {names.real(topic): states[topic].partitions for topic in CO_PARTITIONED if topic in states}, partitions
    )
    for state in states.values():
        cleanup, spec = state.config.get("cleanup.policy"), TOPICS[state.name]
        if cleanup != spec.cleanup:
            problems.append(f"{state.kafka_name}: cleanup.policy {cleanup}, allowed {spec.cleanup}")
    return problems


def _unequal(counts: Mapping[str, int], partitions: int | None) -> list[str]:
    """One line for each topic that has not `partitions`, by default what most have, and one that says why and what can
    be done: Kafka adds partitions, and takes none away."""
    wanted = partitions if partitions is not None else Counter(counts.values()).most_common(1)[0][0] if counts else 0
    wrong = [f"{name}: {count} partitions, allowed {wanted}" for name, count in counts.items() if count != wanted]
    if not wrong:
        return []
    most = max(wanted, *counts.values())
    cure = f"(hint: grow those that have fewer to {most}, with kafka-topics.sh --alter --partitions {most})"
    return [*wrong, f"one number of partitions is shared by {', '.join(counts)} {cure}"]
