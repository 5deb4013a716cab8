"""The thread of Faust's consumer, in which aiokafka's lives: it polls, seeks, commits and tells positions.

The overridden methods belong to a pinned release; tests/worker/test_faust_pin.py fails when one of them changes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import ConsumerStoppedError, KafkaError
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from opentelemetry import metrics

from streams.shell.fetch_times import FetchTimes
from streams.shell.fetch_waits import FetchWaits
from streams.shell.fetched import Polled, PollLimits, fetched_messages
from wire.kafka import close_consumer
from wire.zero_counts import begin_at_zero

POLL_LIMITS = PollLimits(messages=5000, size=4 * 1024 * 1024)
"""Of one poll: some 40 ms of work, during which nothing else runs."""

KEEPALIVE_S = 1.1
"""mode's own."""

CLOSE_TIMEOUT_S = 3.0
"""How long leaving the group may take."""

_meter = metrics.get_meter("headrace.streams")
_commit_failures = _meter.create_counter(
    "headrace_offset_commit_failures", description="commits of read offsets that failed"
)


class Owner(Protocol):
    """The consumer that the thread works for."""

    open_consumer: Callable[[Any], AIOKafkaConsumer]
    fetch_times: FetchTimes
    fetch_waits: FetchWaits


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread that polls; its client comes from Headrace's own factory, so all Kafka settings are in one place."""

    mundane_level = "debug"

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        begin_at_zero(_commit_failures)
        self._assignor = self.app.assignor
        open_consumer = cast(Owner, self.consumer).open_consumer
        return open_consumer(self._assignor)

    async def _fetch_records(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: set[TP] | None,
        timeout: float | None = None,  # noqa: ASYNC109  # Faust's
        max_records: int | None = None,
    ) -> dict[TP, list[Polled]]:
        """What the driver does, by POLL_LIMITS and not `max_records`, and with one Polled for each partition."""
        if not self.consumer.flow_active:
            return {}
        fetcher = consumer._fetcher
        if consumer._closed or fetcher._closed:
            raise ConsumerStoppedError
        owner = cast(Owner, self.consumer)
        owner.fetch_times.watch(fetcher)
        owner.fetch_waits.watch(fetcher)
        with fetcher._subscriptions.fetch_context():
            polled = await fetched_messages(fetcher, active_partitions or (), timeout or 0.0, POLL_LIMITS)
        return {TP(tp.topic, tp.partition): [of_tp] for tp, of_tp in polled.items()}

    async def on_thread_stop(self) -> None:
        """As the driver does it, but for the wait: a Kafka that is away is given up, without a traceback."""
        await super(driver.AIOKafkaConsumerThread, self).on_thread_stop()
        if self._consumer is not None:
            await close_consumer(self._consumer, CLOSE_TIMEOUT_S)

    async def _keepalive2(self) -> None:
        """As mode does it, without its error "Thread keepalive is not responding": this runs in the loop of the
        process, not in the thread, and looks at its own last round, so that the words come after each pause of the
        process and tell nothing of the thread. A loop that answers no more is the watch's matter."""
        while not self.should_stop:
            await self.sleep(KEEPALIVE_S)
            await self._wakeup_timer_in_thread()

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit for lag tools. A failure is counted and forgotten: nothing is restored from these offsets."""
        assigned = self.assignment()
        try:
            await self.commit_or_raise({tp: offset for tp, offset in offsets.items() if tp in assigned})
        except KafkaError:
            _commit_failures.add(1)
            return False
        return True

    async def commit_or_raise(self, offsets: Mapping[TP, int]) -> None:
        wanted = {TopicPartition(tp.topic, tp.partition): OffsetAndMetadata(at, "") for tp, at in offsets.items()}
        await self._ensure_consumer().commit(wanted)

    async def check_group(self) -> None:
        """Raise what the group's coordinator answered that it cannot go on with; it then tries again."""
        self._ensure_consumer()._coordinator.check_errors()

    def is_group_in_error(self) -> bool:
        coordinator = None if self._consumer is None else self._consumer._coordinator
        return getattr(coordinator, "_pending_exception", None) is not None

    async def seek_all(self, offsets: Mapping[TP, int]) -> None:
        consumer = self._ensure_consumer()
        assigned = self.assignment()
        for tp, offset in offsets.items():
            if tp in assigned:
                consumer.seek(TopicPartition(tp.topic, tp.partition), offset)

    def positions(self) -> dict[TP, int]:
        """The next offset to poll, of each assigned partition that has one."""
        assignment = self._current()
        if assignment is None:
            return {}
        # Not `position`, which asserts that there is one: the thread may take it away at any moment.
        found = ((tp, assignment.state_value(tp)._position) for tp in assignment.tps)
        return {TP(tp.topic, tp.partition): position for tp, position in found if position is not None}

    def end(self, tp: TP) -> int | None:
        """The log's end as the newest fetch showed it."""
        assignment = self._current()
        state = None if assignment is None else assignment.state_value(TopicPartition(tp.topic, tp.partition))
        return None if state is None else state.highwater

    def _current(self) -> Any:
        subscription = self._ensure_consumer()._subscription.subscription
        return None if subscription is None else subscription.assignment
