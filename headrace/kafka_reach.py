"""Whether Kafka answers, asked over a connection of its own: consumers and producers wait in silence for brokers."""

import asyncio
from collections.abc import Callable

import structlog
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from headrace.clock import monotonic_s
from headrace.silence import Silence
from wire.admission import RefusedError, reason_of
from wire.kafka import KafkaAccess, open_client

ASK_EVERY_S = 1.0
SILENCE_MAX_S = 4.0
"""Longer than a broker takes to hand over to another, and short enough to be seen by whoever asks /readyz."""


log = structlog.get_logger("headrace.kafka")


class KafkaReach:
    """`watch` asks for one topic's metadata again and again; `why_not` tells when the newest answer is too old.

    Any broker may answer. `topic` is a name on the cluster. Time in which this process was stopped does not count.
    """

    def __init__(self, access: KafkaAccess, topic: str, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._access = access
        self._topic = topic
        self._silence = Silence(clock_s)
        self._reason: Exception | None = None

    def why_not(self) -> str | None:
        """Null as long as Kafka answers. To be asked once a second or more often."""
        silent_s = self._silence.look()
        if silent_s <= SILENCE_MAX_S:
            return None
        told = f"no answer from {self._access.bootstrap} for {silent_s:.0f} s"
        return told if self._reason is None else f"{told}: {self._reason}"

    async def watch(self) -> None:
        """Never returns; a client that got no answer is thrown away, as brokers may come back under other addresses."""
        while True:
            client = open_client(self._access, request_timeout_ms=int(SILENCE_MAX_S * 1000))
            try:
                async with asyncio.timeout(SILENCE_MAX_S):
                    await client.bootstrap()
                    await client.set_topics([self._topic])
                while await self._is_answered(client):
                    self._silence.hear()
                    self._reason = None
                    await asyncio.sleep(ASK_EVERY_S)
            except (KafkaError, OSError, TimeoutError) as error:
                self._tell(await reason_of(self._access, error))
            finally:
                await client.close()
            await asyncio.sleep(ASK_EVERY_S)

    def _tell(self, reason: Exception) -> None:
        """Log once why Kafka refuses us, which goes on until somebody cures it: an expired certificate, say."""
        if isinstance(reason, RefusedError) and str(reason) != str(self._reason):
            log.warning("kafka_refuses", reason=str(reason))
        self._reason = reason

    async def _is_answered(self, client: AIOKafkaClient) -> bool:
        async with asyncio.timeout(SILENCE_MAX_S):
            return bool(await client.force_metadata_update())
