"""One partition's producer on a real Kafka: what is committed is readable, and nothing else is."""

import asyncio
import gc
from collections.abc import AsyncIterator
from functools import partial

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import MessageSizeTooLargeError

from streams.shell.fault_points import FaultPoint, NoFaults
from streams.shell.log_offsets import LogOffsets
from streams.shell.memory_reader import CompactedPartition, MemoryReader
from streams.shell.record_batches import OutgoingRecord
from streams.shell.transactions import FencedError, PartitionTransactions, TransactionFailedError
from tests.worker.pipeline import Pipeline
from wire.kafka import BATCH_BYTES, REQUEST_BYTES_MAX, open_consumer, open_producer, partition_of

pytestmark = pytest.mark.kafka


def transactions(pipeline: Pipeline, faults: object = None) -> PartitionTransactions:
    return PartitionTransactions(
        0,
        f"{pipeline.prefix}app-0",
        partial(open_producer, pipeline.access),
        faults or NoFaults(),  # type: ignore[arg-type]  # a test's own faults
    )


class FailBefore:
    """Raises at a point, as a lost connection would."""

    def __init__(self, point: FaultPoint) -> None:
        self._point = point

    async def reached(self, point: FaultPoint, partition: int) -> None:
        if point is self._point:
            raise TimeoutError("injected")


class EndUnderneath:
    """The transaction is over at a point, as after a revocation or when the sender has failed meanwhile."""

    def __init__(self, point: FaultPoint) -> None:
        self.ended: PartitionTransactions | None = None
        self._point = point

    async def reached(self, point: FaultPoint, partition: int) -> None:
        if point is self._point and self.ended is not None:
            await self.ended.abort()


@pytest.fixture
async def owner(pipeline: Pipeline) -> AsyncIterator[PartitionTransactions]:
    made = transactions(pipeline)
    await made.start()
    yield made
    await made.close()


def record(pipeline: Pipeline, value: bytes, key: bytes = b"e") -> OutgoingRecord:
    return OutgoingRecord(pipeline.names.real("controllers"), key, value, 0)


async def values(pipeline: Pipeline, isolation: str = "read_committed") -> list[bytes | None]:
    """All that can be read, once the last transaction has ended in the log: Kafka answers a commit before that, but no
    successor."""
    successor = transactions(pipeline)
    await successor.start()
    await successor.close()
    return [message.value for message in await pipeline.read("controllers", isolation)]


async def test_a_successor_fences_and_frees_what_the_open_transaction_hid(
    pipeline: Pipeline, owner: PartitionTransactions
) -> None:
    await owner.write([record(pipeline, b"first")])
    broken = transactions(pipeline, FailBefore(FaultPoint.RECORDS_ACKNOWLEDGED))
    await broken.start()
    with pytest.raises(TransactionFailedError):
        await broken.write([record(pipeline, b"never")])
    with pytest.raises(FencedError):
        await owner.write([record(pipeline, b"zombie")])
    successor = transactions(pipeline)
    await successor.start()
    await successor.write([record(pipeline, b"second"), record(pipeline, b"third")])
    assert await values(pipeline) == [b"first", b"second", b"third"]
    assert b"never" in await values(pipeline, "read_uncommitted")
    await asyncio.gather(successor.close(), broken.close())


async def test_aborted_records_stay_invisible(pipeline: Pipeline) -> None:
    broken = transactions(pipeline, FailBefore(FaultPoint.RECORDS_SENT))
    await broken.start()
    with pytest.raises(TransactionFailedError):
        await broken.write([record(pipeline, b"aborted")])
    await broken.abort()
    await broken.close()
    assert await values(pipeline) == []


@pytest.mark.parametrize("point", [FaultPoint.TRANSACTION_BEGUN, FaultPoint.RECORDS_ACKNOWLEDGED])
async def test_a_transaction_that_ended_underneath_has_failed(pipeline: Pipeline, point: FaultPoint) -> None:
    faults = EndUnderneath(point)
    owner = transactions(pipeline, faults)
    await owner.start()
    faults.ended = owner
    with pytest.raises(TransactionFailedError):
        await owner.write([record(pipeline, b"never")])
    faults.ended = None
    await owner.start()
    await owner.write([record(pipeline, b"again")])
    assert await values(pipeline) == [b"again"]
    await owner.close()


class CancelAt:
    """The task that passes a point is cancelled, as when a transaction takes too long, at its next wait."""

    def __init__(self, point: FaultPoint) -> None:
        self._point = point

    async def reached(self, point: FaultPoint, partition: int) -> None:
        task = asyncio.current_task()
        if point is self._point and task is not None:
            asyncio.get_running_loop().call_soon(task.cancel)


async def test_a_transaction_given_up_leaves_no_exception_that_nobody_takes(pipeline: Pipeline) -> None:
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    broken = transactions(pipeline, CancelAt(FaultPoint.RECORDS_SENT))
    await broken.start()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(broken.write([record(pipeline, b"lost"), record(pipeline, b"too")]))
    await broken.abort()
    await broken.close()
    gc.collect()
    assert told == []


async def test_memory_is_the_newest_committed_value_of_each_key(
    pipeline: Pipeline, owner: PartitionTransactions
) -> None:
    await owner.write([record(pipeline, b"old", b"a"), record(pipeline, b"kept", b"b"), record(pipeline, b"x", b"c")])
    await owner.write([record(pipeline, b"new", b"a"), OutgoingRecord(record(pipeline, b"").topic, b"c", None, 0)])
    broken = transactions(pipeline, FailBefore(FaultPoint.RECORDS_ACKNOWLEDGED))
    await broken.start()
    with pytest.raises(TransactionFailedError):
        await broken.write([record(pipeline, b"uncommitted", b"b")])
    await broken.start()
    names = [pipeline.names.real(topic) for topic in ("controllers", "policies")]
    memory = await read_memory(pipeline, names)
    await broken.close()
    assert newest(memory[names[0]].newest) == {b"a": b"new", b"b": b"kept"}
    assert memory[names[0]].next_offset == await end_of(pipeline, names[0])
    assert memory[names[1]].newest == {}


async def test_records_of_many_batches_keep_their_order_and_partition(
    pipeline: Pipeline, owner: PartitionTransactions
) -> None:
    """Half of BATCH_BYTES each: a batch holds one. They go where their keys belong."""
    keys = [b"a", b"b", b"c", b"d"] * 3
    topic = pipeline.names.real("signals")
    values = [b"%d-" % number + b"." * (BATCH_BYTES // 2) for number in range(len(keys))]
    await owner.write([OutgoingRecord(topic, key, value) for key, value in zip(keys, values, strict=True)])
    read = await pipeline.read("signals")
    for key in set(keys):
        found = [message for message in read if message.key == key]
        assert [message.value for message in found] == [
            value for own, value in zip(keys, values, strict=True) if own == key
        ]
        assert {message.partition for message in found} == {partition_of(key.decode(), pipeline.partitions)}


async def test_a_record_over_the_limit_is_told_and_hides_its_neighbours(
    pipeline: Pipeline, owner: PartitionTransactions
) -> None:
    with pytest.raises(MessageSizeTooLargeError):
        await owner.write([record(pipeline, b"good"), record(pipeline, b"." * REQUEST_BYTES_MAX)])
    assert await values(pipeline) == []


def newest(messages: dict[bytes, ConsumerRecord]) -> dict[bytes, bytes | None]:
    return {key: message.value for key, message in messages.items()}


async def read_memory(pipeline: Pipeline, names: list[str]) -> dict[str, CompactedPartition]:
    offsets = LogOffsets(partial(open_consumer, pipeline.access))
    await offsets.start()
    try:
        return await MemoryReader(partial(open_consumer, pipeline.access), offsets).read(names, 0)
    finally:
        await offsets.stop()


async def end_of(pipeline: Pipeline, topic: str) -> int:
    async with open_consumer(pipeline.access) as consumer:
        ends = await consumer.end_offsets([TopicPartition(topic, 0)])
        return int(ends[TopicPartition(topic, 0)])
