"""Sends the records of a transaction as batches of the log, one a topic and partition.

aiokafka's `send` makes a coroutine, a future and a look at the cluster's metadata of each record, which costs as much
as computing what is in it.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaProducer

from wire.kafka import partition_of_key


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """`topic` is the name on the cluster; null `value`: the key is deleted; null `partition`: by the key."""

    topic: str
    key: bytes
    value: bytes | None
    partition: int | None = None


async def send_in_batches(
    producer: AIOKafkaProducer, records: Iterable[OutgoingRecord], futures: list[asyncio.Future[object]]
) -> None:
    """Queue the records with their producer, in their order within a partition; a future for each batch is added.

    Raises what `send` does, MessageSizeTooLargeError for a record over the producer's own limit among it.
    """
    open_batches: dict[tuple[str, int], Any] = {}
    partitions: dict[str, int] = {}
    for record in records:
        if record.topic not in partitions:
            partitions[record.topic] = len(await producer.partitions_for(record.topic))
        partition = record.partition
        if partition is None:
            partition = partition_of_key(record.key, partitions[record.topic])
        producer._serialize(record.key, record.value, [])
        place = (record.topic, partition)
        batch = open_batches.get(place)
        if batch is None or batch.append(timestamp=None, key=record.key, value=record.value) is None:
            if batch is not None:
                futures.append(await producer.send_batch(batch, record.topic, partition=partition))
            batch = open_batches[place] = producer.create_batch()
            batch.append(timestamp=None, key=record.key, value=record.value)
    for (topic, partition), batch in open_batches.items():
        batch.close()
        futures.append(await producer.send_batch(batch, topic, partition=partition))
