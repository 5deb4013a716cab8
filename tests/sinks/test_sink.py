"""A sink on a real Kafka and real tables, counted by DuckDB, by Polars and from Kafka."""

import asyncio
import base64
import shutil
from collections import Counter
from datetime import UTC, datetime

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.admin import RecordsToDelete
from deltalake import DeltaTable

import sinks.reader
from records.signals import Forecast
from sinks.delta_table import AppendTable
from sinks.errors import SourceError
from sinks.progress import PartitionSlice
from sinks.rows import table_spec
from tests.sinks.deployment import (
    ARROW,
    PARTITIONS,
    Deployment,
    keep_everything,
    request_samples,
    running,
)
from tests.sinks.readers import Identity, count, identities, rows
from wire.codec import encode
from wire.kafka import open_admin, open_consumer
from wire.topics import TOPICS

REQUESTS = "telemetry_requests"


def once(messages: list[ConsumerRecord]) -> Counter[Identity]:
    """What a table of single JSON messages must hold."""
    return Counter((message.partition, message.offset, 0) for message in messages)


def forecast(number: int) -> Forecast:
    return Forecast(endpoint=f"e{number % 4}", at_s=1_790_000_000 + number, horizon_s=60.0, used=False)


COLUMNS = 'seq, endpoint, arrivals, output_tokens, ttft_ms.bucket_counts, "at"'


async def test_json_messages_are_rows_once(deployment: Deployment) -> None:
    samples = request_samples(500)
    await deployment.send(samples)
    await keep_everything(deployment.plan())
    sent = await deployment.messages("telemetry.requests")
    assert len(sent) == 500
    assert identities(deployment.folder, REQUESTS) == once(sent)
    found = rows(deployment.folder, REQUESTS, COLUMNS, "seq")
    expected = [
        (
            sample.seq,
            sample.endpoint,
            sample.arrivals,
            sample.output_tokens,
            list(sample.ttft_ms.bucket_counts) if sample.ttft_ms else None,
            datetime.fromtimestamp(sample.at_s, UTC),
        )
        for sample in samples
    ]
    assert [(*row[:5], row[5].astimezone(UTC)) for row in found] == expected


async def test_frames_are_a_row_a_sample_and_bad_rows_are_dead_letters(deployment: Deployment) -> None:
    samples = request_samples(120)
    async with deployment.producer() as sender:
        await sender.send_frames(samples, partition=1, rows_max=50)
        await sender.raw("telemetry.requests", b"no arrow", b"k", 1, headers=ARROW)
        await sender.raw("telemetry.requests", b'{"endpoint": "half', b"k", 1)
        await sender.raw("telemetry.requests", b"", b"k", 1)
        await sender.send_all(samples[:5])
    await keep_everything(deployment.plan())
    counted = identities(deployment.folder, REQUESTS)
    assert set(counted.values()) == {1}
    assert sorted(row for partition, offset, row in counted if (partition, offset) == (1, 0)) == list(range(50))
    letters = rows(deployment.folder, "deadletters", "kafka_topic, kafka_partition, kafka_offset, row, reason, bytes")
    assert len(counted) == 125
    topic = deployment.names.real("telemetry.requests")
    first = letters[0][2]
    assert [(letter[:4]) for letter in letters] == [(topic, 1, first + number, 0) for number in range(3)]
    assert [base64.b64decode(letter[5]) for letter in letters] == [b"no arrow", b'{"endpoint": "half', b""]


async def test_the_bytes_of_a_dead_letter_are_cut(deployment: Deployment) -> None:
    async with deployment.producer() as sender:
        await sender.raw("telemetry.requests", b"x" * 200_000, b"k", 0)
    await keep_everything(deployment.plan())
    ((kept,),) = rows(deployment.folder, "deadletters", "bytes")
    assert base64.b64decode(kept) == b"x" * 65_536


async def test_another_run_writes_nothing_and_goes_on(deployment: Deployment) -> None:
    await deployment.send(request_samples(40))
    await keep_everything(deployment.plan())
    version = DeltaTable(str(deployment.folder / REQUESTS)).version()
    await keep_everything(deployment.plan())
    assert DeltaTable(str(deployment.folder / REQUESTS)).version() == version
    await deployment.send(request_samples(40, first=40))
    await keep_everything(deployment.plan(group="another"))
    assert identities(deployment.folder, REQUESTS) == once(await deployment.messages("telemetry.requests"))


async def test_tombstones_are_rows_that_say_so(deployment: Deployment) -> None:
    async with deployment.producer() as sender:
        await sender.raw("policies", None, b"endpoint-1", 2)
    await keep_everything(deployment.plan())
    ((endpoint, deleted, replicas, offset),) = rows(
        deployment.folder, "policies", '"endpoint", deleted, "minReplicas", kafka_offset'
    )
    assert (endpoint, deleted, replicas, offset) == ("endpoint-1", True, None, 0)
    assert rows(deployment.folder, "deadletters") == []


async def test_only_committed_transactions_are_kept(deployment: Deployment) -> None:
    async with deployment.producer(transactional_id=f"{deployment.names.prefix}tx") as sender:
        for number in range(6):
            await sender.kafka.begin_transaction()
            await sender.send_all([forecast(number)])
            await (sender.kafka.abort_transaction() if number % 3 == 1 else sender.kafka.commit_transaction())
    await keep_everything(deployment.plan())
    found = rows(deployment.folder, "forecasts", "at_s", "at_s")
    assert [at_s - 1_790_000_000 for (at_s,) in found] == [0, 2, 3, 5]
    assert identities(deployment.folder, "forecasts") == once(await deployment.messages("forecasts"))


async def test_kafkas_own_offsets_follow_past_transaction_markers(deployment: Deployment) -> None:
    async with deployment.producer(transactional_id=f"{deployment.names.prefix}tx") as sender:
        await sender.kafka.begin_transaction()
        await sender.send_all([forecast(number) for number in range(8)])
        await sender.kafka.commit_transaction()
    plan = deployment.plan()
    await keep_everything(plan)
    async with open_consumer(deployment.access, group_id=plan.group) as consumer:
        partitions = [TopicPartition(deployment.names.real("forecasts"), number) for number in range(PARTITIONS)]
        ends = await consumer.end_offsets(partitions)
        written = [partition for partition in partitions if ends[partition]]
        assert written
        assert {part: await consumer.committed(part) for part in written} == {part: ends[part] for part in written}


async def test_a_topic_that_is_made_again_begins_anew(deployment: Deployment) -> None:
    """Its offsets begin at 0 again, and are no repeats of the old ones."""
    topic = deployment.names.real("telemetry.requests")
    await deployment.send(request_samples(30))
    async with running(deployment.plan()) as made:
        await made.until(lambda: count(deployment.folder, REQUESTS) == 30)
        await delete(deployment, topic)
        again = await Deployment.create(deployment.access.bootstrap, deployment.folder, deployment.names.prefix)
        await again.send(request_samples(50, first=30))
        await made.until(lambda: count(deployment.folder, REQUESTS) == 80)
    found = rows(deployment.folder, REQUESTS, "count(*), count(DISTINCT seq), count(DISTINCT kafka_topic_id)", "1")
    assert found == [(80, 80, 2)]


async def delete(deployment: Deployment, topic: str) -> None:
    """Returns when the topic is gone."""
    async with open_admin(deployment.access) as admin, asyncio.timeout(30):
        await admin.delete_topics([topic])
        while topic in await admin.list_topics():  # noqa: ASYNC110  # Kafka has no event for it
            await asyncio.sleep(0.1)


async def test_what_the_topic_deleted_before_it_was_read_is_passed_over(deployment: Deployment) -> None:
    partition = TopicPartition(deployment.names.real("telemetry.requests"), 0)
    async with deployment.producer() as sender:
        for sample in request_samples(10):
            await sender.raw("telemetry.requests", encode(sample), b"k", 0)
        await sender.kafka.flush()
        await keep_everything(deployment.plan())
        for sample in request_samples(10, first=10):
            await sender.raw("telemetry.requests", encode(sample), b"k", 0)
        await sender.kafka.flush()
    async with open_admin(deployment.access) as admin:
        await admin.delete_records({partition: RecordsToDelete(before_offset=15)})
    await keep_everything(deployment.plan())
    found = rows(deployment.folder, REQUESTS, "kafka_offset")
    assert [offset for (offset,) in found] == [*range(10), *range(15, 20)]


async def test_a_table_that_has_more_than_the_topic_stops_the_sink(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks.reader, "AHEAD_PATIENCE_S", 0.1)
    await deployment.send(request_samples(10))
    plan = deployment.plan()
    await keep_everything(plan)
    table = AppendTable(plan.root, table_spec("telemetry.requests"))
    empty = table_spec("telemetry.requests").schema.empty_table()
    topic_id = rows(deployment.folder, REQUESTS, "kafka_topic_id")[0][0]
    ahead = PartitionSlice(app_id=f"headrace/{topic_id}/0", base_offset=0, next_offset=1_000, rows=empty)
    table.append([ahead])
    with pytest.raises(SourceError, match=r"partition 0 of .*telemetry\.requests ends at offset .* up to 999"):
        await keep_everything(plan)


async def test_a_table_that_was_emptied_is_filled_again(deployment: Deployment) -> None:
    await deployment.send(request_samples(30))
    plan = deployment.plan()
    async with running(plan) as made:
        await made.until(lambda: count(deployment.folder, REQUESTS) == 30)
        shutil.rmtree(deployment.folder / REQUESTS)
        AppendTable(plan.root, table_spec("telemetry.requests")).ensure()
        await deployment.send(request_samples(5, first=30))
        await made.until(lambda: count(deployment.folder, REQUESTS) == 35)
    assert identities(deployment.folder, REQUESTS) == once(await deployment.messages("telemetry.requests"))


async def test_missing_topics_are_named(deployment: Deployment) -> None:
    await delete(deployment, deployment.names.real("signals"))
    with pytest.raises(SourceError, match=r"topics are missing: \S+\.signals \(hint: headrace topics create\)"):
        await keep_everything(deployment.plan(topics=("signals", "forecasts")))


async def test_all_topics_have_tables(deployment: Deployment) -> None:
    await keep_everything(deployment.plan())
    assert {path.name for path in deployment.folder.iterdir()} == {
        "deadletters",
        *(topic.replace(".", "_") for topic in TOPICS),
    }
