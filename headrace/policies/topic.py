"""The topic `policies`: what is published there, and publishing what changed."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from aiokafka import ConsumerRecord, TopicPartition

from headrace.clock import Clock
from headrace.exit_codes import CannotRunError, ExitCode
from records.policy import EndpointPolicy
from wire.codec import DecodeError, decode_keyed, encode
from wire.kafka import KafkaAccess, open_admin, open_consumer, open_producer, partition_of, started
from wire.topics import TopicNames

TOPIC = "policies"
REAL = Clock()
READ_S = 60.0
"""Longest time for reading the topic: it holds one record an endpoint, and what compaction has not removed yet."""


@dataclass(frozen=True)
class Changes:
    """What publishing did, by endpoint: `changed` names the keys, `kept` are published and were not given."""

    created: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]
    unchanged: tuple[str, ...]
    deleted: tuple[str, ...]
    absent: tuple[str, ...]
    kept: tuple[str, ...]


async def published_policies(access: KafkaAccess, names: TopicNames) -> dict[str, EndpointPolicy | None]:
    """The newest record of every endpoint on the topic; None where it cannot be decoded. Deleted ones are left out, and
    those in another partition than their endpoint's, as before their number grew: no worker takes them.

    Raises CannotRunError where there is no such topic, aiokafka's KafkaError where no broker answers.
    """
    topic = names.real(TOPIC)
    found: dict[str, EndpointPolicy | None] = {}
    assigned = await _partitions(access, topic)
    # Of topics made a moment ago it logs an error a partition, and asks again by itself.
    logging.getLogger("aiokafka.consumer.fetcher").setLevel(logging.CRITICAL)
    async with started(open_consumer(access)) as consumer:
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        ends = await consumer.end_offsets(assigned)
        async with asyncio.timeout(READ_S):
            while any([await consumer.position(partition) < end for partition, end in ends.items()]):
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    for message in messages:
                        _take(found, message, len(assigned))
    return found


async def _partitions(access: KafkaAccess, topic: str) -> list[TopicPartition]:
    async with started(open_admin(access)) as admin:
        (described,) = await admin.describe_topics([topic])
    if described["error_code"]:
        message = f"{topic}: no such topic on {access.bootstrap} (hint: headrace topics create)"
        raise CannotRunError(message, ExitCode.PARTITIONS)
    return [TopicPartition(topic, partition["partition"]) for partition in described["partitions"]]


def _take(found: dict[str, EndpointPolicy | None], message: ConsumerRecord, partitions: int) -> None:
    value = message.value
    try:
        endpoint = (message.key or b"").decode()
    except UnicodeDecodeError:
        return
    if message.partition != partition_of(endpoint, partitions):
        return
    if value is None:
        found.pop(endpoint, None)
        return
    try:
        policy = decode_keyed(TOPIC, message.key, value)
    except DecodeError:
        found[endpoint] = None
    else:
        found[endpoint] = policy if isinstance(policy, EndpointPolicy) else None


async def publish(
    access: KafkaAccess,
    names: TopicNames,
    policies: Iterable[EndpointPolicy],
    delete: Iterable[str] = (),
    clock: Clock = REAL,
) -> Changes:
    """Publish the policies that differ from those on the topic, and a null for each endpoint of `delete`.

    Their timestamps are those of `clock`: on a line with another clock than the real one they must be its own.
    """
    before = await published_policies(access, names)
    wanted = {policy.endpoint: policy for policy in policies}
    created = tuple(endpoint for endpoint in wanted if endpoint not in before)
    changed = {
        endpoint: _changed_keys(before[endpoint], policy)
        for endpoint, policy in wanted.items()
        if endpoint in before and before[endpoint] != policy
    }
    deleted = tuple(endpoint for endpoint in delete if endpoint in before)
    async with started(open_producer(access)) as producer:
        for endpoint in (*created, *changed):
            await producer.send_and_wait(
                names.real(TOPIC),
                encode(wanted[endpoint]),
                key=endpoint.encode(),
                timestamp_ms=int(clock.now_s() * 1000),
            )
        for endpoint in deleted:
            await producer.send_and_wait(
                names.real(TOPIC), None, key=endpoint.encode(), timestamp_ms=int(clock.now_s() * 1000)
            )
    return Changes(
        created=created,
        changed=changed,
        unchanged=tuple(endpoint for endpoint in wanted if endpoint not in created and endpoint not in changed),
        deleted=deleted,
        absent=tuple(endpoint for endpoint in delete if endpoint not in before),
        kept=tuple(sorted(before.keys() - wanted.keys() - set(deleted))),
    )


def _changed_keys(before: EndpointPolicy | None, after: EndpointPolicy) -> tuple[str, ...]:
    """The document's top-level keys whose values differ; what was unreadable before has changed as a whole."""
    if before is None:
        return ("everything",)
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    return tuple(key for key in new if old[key] != new[key])
