"""The embedded producer against a real Kafka: nothing lost while it can hold, all counted when it cannot."""

import asyncio
import gc
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import NewTopic

from headrace.broker_files import free_port
from records.enums import Source
from records.telemetry import RequestLog, RequestSample
from tests.conftest import BrokerFactory, Kafka
from wire.admin import TopicSettings, create_topics
from wire.batches import FrameRun, JsonRun, decode_batch
from wire.frames import ARROW_CONTENT_TYPE
from wire.kafka import KafkaAccess, open_admin, open_consumer, partition_of
from wire.producer import ProducerCounts, ProducerSettings, TelemetryProducer
from wire.topics import TOPICS, TopicNames

PARTITIONS = 3
TOPIC = "telemetry.requests"

pytestmark = pytest.mark.kafka


def sample(index: int, endpoint: str | None = None, **rest: Any) -> RequestSample:
    endpoint = endpoint or f"chat-{index % 7}"
    return RequestSample(endpoint=endpoint, replica="r", at_s=1_700_000_000 + index, source=Source.ENGINE, **rest)


@asynccontextmanager
async def running(access: KafkaAccess, names: TopicNames, **settings: Any) -> AsyncIterator[TelemetryProducer]:
    producer = TelemetryProducer(access, names, ProducerSettings(**settings))
    await producer.start()
    yield producer
    await producer.stop(timeout_s=0)


async def read_all(access: KafkaAccess, names: TopicNames, topic: str = TOPIC) -> dict[int, list[Any]]:
    """All messages of a topic by partition."""
    async with open_consumer(access) as consumer:
        parts = [TopicPartition(names.real(topic), partition) for partition in range(PARTITIONS)]
        consumer.assign(parts)
        ends = await consumer.end_offsets(parts)
        return {part.partition: await read_to(consumer, part, ends[part]) for part in parts}


async def read_to(consumer: AIOKafkaConsumer, part: TopicPartition, end: int) -> list[Any]:
    consumer.pause(*consumer.assignment())
    consumer.resume(part)
    await consumer.seek_to_beginning(part)
    found: list[Any] = []
    while await consumer.position(part) < end:
        for messages in (await consumer.getmany(part, timeout_ms=1000)).values():
            found.extend(messages)
    return found


async def one_topic(access: KafkaAccess, kafka_topic: str, config: dict[str, str]) -> None:
    async with open_admin(access) as admin:
        await admin.create_topics([NewTopic(kafka_topic, PARTITIONS, 1, topic_configs=config)])


async def read_any(access: KafkaAccess, names: TopicNames) -> bool:
    return any((await read_all(access, names)).values())


async def topics_on(access: KafkaAccess, prefix: str) -> TopicNames:
    names = TopicNames(prefix)
    await create_topics(access, names, TopicSettings(partitions=PARTITIONS))
    return names


async def test_records_arrive_in_order_in_the_partition_of_their_key(kafka: Kafka) -> None:
    access = KafkaAccess(bootstrap=kafka.bootstrap)
    names = await topics_on(access, kafka.prefix())
    async with running(access, names) as producer:
        assert all(producer.send(sample(index)) for index in range(5000))
        assert await producer.flush(60)
        assert producer.counts == ProducerCounts(sent=5000)
    received = await read_all(access, names)
    by_endpoint: dict[str, list[int]] = {}
    for partition, messages in received.items():
        for message in messages:
            record = json.loads(message.value)
            assert partition == partition_of(record["endpoint"], PARTITIONS)
            assert message.key == record["endpoint"].encode()
            by_endpoint.setdefault(record["endpoint"], []).append(record["at_s"])
    assert sum(len(times) for times in by_endpoint.values()) == 5000
    assert all(times == sorted(times) for times in by_endpoint.values())


async def test_frames_hold_rows_of_one_partition(kafka: Kafka) -> None:
    access = KafkaAccess(bootstrap=kafka.bootstrap)
    names = await topics_on(access, kafka.prefix())
    sent = [sample(index) for index in range(3000)]
    async with running(access, names, frames=True) as producer:
        for record in sent:
            producer.send(record)
        assert await producer.flush(60)
        assert producer.counts == ProducerCounts(sent=3000)
    rows = messages_seen = 0
    for partition, messages in (await read_all(access, names)).items():
        messages_seen += len(messages)
        assert all(("content-type", ARROW_CONTENT_TYPE) in message.headers for message in messages)
        for run in decode_batch(TOPIC, partition, messages).runs if messages else []:
            assert isinstance(run, FrameRun)
            endpoints = run.batch.column("endpoint").to_pylist()
            assert {partition_of(endpoint, PARTITIONS) for endpoint in endpoints} == {partition}
            rows += len(endpoints)
    assert rows == 3000
    assert messages_seen < 100


async def test_a_message_above_the_topics_limit_is_refused_and_counted(kafka: Kafka) -> None:
    access = KafkaAccess(bootstrap=kafka.bootstrap)
    names = await topics_on(access, kafka.prefix())
    large = RequestLog(
        request_id="r", at_ms=1, endpoint="e", request="x" * TOPICS["inference.requests"].message_bytes_max
    )
    small = RequestLog(request_id="s", at_ms=1, endpoint="e")
    for frames in (False, True):
        async with running(access, names, frames=frames) as producer:
            assert producer.send(large) is frames
            assert producer.send(small)
            assert await producer.flush(60)
            assert producer.counts == ProducerCounts(sent=1, too_large=1)


async def test_what_the_broker_refuses_is_dropped_alone(kafka: Kafka) -> None:
    access = KafkaAccess(bootstrap=kafka.bootstrap)
    names = TopicNames(kafka.prefix())
    await one_topic(access, names.real("inference.requests"), {"max.message.bytes": "2000"})
    async with running(access, names) as producer:
        for index in range(20):
            text = random_text(6_000, index) if index == 7 else None
            producer.send(RequestLog(request_id=f"r{index}", at_ms=1, endpoint="e", request=text))
        assert await producer.flush(60)
        assert producer.counts == ProducerCounts(sent=19, too_large=1)
    received = await read_all(access, names, "inference.requests")
    seen = {json.loads(message.value)["request_id"] for messages in received.values() for message in messages}
    assert seen == {f"r{index}" for index in range(20)} - {"r7"}


def random_text(length: int, seed: int) -> str:
    """Text that zstd does not shrink below the limit."""
    return random.Random(seed).randbytes(length).hex()


async def test_without_a_broker_the_newest_are_kept_and_sent_when_it_comes(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    port = free_port()
    access = KafkaAccess(bootstrap=f"127.0.0.1:{port}")
    names = TopicNames("away.")
    async with running(access, names, buffer_records=100) as producer:
        for index in range(250):
            assert producer.send(sample(index))
        assert producer.counts == ProducerCounts(waiting=100, oldest=150)
        assert not await producer.flush(0.05)
        broker = broker_factory(tmp_path, port=port, start=False)
        await asyncio.to_thread(broker.start)
        await create_topics(access, names, TopicSettings(partitions=PARTITIONS))
        assert await producer.flush(60)
        assert producer.counts == ProducerCounts(sent=100, oldest=150)
    received = await read_all(access, names)
    times = {json.loads(message.value)["at_s"] for messages in received.values() for message in messages}
    assert times == {1_700_000_000 + index for index in range(150, 250)}


async def test_stopping_while_the_broker_is_away_counts_what_is_left(
    broker_factory: BrokerFactory, caplog: pytest.LogCaptureFixture
) -> None:
    broker = broker_factory()
    access = KafkaAccess(bootstrap=broker.bootstrap)
    names = await topics_on(access, "stopped.")
    producers = [TelemetryProducer(access, names) for _ in range(10)]
    for producer in producers:
        await producer.start()
        producer.send(sample(0))
        assert await producer.flush()
    broker.kill()
    for producer in producers:
        producer.send(sample(1))
    stops = [producer.stop(timeout_s=0.15 + 0.2 * number) for number, producer in enumerate(producers)]
    assert not any(await asyncio.gather(*stops))
    for producer in producers:
        assert producer.counts == ProducerCounts(sent=1, unsent=1)
    gc.collect()
    # Neither a traceback nor a future whose failure nobody took.
    assert [record for record in caplog.records if record.name == "asyncio" or record.exc_info] == []


async def test_a_broker_killed_while_sending_loses_and_doubles_nothing(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    broker = broker_factory(tmp_path)
    access = KafkaAccess(bootstrap=broker.bootstrap)
    names = await topics_on(access, "killed.")
    async with running(access, names) as producer:
        sent = 0
        for round_ in range(30):
            for _ in range(100):
                producer.send(sample(sent))
                sent += 1
            await asyncio.sleep(0.01)
            if round_ == 10:
                broker.kill()
            if round_ == 20:
                await asyncio.to_thread(broker.start)
        assert await producer.flush(60)
        assert producer.counts == ProducerCounts(sent=sent)
    received = await read_all(access, names)
    times = [json.loads(message.value)["at_s"] for messages in received.values() for message in messages]
    assert sorted(times) == [1_700_000_000 + index for index in range(sent)]


async def test_other_threads_may_send(kafka: Kafka) -> None:
    access = KafkaAccess(bootstrap=kafka.bootstrap)
    names = await topics_on(access, kafka.prefix())
    async with running(access, names) as producer:
        threads = [Thread(target=lambda: [producer.send(sample(index)) for index in range(500)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
        assert await producer.flush(60)
        assert producer.counts == ProducerCounts(sent=2000)
    runs = [
        run
        for partition, messages in (await read_all(access, names)).items()
        if messages
        for run in decode_batch(TOPIC, partition, messages).runs
    ]
    assert sum(len(run.records) for run in runs if isinstance(run, JsonRun)) == 2000


async def test_a_topic_that_is_missing_holds_up_no_other(kafka: Kafka) -> None:
    access = KafkaAccess(bootstrap=kafka.bootstrap)
    names = TopicNames(kafka.prefix())
    await one_topic(access, names.real(TOPIC), {})
    async with running(access, names) as producer:
        producer.send(RequestLog(request_id="r", at_ms=1, endpoint="e"))
        assert not await producer.flush(0.1)
        producer.send(sample(1))
        while not await read_any(access, names):
            pass
        assert producer.counts == ProducerCounts(sent=1, waiting=1)
        await producer.stop(timeout_s=0.01)
        assert producer.counts == ProducerCounts(sent=1, unsent=1)


async def test_records_of_no_topic_are_the_callers_mistake(kafka: Kafka) -> None:
    producer = TelemetryProducer(KafkaAccess(bootstrap=kafka.bootstrap))
    with pytest.raises(KeyError):
        producer.send(ProducerSettings())  # type: ignore[arg-type]  # what the test is about
    assert producer.send(sample(1, endpoint="\ud800")) is False
    assert producer.counts == ProducerCounts(unreadable=1)
