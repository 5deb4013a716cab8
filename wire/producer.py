"""The producer that pods and agents embed: it takes records at once, sends them when it can, and never waits.

Each topic has its own lane (buffer, connection and task), so that a topic that cannot be written holds up no other.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from opentelemetry.metrics import CallbackOptions, Observation, get_meter

from wire.codec import encode
from wire.kafka import KafkaAccess
from wire.producer_lane import Lane
from wire.send_buffer import SendBuffer, Waiting
from wire.topics import TOPICS, TopicNames, key_of, topic_of

RECORD_BYTES = 1024
"""What a record weighs in the buffer when it waits to become a row of a frame: a full sample in memory."""


@dataclass(frozen=True, kw_only=True)
class ProducerSettings:
    """Bounds of one topic's buffer, and how long a record waits for others to share its batch.

    32 MiB hold a minute of 900 lean samples a second. `frames` sends Arrow frames where the topic takes them: for
    agents that report for many replicas. Raises ValueError.
    """

    buffer_records: int = 100_000
    buffer_bytes: int = 32 * 1024 * 1024
    linger_s: float = 0.01
    frames: bool = False

    def __post_init__(self) -> None:
        least = {"buffer_records": self.buffer_records, "buffer_bytes": self.buffer_bytes}
        problems = [f"{name}: {value}, allowed from 1" for name, value in least.items() if value < 1]
        if not 0 <= self.linger_s <= 60:
            problems.append(f"linger_s: {self.linger_s}, allowed 0 to 60")
        if problems:
            raise ValueError("\n".join(problems))


@dataclass(frozen=True, kw_only=True)
class ProducerCounts:
    """Records since the start, of all topics: every record handed to `send` is in exactly one of these.

    `oldest` were dropped from a full buffer, `too_large` are above the topic's or the broker's limit, `unreadable`
    cannot be written as JSON, `unsent` were left when the producer stopped. `waiting` are buffered or on their way.
    """

    sent: int = 0
    waiting: int = 0
    oldest: int = 0
    too_large: int = 0
    unreadable: int = 0
    unsent: int = 0

    @property
    def dropped(self) -> int:
        return self.oldest + self.too_large + self.unreadable + self.unsent


class TelemetryProducer:
    """Sends records to their topics, batched by partition.

    `send` may be called before `start`, from any thread, and while no broker answers. `clock` gives the Kafka
    timestamps in seconds, for a pipeline whose clock is not the real one.
    """

    def __init__(
        self,
        access: KafkaAccess,
        names: TopicNames | None = None,
        settings: ProducerSettings | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._access = access
        self._names = names or TopicNames()
        self._settings = settings or ProducerSettings()
        self._clock = clock
        self._lanes: dict[str, Lane] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        meter = get_meter("headrace.wire")
        meter.create_observable_counter("headrace_producer_records", [self._observe], description="Records by outcome")
        meter.create_observable_gauge(
            "headrace_producer_waiting", [self._observe_waiting], description="Records waiting"
        )

    @property
    def counts(self) -> ProducerCounts:
        lanes = list(self._lanes.values())
        return ProducerCounts(
            sent=sum(lane.sent for lane in lanes),
            waiting=sum(lane.waiting for lane in lanes),
            oldest=sum(lane.buffer.dropped for lane in lanes),
            too_large=sum(lane.too_large for lane in lanes),
            unreadable=sum(lane.unreadable for lane in lanes),
            unsent=sum(lane.unsent for lane in lanes),
        )

    @property
    def last_error(self) -> Exception | None:
        """What the broker, or the way to it, last answered that was no success; None while all is well."""
        return next((lane.last_error for lane in self._lanes.values() if lane.last_error is not None), None)

    def send(self, record: msgspec.Struct) -> bool:
        """Takes a record; false where it can never be sent. Raises KeyError for a type that travels on no topic."""
        topic = topic_of(record)
        lane = self._lanes.get(topic) or self._add_lane(topic)
        key = key_of(record)
        timestamp_ms = None if self._clock is None else int(self._clock() * 1000)
        if lane.frames:
            lane.put(Waiting(key, record, _weight(record), timestamp_ms))
            return True
        try:
            value = encode(record)
        except (TypeError, ValueError):
            lane.unreadable += 1
            return False
        if len(value) + len(key) > TOPICS[topic].message_bytes_max:
            lane.too_large += 1
            return False
        lane.put(Waiting(key, value, len(value) + len(key), timestamp_ms))
        return True

    def _add_lane(self, topic: str) -> Lane:
        settings = self._settings
        lane = Lane(
            TOPICS[topic],
            self._names.real(topic),
            SendBuffer(settings.buffer_records, settings.buffer_bytes),
            linger_s=settings.linger_s,
            frames=settings.frames and TOPICS[topic].frames,
        )
        lane = self._lanes.setdefault(topic, lane)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lane.start, self._access, self._loop)
        return lane

    async def start(self) -> None:
        """Begins to send; returns at once, whether a broker answers or not."""
        self._loop = asyncio.get_running_loop()
        for lane in list(self._lanes.values()):
            lane.start(self._access, self._loop)

    async def flush(self, timeout_s: float = 10.0) -> bool:
        """Waits until what was taken so far is sent or dropped; false where `timeout_s` was not enough."""
        try:
            async with asyncio.timeout(timeout_s):
                for lane in list(self._lanes.values()):
                    await lane.idle()
        except TimeoutError:
            return False
        return True

    async def stop(self, timeout_s: float = 5.0) -> bool:
        """Flushes for up to `timeout_s`, then gives up what is left, counted as `unsent`; true where nothing was."""
        flushed = await self.flush(timeout_s)
        self._loop = None
        await asyncio.gather(*(lane.stop() for lane in self._lanes.values()))
        return flushed

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        counts = self.counts
        for outcome in ("sent", "oldest", "too_large", "unreadable", "unsent"):
            yield Observation(getattr(counts, outcome), {"outcome": outcome})

    def _observe_waiting(self, _: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self.counts.waiting)


def _weight(record: Any) -> int:
    texts = (getattr(record, name, None) for name in ("request", "response", "reason"))
    return RECORD_BYTES + sum(len(text) for text in texts if text)
