"""The transactional producer of one partition: all records of a transaction become readable together, or none does.

Its transactional id is `<app>-<partition>`: starting it fences whoever had the partition before and ends an open
transaction of theirs. A producer that failed in any way is never used again; its successor starts under the same id.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    IllegalOperation,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFenced,
)

from streams.shell.fault_points import FaultPoint, FaultPoints
from streams.shell.record_batches import OutgoingRecord, send_in_batches
from wire.admission import AUTHORIZATION_ERRORS

TRANSACTION_TIMEOUT_S = 10.0
"""How long a transaction of a dead worker can hide its neighbours' records, if nobody takes its partition over."""
START_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 1.0

_FENCED = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping)


class FencedError(Exception):
    """Another producer started under this transactional id, or the broker ended our transaction for its age."""


class TransactionFailedError(Exception):
    """The transaction may or may not be committed: only the log tells. Retryable with a new producer."""


class PartitionTransactions:
    """Transactions of one partition, one at a time. `start` before `write`; `close` always."""

    def __init__(
        self, partition: int, transactional_id: str, open_producer: Callable[..., AIOKafkaProducer], faults: FaultPoints
    ) -> None:
        self.partition = partition
        self._id = transactional_id
        self._open_producer = open_producer
        self._faults = faults
        self._producer: AIOKafkaProducer | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start a new producer: the one before is fenced, its open transaction ended.

        Raises TransactionFailedError when Kafka does not answer in time, one of AUTHORIZATION_ERRORS.
        """
        await self.close()
        producer = self._open_producer(
            transactional_id=self._id,
            transaction_timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000),
            linger_ms=0,
        )
        self._producer = producer
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await producer.start()
        except AUTHORIZATION_ERRORS:
            raise
        except (TimeoutError, KafkaError, OSError) as error:
            raise TransactionFailedError(f"{self._id}: no producer: {error!r}") from error
        await self._faults.reached(FaultPoint.PRODUCER_STARTED, self.partition)

    async def write(self, records: Sequence[OutgoingRecord]) -> None:
        """Write the records in one transaction; it is committed when this returns.

        Raises FencedError, TransactionFailedError; what no retry would cure: MessageSizeTooLargeError for a record over
        the broker's limit, one of AUTHORIZATION_ERRORS.
        """
        producer = self._producer
        if producer is None:
            raise TransactionFailedError(f"{self._id}: the producer is closed")
        futures: list[asyncio.Future[object]] = []
        try:
            async with asyncio.timeout(TRANSACTION_TIMEOUT_S):
                await self._write(producer, records, futures)
        except (MessageSizeTooLargeError, *AUTHORIZATION_ERRORS):
            raise
        except _FENCED as error:
            raise FencedError(self._id) from error
        except (TimeoutError, KafkaError, IllegalOperation) as error:
            # aiokafka calls a send illegal whose transaction was aborted, or failed in its sender, a moment before.
            raise TransactionFailedError(f"{self._id}: {error!r}") from error
        finally:
            _collect(futures)

    async def _write(
        self, producer: AIOKafkaProducer, records: Sequence[OutgoingRecord], futures: list[asyncio.Future[object]]
    ) -> None:
        _check_alive(producer)
        await producer.begin_transaction()
        await self._faults.reached(FaultPoint.TRANSACTION_BEGUN, self.partition)
        await send_in_batches(producer, records, futures)
        await self._faults.reached(FaultPoint.RECORDS_SENT, self.partition)
        # aiokafka commits a transaction whose sends have failed: so every acknowledgement is awaited before.
        await _acknowledged(producer, futures)
        await self._faults.reached(FaultPoint.RECORDS_ACKNOWLEDGED, self.partition)
        _check_alive(producer)
        if not producer._txn_manager.is_in_transaction():
            raise KafkaError("the transaction ended before it was committed")
        await producer.commit_transaction()
        await self._faults.reached(FaultPoint.COMMITTED, self.partition)

    async def abort(self) -> None:
        """End an open transaction without its records, as far as Kafka answers within a second."""
        producer = self._producer
        if producer is None or not producer._txn_manager.is_in_transaction():
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await producer.abort_transaction()
        except (TimeoutError, KafkaError, IllegalOperation):
            return  # The successor's start ends it.

    async def close(self) -> None:
        """Stop the producer. What Kafka does not answer within a second is left to a task of its own."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        task = asyncio.create_task(_stop(producer))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        await asyncio.wait([task], timeout=CLOSE_TIMEOUT_S)


async def _acknowledged(producer: AIOKafkaProducer, futures: Sequence[asyncio.Future[object]]) -> None:
    """All are; or the transaction has failed, in which case aiokafka leaves some of them waiting for ever."""
    sent, ended = asyncio.gather(*futures), producer._txn_manager.wait_for_transaction_end()
    try:
        await asyncio.wait([sent, ended], return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and not sent.done():
            ended.result()
        await sent
    finally:
        sent.cancel()
        _collect([sent])


def _check_alive(producer: AIOKafkaProducer) -> None:
    """aiokafka asserts, instead of raising what went wrong, when its sender has failed before."""
    if producer._txn_manager.is_fatal_error():
        raise KafkaError("the producer's sender has failed")


async def _stop(producer: AIOKafkaProducer) -> None:
    with contextlib.suppress(KafkaError):  # It has failed before, and its owner knows.
        await producer.stop()
    waiter = producer._txn_manager.wait_for_transaction_end()
    queued = [batch for batches in producer._message_accumulator._batches.values() for batch in batches]
    _collect([*([] if waiter is None else [waiter]), *(batch._drain_waiter for batch in queued)])


def _collect(futures: Sequence[asyncio.Future[Any]]) -> None:
    """Take the exceptions of futures that nobody awaits any more: a failed producer leaves many."""
    for future in futures:
        if not future.done():
            future.add_done_callback(_take_exception)
        else:
            _take_exception(future)


def _take_exception(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
