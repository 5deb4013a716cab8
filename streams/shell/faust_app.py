"""The Faust application: one agent a topic, which do nothing but hand batches to their partition's owner.

Topics with the same number of partitions are assigned together by Faust's own assignor, so one worker holds all that
one endpoint needs. Faust keeps no state here and writes nothing: no tables, no leader topic, no web server.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import faust
from aiokafka import AIOKafkaConsumer
from faust.transport.drivers import aiokafka as driver
from faust.types import StreamT
from faust.types.transports import ConsumerCallback

from streams.shell.assignment import Assignments
from streams.shell.batching_consumer import BatchingConsumer, PolledBatch
from streams.shell.inputs import INPUT_TOPICS
from wire.kafka import KafkaAccess, open_consumer
from wire.topics import TopicNames

FETCH_BYTES_MAX = 1024 * 1024
"""Most bytes that a fetch returns of one partition, as compressed: it waits in memory until it is polled. A larger
batch of the log is returned alone."""
BUFFERED_BATCHES = 16
COMMIT_INTERVAL_S = 5.0
FETCH_WAIT_MS = 500
"""How long a fetch of idle partitions waits; the age of what is known about their ends."""
REQUEST_TIMEOUT_S = 40.0
HEARTBEATS = 12
"""In a session. A member learns of a rebalance by the answer to its next one, so their distance adds to a take-over."""
NEVER_MS = 10**12
"""Faust does not poll while nothing is assigned. aiokafka would let such a worker leave the group after a minute, and
never join again; whether one that has partitions makes progress is what the watchdog looks at."""


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """`app` names the consumer group and begins the transactional ids. A killed worker's partitions move after
    `session_timeout_s` (Kafka takes 6 s or more). A rebalance waits `assignment_timeout_s` for its members."""

    app: str
    session_timeout_s: float = 8.0
    assignment_timeout_s: float = 60.0


class HeadraceTransport(driver.Transport):
    """Makes Faust's consumer and producer from Headrace's access settings."""

    def __init__(self, app: "HeadraceApp") -> None:
        super().__init__(app.conf.broker_consumer, app)
        self._group = app.group

    def create_consumer(self, callback: ConsumerCallback, **kwargs: Any) -> BatchingConsumer:
        group = self._group
        return BatchingConsumer(
            self,
            callback=callback,
            loop=self.loop,
            host=group.assignments,
            open_consumer=partial(_open_group_consumer, group.options, group.access),
            clock=group.clock,
            **kwargs,
        )

    def create_producer(self, **kwargs: Any) -> "SilentProducer":
        return SilentProducer(self, **kwargs)

    def access_options(self) -> dict[str, Any]:
        return self._group.access.client_options()


class SilentProducer(driver.Producer):
    """Faust starts a producer whether it writes or not."""

    mundane_level = "debug"

    def _settings_auth(self) -> dict[str, Any]:
        options = cast(HeadraceTransport, self.transport).access_options()
        return {name: value for name, value in options.items() if name not in ("bootstrap_servers", "client_id")}


@dataclass(frozen=True, slots=True)
class Group:
    """What the application's parts are made from; `assignments` is told of partitions and gets all batches, `clock`
    gives UNIX seconds."""

    options: GroupOptions
    access: KafkaAccess
    names: TopicNames
    assignments: Assignments
    clock: Callable[[], float]


class HeadraceApp(faust.App):
    """Faust's App with our transport, and without its data folder: nothing is kept on disk."""

    mundane_level = "debug"

    def __init__(self, group: Group, **settings: Any) -> None:
        self.group = group
        super().__init__(group.options.app, **settings)

    def _new_transport(self) -> HeadraceTransport:
        return HeadraceTransport(self)

    def _new_producer_transport(self) -> HeadraceTransport:
        return HeadraceTransport(self)

    def _create_directories(self) -> None:
        """None are needed."""

    @property
    def reader(self) -> BatchingConsumer:
        return cast(BatchingConsumer, self.consumer)


def build_app(group: Group) -> HeadraceApp:
    """The application, not started."""
    session_s = group.options.session_timeout_s
    app = HeadraceApp(
        group,
        broker=[f"aiokafka://{address.strip()}" for address in group.access.bootstrap.split(",")],
        store="memory://",
        autodiscover=False,
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        broker_commit_interval=COMMIT_INTERVAL_S,
        broker_session_timeout=session_s,
        broker_heartbeat_interval=session_s / HEARTBEATS,
        broker_request_timeout=REQUEST_TIMEOUT_S,
        stream_buffer_maxsize=BUFFERED_BATCHES,
        stream_wait_empty=False,
        worker_redirect_stdouts=False,
        # Above 0, or Faust leaves the assignment to aiokafka's round robin, which may part an endpoint's topics.
        table_standby_replicas=1,
    )
    for topic in INPUT_TOPICS:
        _add_agent(app, topic)
    _connect(app)
    return app


def _open_group_consumer(options: GroupOptions, access: KafkaAccess, assignor: Any) -> AIOKafkaConsumer:
    return open_consumer(
        access,
        group_id=options.app,
        partition_assignment_strategy=[assignor],
        # Samples are not written in transactions; positions must reach the log's end all the same.
        isolation_level="read_uncommitted",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES_MAX,
        fetch_max_wait_ms=FETCH_WAIT_MS,
        check_crcs=False,
        session_timeout_ms=int(options.session_timeout_s * 1000),
        heartbeat_interval_ms=int(options.session_timeout_s * 1000 / HEARTBEATS),
        rebalance_timeout_ms=int(options.assignment_timeout_s * 1000),
        max_poll_interval_ms=NEVER_MS,
        request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
    )


def _add_agent(app: HeadraceApp, topic: str) -> None:
    real = app.group.names.real(topic)
    assignments = app.group.assignments
    channel = app.topic(real, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")

    async def hand_over(stream: StreamT[Any]) -> None:
        async for event in stream.events():
            await assignments.take(topic, event.message.partition, cast(PolledBatch, event.value))

    app.agent(channel, name=f"headrace.{topic}", concurrency=1)(hand_over)


def _connect(app: HeadraceApp) -> None:
    assignments = app.group.assignments

    async def revoke(*_: object, **__: object) -> None:
        await assignments.revoke()

    async def announce(*_: object, **__: object) -> None:
        assignments.announce()

    # Not weak: nothing else holds these two.
    app.on_partitions_revoked.connect(revoke, weak=False)
    app.on_partitions_assigned.connect(announce, weak=False)
