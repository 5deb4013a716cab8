"""Kafka's own ids of topics, which tell a topic from one of the same name that was deleted before.

aiokafka asks for version 5 of Kafka's metadata at most; the ids came with version 10 (Kafka 2.8), spelled out here.
"""

import uuid
from collections.abc import Iterable
from io import BytesIO
from types import TracebackType
from typing import Any, Self

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from wire.kafka import KafkaAccess, open_client

_NO_ID = uuid.UUID(int=0)


class _Uuid(AbstractType):  # type: ignore[misc]  # aiokafka has no type annotations that mypy may read
    @classmethod
    def encode(cls, value: uuid.UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> uuid.UUID:
        return uuid.UUID(bytes=data.read(16))


class _MetadataResponse(Response):  # type: ignore[misc]  # as above
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader_id", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _MetadataRequestV10(RequestStruct):  # type: ignore[misc]  # as above
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", _Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicIdsRequest(Request[_MetadataRequestV10]):  # type: ignore[misc]  # as above
    API_KEY = 3

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics: list[tuple[uuid.UUID, str, dict[int, bytes]]] = [(_NO_ID, topic, {}) for topic in topics]

    def build(self, request_struct_class: Any) -> _MetadataRequestV10:
        return request_struct_class(self._topics, False, False, False, {})  # type: ignore[no-any-return]  # as above


class TopicIds:
    """Asks brokers for the ids of topics, over a connection of its own; `async with` opens and closes it."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._opened: AIOKafkaClient | None = None

    async def __aenter__(self) -> Self:
        client = open_client(self._access)
        try:
            await client.bootstrap()
        except BaseException:
            await client.close()
            raise
        self._opened = client
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    @property
    def _client(self) -> AIOKafkaClient:
        assert self._opened is not None, "used inside its context"
        return self._opened

    async def of(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of those of `topics` (names on the cluster) that exist, each a UUID as text.

        Raises KafkaError where no broker answers, or one answers with an error that is not about absence.
        """
        node = self._client.get_random_node()
        if node is None:
            raise KafkaConnectionError("no broker is known")
        response = await self._client.send(node, _TopicIdsRequest(topics))
        ids = {}
        for code, name, topic_id, *_ in response.topics:
            error = for_code(code)
            if code == 0:
                ids[name] = str(topic_id)
            elif error is not UnknownTopicOrPartitionError:
                raise error(name)
        return ids
