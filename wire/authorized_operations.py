"""Kafka's Metadata request in the version that tells what we may do to topics (KIP-430); aiokafka knows older ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from wire.acls import Operation

_METADATA, _VERSION = 3, 8
_BITS = {
    Operation.READ: 3,
    Operation.WRITE: 4,
    Operation.CREATE: 5,
    Operation.DESCRIBE: 8,
    Operation.DESCRIBE_CONFIGS: 10,
}
"""Codes of Kafka's AclOperation."""


class _Metadata(Response):  # type: ignore[misc]  # aiokafka has no type annotations that mypy may read
    API_KEY, API_VERSION = _METADATA, _VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("node_id", Int32), ("host", String()), ("port", Int32), ("rack", String()))),
        ("cluster_id", String()),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String()),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class _MetadataRequest(RequestStruct):  # type: ignore[misc]  # as above
    API_KEY, API_VERSION = _METADATA, _VERSION
    RESPONSE_TYPE = _Metadata
    SCHEMA = Schema(
        ("topics", Array(String())),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class AuthorizedOperationsRequest(Request[_MetadataRequest]):  # type: ignore[misc]  # as above
    """About these topics, by their names on the cluster; none of them is made."""

    API_KEY = _METADATA

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = list(topics)

    def is_known_to(self, versions: Mapping[int, tuple[int, int]]) -> bool:
        """Whether a broker with these versions of requests (Kafka 2.3 and newer) answers it."""
        least, most = versions.get(_METADATA, (0, -1))
        return least <= _VERSION <= most

    def build(self, request_struct_class: type[_MetadataRequest]) -> _MetadataRequest:
        return request_struct_class(self._topics, False, False, True)


def allowed_operations(response: Any) -> dict[str, frozenset[Operation]]:
    """By topic what we may do, of those that are there, or that we may not even see."""
    found = {}
    for error_code, topic, _, _, operations in response.topics:
        if error_code == TopicAuthorizationFailedError.errno:
            found[topic] = frozenset[Operation]()
        elif not error_code:
            found[topic] = frozenset(operation for operation, bit in _BITS.items() if operations >> bit & 1)
    return found
