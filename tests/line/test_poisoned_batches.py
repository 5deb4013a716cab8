"""Batches that became unreadable in the log itself: one dead letter each, and nothing of their neighbours is lost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.record.util import calc_crc32c

from headrace.children import Children
from tests.conftest import BrokerFactory
from tests.line.audit import TICK_S, ask, read_decisions, until, until_decided
from tests.line.deployment import PARTITIONS, Line, scraped
from wire.kafka import KafkaAccess, open_producer, partition_of

POLICY = """
endpoint: good
scaleTargetRef: {kind: Deployment, name: good}
minReplicas: 1
maxReplicas: 9
metrics: [{name: inflight_requests, target: 4}]
"""
TOPIC = "telemetry.requests"
SECONDS_OF_BATCH = 4
LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, COUNT_AT, BODY_AT = 8, 16, 17, 21, 57, 61
Poison = Callable[[bytearray], None]


def seal(batch: bytearray) -> None:
    """With its right checksum, so that nobody can tell before it is decompressed."""
    batch[CRC_AT:ATTRIBUTES_AT] = calc_crc32c(bytes(batch[ATTRIBUTES_AT:])).to_bytes(4, "big")


def break_compression(batch: bytearray) -> None:
    batch[BODY_AT + 12 :] = bytes(byte ^ 0x5A for byte in batch[BODY_AT + 12 :])
    seal(batch)


def break_checksum(batch: bytearray) -> None:
    """Its records can be read all the same, and may be anything."""
    batch[CRC_AT] ^= 1


def claim_a_record_more(batch: bytearray) -> None:
    batch[COUNT_AT + 3] += 1
    seal(batch)


def claim_a_million_records(batch: bytearray) -> None:
    batch[COUNT_AT:BODY_AT] = (10**6).to_bytes(4, "big")
    seal(batch)


def be_of_an_unknown_codec(batch: bytearray) -> None:
    batch[ATTRIBUTES_AT + 1] |= 7
    seal(batch)


def be_of_an_old_format(batch: bytearray) -> None:
    batch[MAGIC_AT] = 1


POISONS: dict[Poison, str] = {
    break_compression: "malformed",
    break_checksum: "malformed",
    claim_a_record_more: "malformed",
    claim_a_million_records: "too_large",
    be_of_an_unknown_codec: "malformed",
    be_of_an_old_format: "malformed",
}


def sample(at_s: int, seq: int, running: float) -> bytes:
    counts = {"arrivals": 1, "completions": 1, "errors": 0, "aborted": 0, "rejections": 0}
    identity = {"endpoint": "good", "replica": "r1", "epoch": "1", "at_s": at_s, "seq": seq, "source": "engine"}
    return json.dumps({**identity, **counts, "running": running, "waiting": 0.0, "received_s": at_s + 1.2}).encode()


async def send(line: Line, first_s: int) -> list[int]:
    """Good batches and those to be poisoned in turns, the first of these before all others; the offsets of their last
    records. What they hold would replace a good sample."""
    topic, partition = line.prefix + TOPIC, partition_of("good", PARTITIONS)
    poisoned = []
    async with open_producer(KafkaAccess(bootstrap=line.bootstrap)) as producer:
        for number in range(2 * len(POISONS) + 1):
            is_good = number % 2 == 1
            builder = producer.create_batch()
            start_s = first_s + number // 2 * SECONDS_OF_BATCH
            for at_s in range(start_s, start_s + SECONDS_OF_BATCH):
                value = sample(at_s, 0 if is_good else 1, 6.0 if is_good else 60.0)
                builder.append(timestamp=None, key=b"good", value=value)
            builder.close()
            if number == 2 * len(POISONS):
                break
            await (await producer.send_batch(builder, topic, partition=partition))
            if not is_good:
                poisoned.append((number + 1) * SECONDS_OF_BATCH - 1)
    return poisoned


def poison(segment: Path) -> None:
    """In place, while the broker runs: it serves the bytes of its files."""
    log, position, poisons = bytearray(segment.read_bytes()), 0, iter(POISONS)
    number = 0
    while position < len(log):
        end = position + 12 + int.from_bytes(log[position + LENGTH_AT : position + MAGIC_AT - 4], "big")
        if number % 2 == 0:
            batch = log[position:end]
            next(poisons)(batch)
            log[position:end] = batch
        number, position = number + 1, end
    with segment.open("r+b") as file:
        file.write(log)


@pytest.mark.kafka
async def test_a_poisoned_batch_is_one_dead_letter(
    broker_factory: BrokerFactory, tmp_path: Path, children: Children
) -> None:
    broker = broker_factory(tmp_path / "broker")
    line = Line(broker.bootstrap, "", tmp_path / "line", children)
    await line.create([POLICY])
    first_s = int(line.clock.now_s()) - len(POISONS) * SECONDS_OF_BATCH - 2
    poisoned = await send(line, first_s)
    poison(tmp_path / f"broker/data/{TOPIC}-{partition_of('good', PARTITIONS)}/{0:020}.log")

    sink, worker = await line.start_all("sink", "worker")
    tick_s = (first_s + len(POISONS) * SECONDS_OF_BATCH - 2) // TICK_S * TICK_S
    await until_decided(line.bootstrap, line.prefix, ["good"], tick_s)
    metrics = await scraped(worker)
    dead = f"SELECT kafka_offset, reason FROM delta_scan('{line.tables / 'deadletters'}')"

    async def all_kept() -> bool:
        return (line.tables / "deadletters/_delta_log").is_dir() and len(ask(dead)) >= len(POISONS)

    await until(all_kept)
    await line.drain(worker)
    await line.drain(sink)
    assert sorted(ask(dead)) == sorted(zip(poisoned, POISONS.values(), strict=True))
    kept = ask(f"SELECT running FROM delta_scan('{line.tables / 'telemetry_requests'}')")
    assert kept == [(6.0,)] * len(POISONS) * SECONDS_OF_BATCH
    decision = next(
        each for each in (await read_decisions(line.bootstrap, line.prefix))["good"] if each["at_s"] == tick_s
    )
    assert decision["candidates"][0]["observed"] == 6.0
    told = [each for each in metrics.splitlines() if each.startswith("headrace_undecodable_total")]
    assert sum(float(each.split()[-1]) for each in told) == len(POISONS)
