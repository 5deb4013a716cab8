"""The topics of Headrace: what each holds, how long, and by what key. `wire.admin` creates, lists and checks them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import msgspec

from records.decisions import ScalingDecision
from records.memory import ControllerMemory
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.signals import EndpointSignal, Forecast
from records.telemetry import GpuSample, ReplicaChanged, RequestLog, RequestSample, TargetObserved

DAY_MS = 86_400_000
MESSAGE_BYTES = 1024 * 1024
"""Most bytes of one message (and of one batch as stored): Kafka's own default."""
MEMORY_BYTES = 16 * MESSAGE_BYTES
"""The same for records that grow with an endpoint's replicas: some 400 bytes each of 10,000 replicas, and three times
that where senders use up every limit of streams.endpoints.intake."""


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """One topic. `key` names the record's field that is the message's key, `identity` those that tell records apart.

    `retention_ms` is None for a compacted topic. `co_partitioned` topics have one and the same number of partitions,
    so that whoever owns partition p of one owns all that its endpoints need. `transactional` ones are written in
    Kafka transactions and read committed. `tombstones`: a null value deletes its key. `frames`: Arrow frames are
    accepted beside JSON.
    """

    name: str
    record: type[msgspec.Struct]
    identity: tuple[str, ...]
    key: str = "endpoint"
    cleanup: Literal["delete", "compact"] = "delete"
    retention_ms: int | None = DAY_MS
    compaction_lag_ms: int = 0
    co_partitioned: bool = False
    transactional: bool = False
    tombstones: bool = False
    frames: bool = False
    message_bytes_max: int = MESSAGE_BYTES


def _by_name(*specs: TopicSpec) -> Mapping[str, TopicSpec]:
    return MappingProxyType({spec.name: spec for spec in specs})


TOPICS: Mapping[str, TopicSpec] = _by_name(
    TopicSpec(
        name="telemetry.requests",
        record=RequestSample,
        identity=("endpoint", "replica", "epoch", "source", "reporter", "at_s"),
        co_partitioned=True,
        frames=True,
    ),
    TopicSpec(
        name="telemetry.gpus",
        record=GpuSample,
        identity=("endpoint", "replica", "epoch", "gpu", "at_s"),
        co_partitioned=True,
        frames=True,
    ),
    TopicSpec(
        name="telemetry.replicas",
        record=ReplicaChanged,
        identity=("endpoint", "replica", "epoch", "at_s", "seq"),
        retention_ms=7 * DAY_MS,
        co_partitioned=True,
        frames=True,
    ),
    TopicSpec(
        name="telemetry.targets",
        record=TargetObserved,
        identity=("endpoint", "role", "at_s", "seq"),
        retention_ms=7 * DAY_MS,
        co_partitioned=True,
        frames=True,
    ),
    TopicSpec(name="inference.requests", record=RequestLog, identity=("request_id",), key="request_id", frames=True),
    TopicSpec(
        name="policies",
        record=EndpointPolicy,
        identity=("endpoint",),
        cleanup="compact",
        retention_ms=None,
        co_partitioned=True,
        tombstones=True,
    ),
    TopicSpec(
        name="signals",
        record=EndpointSignal,
        identity=("endpoint", "at_s"),
        transactional=True,
        message_bytes_max=MEMORY_BYTES,
    ),
    TopicSpec(name="forecasts", record=Forecast, identity=("endpoint", "at_s"), transactional=True),
    TopicSpec(
        name="decisions.scaling",
        record=ScalingDecision,
        identity=("decision_id",),
        retention_ms=7 * DAY_MS,
        transactional=True,
        message_bytes_max=MEMORY_BYTES,
    ),
    TopicSpec(
        name="outcomes",
        record=Outcome,
        identity=("decision_id", "actuator", "at_s"),
        cleanup="compact",
        retention_ms=None,
        compaction_lag_ms=7 * DAY_MS,
        co_partitioned=True,
    ),
    TopicSpec(
        name="controllers",
        record=ControllerMemory,
        identity=("endpoint",),
        cleanup="compact",
        retention_ms=None,
        co_partitioned=True,
        transactional=True,
        tombstones=True,
        message_bytes_max=MEMORY_BYTES,
    ),
)
"""All topics whose records exist, by logical name (without the deployment's prefix)."""

TELEMETRY_TOPICS: tuple[str, ...] = tuple(name for name in TOPICS if name.startswith("telemetry."))
"""What pods, agents and collectors report."""

CO_PARTITIONED: tuple[str, ...] = tuple(name for name, spec in TOPICS.items() if spec.co_partitioned)

TOPIC_OF: Mapping[type[msgspec.Struct], str] = MappingProxyType({spec.record: name for name, spec in TOPICS.items()})
"""The logical topic of each record type; they are one to one."""

_PREFIX = re.compile(r"[a-zA-Z0-9._-]{0,200}")


@dataclass(frozen=True)
class TopicNames:
    """Maps logical topic names to those on the cluster and back: a prefix for all of them.

    Raises ValueError for a prefix that Kafka would not take.
    """

    prefix: str = ""

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(f"topic prefix: {self.prefix!r}, allowed: up to 200 of a-z A-Z 0-9 . _ -")

    def real(self, logical: str) -> str:
        """The name on the cluster. Raises KeyError for a topic that is not ours."""
        return self.prefix + TOPICS[logical].name

    def logical(self, real: str) -> str:
        """The logical name. Raises KeyError for a topic that is not ours."""
        if not real.startswith(self.prefix):
            raise KeyError(real)
        return TOPICS[real[len(self.prefix) :]].name


def topic_of(record: msgspec.Struct) -> str:
    """The logical topic of a record. Raises KeyError for what travels on none."""
    return TOPIC_OF[type(record)]


def key_of(record: msgspec.Struct) -> str:
    """The message key of a record: its endpoint, of a RequestLog the request's id."""
    return str(getattr(record, TOPICS[TOPIC_OF[type(record)]].key))
