"""How to reach Kafka, in one place: addresses, TLS, SASL, and the clients made from them.

The factories return clients that are not started: use `async with started(open_consumer(access)) as consumer`. Starting
one raises KafkaConnectionError where Kafka does not answer, or is only starting.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from ssl import SSLContext
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import ProducerClosed
from aiokafka.helpers import create_ssl_context
from aiokafka.partitioner import DefaultPartitioner, murmur2

from wire.access_checks import (
    ADDRESS_FORM,
    SECURITY_PROTOCOLS,
    TLS_FILES,
    bad_addresses,
    sasl_problems,
    tls_problems,
)
from wire.batch_limits import limit_batches
from wire.fetchers import close_fetchers
from wire.first_metadata import insist_on_brokers

C = TypeVar("C", AIOKafkaConsumer, AIOKafkaProducer, "AdminClient")

REQUEST_BYTES_MAX = 20 * 1024 * 1024
"""Largest request of our producers; the topics' own `max.message.bytes` are the limits that count."""

BATCH_BYTES = 256 * 1024
"""Largest batch of one partition; with zstd it shrinks to a tenth."""

RETRY_BACKOFF_MS = 500
"""Between two tries, of connecting too: aiokafka has one wait for both, and it does not grow. Its default, 100 ms as in
Kafka's own clients, where it grows to 1 s, has each client of a process try ten times a second while brokers are away.
"""

CLOSE_TIMEOUT_S = 2 * RETRY_BACKOFF_MS / 1000
"""For a request under way, and the wait after it."""

FETCH_BYTES_MAX = 8 * 1024 * 1024
"""Most bytes of one partition a fetch returns; a larger batch of the log is returned alone."""


@dataclass(frozen=True, kw_only=True)
class KafkaAccess:
    """Where Kafka is and who we are to it; names as in Kafka's own client configuration.

    `bootstrap` is a comma list of `host:port`. Raises ValueError with every contradiction, one a line.
    """

    bootstrap: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    client_id: str = "headrace"

    def __post_init__(self) -> None:
        problems = _problems(self)
        if problems:
            raise ValueError("\n".join(problems))

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    def ssl_context(self) -> SSLContext | None:
        """The TLS context, None without TLS; its files are read once in a process. Raises OSError for one that cannot
        be read or is no certificate."""
        if not self.uses_tls:
            return None
        # Not None for a password: OpenSSL would ask for it on the terminal.
        files = self.ssl_cafile, self.ssl_certfile, self.ssl_keyfile, self.ssl_password or ""
        return _tls_context(*files, check_hostname=self.ssl_check_hostname)

    def client_options(self) -> dict[str, Any]:
        """Keyword arguments that every aiokafka client takes."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
        }
        if self.uses_tls:
            options["ssl_context"] = self.ssl_context()
        if self.uses_sasl:
            options |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.sasl_username,
                "sasl_plain_password": self.sasl_password,
            }
        return options


def _problems(access: KafkaAccess) -> list[str]:
    protocol = access.security_protocol
    problems = [f"bootstrap: {address}, allowed: {ADDRESS_FORM}" for address in bad_addresses(access.bootstrap)]
    if protocol not in SECURITY_PROTOCOLS:
        problems.append(f"security_protocol: {protocol!r}, allowed: {', '.join(SECURITY_PROTOCOLS)}")
    has_password = access.sasl_password is not None
    problems += sasl_problems(protocol, access.sasl_mechanism, access.sasl_username, has_password)
    return problems + tls_problems(protocol, [name for name in TLS_FILES if getattr(access, name)])


@lru_cache(maxsize=8)
def _tls_context(
    cafile: str | None, certfile: str | None, keyfile: str | None, password: str, *, check_hostname: bool
) -> SSLContext:
    """Kept: a file that is gone when the next client is made, as one that is being changed, ends no process at work."""
    context: SSLContext = create_ssl_context(cafile=cafile, certfile=certfile, keyfile=keyfile, password=password)
    context.check_hostname = check_hostname
    return context


def open_producer(access: KafkaAccess, **options: Any) -> AIOKafkaProducer:
    """An idempotent zstd producer, not started; `options` as of aiokafka (`transactional_id=...`) go before ours."""
    defaults = {
        "acks": "all",
        "enable_idempotence": True,
        "compression_type": "zstd",
        "max_batch_size": BATCH_BYTES,
        "max_request_size": REQUEST_BYTES_MAX,
        "linger_ms": 5,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        "partitioner": _partitioner,
    }
    producer = AIOKafkaProducer(**(defaults | access.client_options() | options))
    insist_on_brokers(producer.client)
    return producer


async def close_producer(producer: AIOKafkaProducer) -> None:
    """Ends a producer at once: what it has not delivered fails, where `stop()` alone waits for the broker for ever.

    Its sender ends first: one that goes on would miss the failed batches, and log that as an error of its own.
    """
    sender, accumulator = producer._sender, producer._message_accumulator
    sending = None if sender is None else sender.sender_task
    if sending is not None:
        # aiokafka's callback fails for a producer without transactions.
        sending.remove_done_callback(sender._fail_all)
        sending.add_done_callback(_take_exception)
        sending.cancel()
        await asyncio.wait({sending}, timeout=CLOSE_TIMEOUT_S)
        sending.cancel()
    await producer.client.close()
    queued = {batch for batches in accumulator._batches.values() for batch in batches} | accumulator._pending_batches
    accumulator._pending_batches |= queued  # Each that was tried once takes itself out of there when it fails.
    accumulator.fail_all(ProducerClosed())
    for batch in queued:
        for future in (batch.future, batch._drain_waiter, *(future for future, _ in batch._msg_futures)):
            if future.done():
                _take_exception(future)
    producer._closed = True


def _take_exception(future: asyncio.Future[Any]) -> None:
    """Nobody awaits it any more."""
    if not future.cancelled():
        future.exception()


def open_consumer(access: KafkaAccess, *topics: str, **options: Any) -> AIOKafkaConsumer:
    """A consumer that reads committed records from the beginning and commits nothing by itself; not started.

    No batch of the log grows beyond the limits of wire.batch_limits.
    """
    limit_batches()
    close_fetchers()
    defaults = {
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "max_partition_fetch_bytes": FETCH_BYTES_MAX,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
    }
    consumer = AIOKafkaConsumer(*topics, **(defaults | access.client_options() | options))
    insist_on_brokers(consumer._client)
    return consumer


async def close_consumer(consumer: AIOKafkaConsumer, timeout_s: float) -> bool:
    """Leave the group and disconnect; false where that could not be done in time, and what is left ends by itself.

    In a task of its own: while brokers are away aiokafka ends its `stop()` with the cancellation of a fetch.
    """
    closing = asyncio.create_task(consumer.stop())
    await asyncio.wait({closing}, timeout=timeout_s)
    if closing.done():
        return not closing.cancelled() and closing.exception() is None
    closing.add_done_callback(_take_exception)
    closing.cancel()
    return False


def open_client(access: KafkaAccess, **options: Any) -> AIOKafkaClient:
    """What the others are made of: it keeps the metadata, and sends requests; not started."""
    client = AIOKafkaClient(**(access.client_options() | options))
    insist_on_brokers(client)
    return client


class AdminClient(AIOKafkaAdminClient):  # type: ignore[misc]  # aiokafka has no type annotations that mypy may read
    """aiokafka's admin client, which is stopped and is an asynchronous context as the other two are."""

    async def stop(self) -> None:
        await self.close()

    async def __aenter__(self) -> "AdminClient":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def open_admin(access: KafkaAccess, **options: Any) -> AdminClient:
    """An admin client, not started."""
    admin = AdminClient(**(access.client_options() | options))
    insist_on_brokers(admin._client)
    return admin


@asynccontextmanager
async def started(client: C) -> AsyncIterator[C]:
    """Starts a client, and stops it also where its start fails; its own context leaves its connections open then."""
    try:
        await client.start()
        yield client
    finally:
        await client.stop()


def partition_of(key: str, partitions: int) -> int:
    """The partition, 0..partitions-1, in which Kafka's own partitioner (murmur2) puts `key`."""
    return partition_of_key(key.encode(), partitions)


def partition_of_key(key: bytes, partitions: int) -> int:
    """As `partition_of`, of a key as it is on the wire."""
    return _hash_of(key) % partitions


@lru_cache(maxsize=16_384)
def _hash_of(key: bytes) -> int:
    """Cached: the hash costs some 5 µs in Python, and a fleet has few endpoints. Anybody may send any name, so the
    least recent are forgotten."""
    return int(murmur2(key)) & 0x7FFFFFFF


def _partitioner(key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
    """aiokafka's own, but for the cache."""
    if key is None:
        return int(DefaultPartitioner()(key, all_partitions, available))
    return all_partitions[_hash_of(key) % len(all_partitions)]
