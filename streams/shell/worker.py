"""A worker: the Faust application, the owners of its partitions, and what watches over them, as one thing to run."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import structlog
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
)

from streams.shell.assignment import Assignments
from streams.shell.fault_points import FaultPoints, NoFaults
from streams.shell.faust_app import Group, GroupOptions, build_app
from streams.shell.inputs import INPUT_TOPICS
from streams.shell.log_offsets import LogOffsets
from streams.shell.memory_reader import MemoryReader
from streams.shell.owner_ports import OwnerPorts
from streams.shell.partition_owner import PartitionOwner
from streams.shell.tick_source import TickSource
from streams.shell.transactions import PartitionTransactions
from streams.shell.watchdog import Watchdog
from streams.shell.worker_metrics import WorkerMetrics
from wire.kafka import KafkaAccess, open_consumer, open_producer
from wire.topics import TopicNames

STOP_TIMEOUT_S = 5.0
GROUP_LOOK_S = 0.5
REFUSALS = (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
)
"""What no other try cures."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """`clock` gives UNIX seconds, `monotonic_s` seconds that never go back. `lag_max_s`: a worker further behind is not
    ready. `stall_s`: without progress for this long, although there is work, it ends. `faults` is for tests."""

    access: KafkaAccess
    names: TopicNames
    group: GroupOptions
    clock: Callable[[], float]
    monotonic_s: Callable[[], float]
    lag_max_s: float = 10.0
    stall_s: float = 60.0
    faults: FaultPoints = field(default_factory=NoFaults)


class Worker:
    """Runs until it is told to stop, or something ends it. `make_source` makes the ticks' source of a partition."""

    def __init__(
        self, options: WorkerOptions, make_source: Callable[[int], TickSource], metrics: WorkerMetrics
    ) -> None:
        self._options = options
        self._make_source = make_source
        self._metrics = metrics
        self.assignments = Assignments(options.names, self._make_owner, self._fail)
        self._app = build_app(Group(options.group, options.access, options.names, self.assignments, options.clock))
        self._offsets = LogOffsets(partial(open_consumer, options.access))
        self._memory = MemoryReader(partial(open_consumer, options.access), self._offsets)
        self._failure: asyncio.Future[None] | None = None
        self._observe()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then give all partitions back.

        Raises WorkerStuckError, PartitionsChangedError, SplitAssignmentError, UnreadableMemoryError, KafkaError when
        Kafka is out of reach at the start or the group refuses us for good, and whatever a bug of ours raises.
        """
        self._failure = asyncio.get_running_loop().create_future()
        await self._offsets.start()
        try:
            partitions = await self._offsets.partition_counts(
                [self._options.names.real(topic) for topic in (*INPUT_TOPICS, "controllers")]
            )
        except BaseException:
            await self._offsets.stop()
            raise
        watchdog = Watchdog(
            self.assignments, self._offsets, partitions, self._options.stall_s, self._options.monotonic_s
        )
        parts = {
            asyncio.create_task(self._run_app(), name="faust"),
            asyncio.create_task(self.assignments.idle_forever(), name="idle"),
            asyncio.create_task(watchdog.watch(), name="watchdog"),
            asyncio.create_task(self._watch_group(), name="group"),
            asyncio.create_task(_wait_for(stop), name="stop"),
            asyncio.ensure_future(self._failure),
        }
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self.assignments.revoke()
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
            await self._stop_clients()
        for part in done:
            part.result()

    def why_not_ready(self) -> str | None:
        """What stands between this worker and being ready; null where nothing does."""
        return self.assignments.why_not_ready(self._options.lag_max_s)

    async def _stop_clients(self) -> None:
        """Leave the group, so that others have the partitions at once; a Kafka that is away is not waited for."""
        stopping = {asyncio.create_task(self._app.stop()), asyncio.create_task(self._offsets.stop())}
        await asyncio.wait(stopping, timeout=STOP_TIMEOUT_S)

    async def _run_app(self) -> None:
        await self._app.start()
        await self._app.wait_until_stopped()
        reason = self._app.crash_reason
        raise RuntimeError("Faust ended by itself") if reason is None else reason

    async def _watch_group(self) -> None:
        while True:
            await asyncio.sleep(GROUP_LOOK_S)
            try:
                await self._app.reader.check_group()
            except REFUSALS:
                raise
            except KafkaError as error:
                log.warning("group_error", error=repr(error))

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    def _make_owner(self, partition: int) -> PartitionOwner:
        options = self._options
        transactions = PartitionTransactions(
            partition, f"{options.group.app}-{partition}", partial(open_producer, options.access), options.faults
        )
        ports = OwnerPorts(
            names=options.names,
            reader=self._app.reader,
            offsets=self._offsets,
            memory=self._memory,
            clock=options.clock,
            faults=options.faults,
            metrics=self._metrics,
            fail=self._fail,
        )
        return PartitionOwner(partition, self._make_source, transactions, ports)

    def _observe(self) -> None:
        self._metrics.observe_gauge(
            "headrace_partition_lag_seconds", "s", "telemetry not worked on yet, by partition", self._lags
        )
        self._metrics.observe_gauge(
            "headrace_partition_unread", "1", "messages not read yet, by partition and topic", self._unread
        )
        self._metrics.observe_gauge("headrace_partitions_by_state", "1", "partitions held, by state", self._states)
        self._metrics.observe_gauge("headrace_window_series", "1", "series in the windows, by partition", self._series)
        self._metrics.observe_gauge("headrace_window_memory", "By", "of the windows, by partition", self._window_bytes)
        self._metrics.observe_gauge("headrace_sources_off", "1", "sources with clocks that are off", self._sources_off)

    def _lags(self) -> Iterable[tuple[float, Mapping[str, str]]]:
        for partition, owner in list(self.assignments.owners.items()):
            lag_s = owner.lag_s
            if lag_s is not None:
                yield lag_s, {"partition": str(partition)}

    def _unread(self) -> Iterable[tuple[float, Mapping[str, str]]]:
        for partition, owner in list(self.assignments.owners.items()):
            for topic, unread in owner.unread_records().items():
                yield unread, {"partition": str(partition), "topic": topic}

    def _states(self) -> Iterable[tuple[float, Mapping[str, str]]]:
        states = [owner.state.value for owner in list(self.assignments.owners.values())]
        for state in sorted(set(states)):
            yield states.count(state), {"state": state}

    def _series(self) -> Iterable[tuple[float, Mapping[str, str]]]:
        for partition, owner in list(self.assignments.owners.items()):
            yield owner.size.series, {"partition": str(partition)}

    def _window_bytes(self) -> Iterable[tuple[float, Mapping[str, str]]]:
        for partition, owner in list(self.assignments.owners.items()):
            yield owner.size.window_bytes, {"partition": str(partition)}

    def _sources_off(self) -> Iterable[tuple[float, Mapping[str, str]]]:
        totals: Counter[str] = Counter()
        for owner in list(self.assignments.owners.values()):
            totals.update(owner.size.sources_off)
        for state, total in sorted(totals.items()):
            yield total, {"state": state}


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()
