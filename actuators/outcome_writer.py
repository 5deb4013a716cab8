"""Writes outcomes, and does not rest until they are in the log."""

import asyncio
from collections.abc import Callable, Sequence

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from records.outcomes import Outcome
from wire.codec import encode
from wire.kafka import KafkaAccess, close_producer, open_producer, partition_of

SEND_S = 10.0
"""How long a producer tries by itself; one that failed is thrown away."""

_log = structlog.get_logger("headrace.actuators")


class OutcomeWriter:
    """One producer for all endpoints, made anew after it failed.

    `timestamp_s` gives the messages' timestamps; None leaves them to the broker's clock, the real one.
    """

    def __init__(
        self, access: KafkaAccess, topic: str, partitions: int, timestamp_s: Callable[[], float] | None
    ) -> None:
        self._access = access
        self._topic = topic
        self._partitions = partitions
        self._timestamp_s = timestamp_s
        self._producer: AIOKafkaProducer | None = None
        self._making = asyncio.Lock()

    async def write(self, outcomes: Sequence[Outcome]) -> bool:
        """True once all are in the log, in this order; False where that is not known, to be found out by reading."""
        producer = None
        try:
            async with asyncio.timeout(2 * SEND_S):
                producer = await self._started()
                await asyncio.gather(*[await self._send(producer, outcome) for outcome in outcomes])
        except (KafkaError, OSError, TimeoutError) as error:
            _log.warning("outcomes_not_written", count=len(outcomes), error=f"{type(error).__name__}: {error}")
            await self._throw_away(producer)
            return False
        return True

    async def _started(self) -> AIOKafkaProducer:
        async with self._making:
            if self._producer is None:
                made = open_producer(self._access, linger_ms=0, request_timeout_ms=int(SEND_S * 1000))
                try:
                    await made.start()
                except BaseException:
                    await close_producer(made)
                    raise
                self._producer = made
            return self._producer

    async def _send(self, producer: AIOKafkaProducer, outcome: Outcome) -> asyncio.Future[object]:
        key = outcome.endpoint
        sent: asyncio.Future[object] = await producer.send(
            self._topic,
            encode(outcome),
            key=key.encode(),
            partition=partition_of(key, self._partitions),
            timestamp_ms=None if self._timestamp_s is None else int(self._timestamp_s() * 1000),
        )
        return sent

    async def _throw_away(self, producer: AIOKafkaProducer | None) -> None:
        if producer is not None and self._producer is producer:
            self._producer = None
            await close_producer(producer)

    async def stop(self) -> None:
        """Nothing is waited for: whoever wrote has done so."""
        await self._throw_away(self._producer)
