"""A broker that is starting names no brokers: a client's start fails as for a Kafka that does not answer."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import client as aiokafka_client
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataResponse_v1

from wire.kafka import KafkaAccess, open_admin, open_client, open_consumer, open_producer


class StartingBroker:
    """A connection to a broker whose first metadata has nobody in it."""

    async def send(self, request: object) -> MetadataResponse_v1:
        return MetadataResponse_v1(brokers=[], controller_id=-1, topics=[])

    def close(self, reason: object = None) -> "asyncio.Future[None]":
        closed = asyncio.get_running_loop().create_future()
        closed.set_result(None)
        return closed

    def connected(self) -> bool:
        return True


def transactional_producer(access: KafkaAccess) -> Any:
    return open_producer(access, transactional_id="worker-0")


def grouped_consumer(access: KafkaAccess) -> Any:
    return open_consumer(access, "telemetry", group_id="worker")


@pytest.mark.parametrize(
    "make", [open_producer, transactional_producer, open_consumer, grouped_consumer, open_client, open_admin]
)
async def test_a_kafka_without_brokers_is_one_that_does_not_answer(
    make: Callable[[KafkaAccess], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def connected(*_: object, **__: object) -> StartingBroker:
        return StartingBroker()

    monkeypatch.setattr(aiokafka_client, "create_conn", connected)
    made = make(KafkaAccess(bootstrap="localhost:9092"))
    with pytest.raises(KafkaConnectionError, match="named no broker"):
        await (made.bootstrap() if make is open_client else made.start())
    if make is open_client:
        await made.close()
    elif make in (open_producer, transactional_producer):
        await made.client.close()
    else:
        await made.stop()
