"""`headrace worker`: compute signals and decisions of the partitions that the group gives it."""

import asyncio
import gc
from functools import partial
from typing import ClassVar

import structlog
from aiokafka.errors import InvalidSessionTimeoutError, KafkaError
from pydantic import Field

from headrace.clock import monotonic_s
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import new_app, settings_command
from headrace.kafka_door import enter, turned_away
from headrace.kafka_reach import KafkaReach
from headrace.loop_watch import LoopWatch
from headrace.process import Process, run_process
from headrace.session_timeouts import session_timeout_told
from headrace.settings import KafkaSettings, ProcessSettings
from streams.shell.assignment import SplitAssignmentError
from streams.shell.controller_source import ControllerSource
from streams.shell.faust_app import GroupOptions
from streams.shell.unreadable_memory import UnreadableMemoryError
from streams.shell.watchdog import PartitionsChangedError, WorkerStuckError
from streams.shell.worker import Worker, WorkerOptions
from streams.shell.worker_metrics import WorkerMetrics
from wire.acls import Groups, Right, Role, rights_of, topics_of
from wire.admin import list_topics, topic_problems
from wire.groups import worker_group
from wire.topic_times import timestamp_problems

app = new_app()

log = structlog.get_logger("headrace.worker")

BLOCKED_STALLS = 5
"""A loop may be busy for long with the ticks of an outage of hours; others have its partitions if it is."""
_HEALTH_EVERY_S = 0.5
_GC_THRESHOLDS = (50_000, 20, 50)
"""Of Python's garbage collector: a poll makes thousands of records that are freed by their reference counts, and
looking for circles among them every 700 objects takes a tenth of the worker's time."""


class WorkerSettings(KafkaSettings, ProcessSettings):
    section: ClassVar[str] = "worker"

    group: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Consumer group, and begin of the transactional ids; default: headrace-worker after the prefix. "
        "All workers of one group share the partitions; two groups on the same topics would decide everything twice.",
    )
    session_timeout_seconds: float = Field(
        8.0,
        ge=1,
        le=300,
        description="After this long without a sign of life a worker's partitions move to others. "
        "Kafka refuses less than its group.min.session.timeout.ms (6 s by default).",
    )
    ready_lag_seconds: float = Field(
        10.0, gt=0, le=86_400, description="Most seconds of telemetry not yet worked on with which /readyz says ready."
    )
    stall_seconds: float = Field(
        60.0, ge=1, le=86_400, description="Without any progress for this long, although there is work, it ends."
    )

    @property
    def rights(self) -> tuple[Right, ...]:
        """What it needs of Kafka."""
        return rights_of(Role.WORKER, self.topic_names, Groups(worker=self.group))

    def options(self, process: "Process[WorkerSettings]") -> WorkerOptions:
        return WorkerOptions(
            access=self.access("headrace-worker"),
            names=self.topic_names,
            group=GroupOptions(
                app=self.group or worker_group(self.topic_names), session_timeout_s=self.session_timeout_seconds
            ),
            clock=process.clock.steady(),
            monotonic_s=monotonic_s,
            lag_max_s=self.ready_lag_seconds,
            stall_s=self.stall_seconds,
        )


@settings_command(
    app,
    WorkerSettings,
    name="worker",
    exits=[
        ExitCode.UNAVAILABLE,
        ExitCode.REFUSED,
        ExitCode.PARTITIONS,
        ExitCode.STUCK,
        ExitCode.UNREADABLE,
        ExitCode.BUG,
    ],
)
def worker(settings: WorkerSettings) -> ExitCode:
    """Compute windows, signals and decisions of some partitions, until Ctrl-C or SIGTERM.

    Start as many as there are partitions, on any number of machines: Kafka divides the endpoints among them. Killed at
    any moment, its partitions move to others, which go on exactly where it was: every tick is decided once.

    Example:
        headrace worker --bootstrap 127.0.0.1:9092
    """
    return run_process("worker", settings, _serve)


async def _serve(process: Process[WorkerSettings]) -> None:
    process.health.expect("partitions", "not assigned yet")
    await enter(process.settings.access("headrace-worker"), process.settings.rights)
    try:
        partitions = await _checked_partitions(process.settings)
        await _work(process, partitions)
    except InvalidSessionTimeoutError as error:
        settings = process.settings
        told = await session_timeout_told(settings.access("headrace-worker"), settings.session_timeout_seconds)
        raise CannotRunError(told) from error
    except KafkaError as error:
        settings = process.settings
        raise await turned_away(settings.access("headrace-worker"), settings.rights, error, "the worker") from error
    except (SplitAssignmentError, PartitionsChangedError) as error:
        raise CannotRunError(f"{error} (hint: headrace topics check)", ExitCode.PARTITIONS) from error
    except UnreadableMemoryError as error:
        raise CannotRunError(str(error), ExitCode.UNREADABLE) from error
    except WorkerStuckError as error:
        raise CannotRunError(str(error), ExitCode.STUCK) from error


async def _checked_partitions(settings: WorkerSettings) -> int:
    """The number of partitions that all inputs share. Raises CannotRunError with every problem of the topics."""
    access, names = settings.access("headrace-worker"), settings.topic_names
    used = topics_of(Role.WORKER)
    found = await list_topics(access, names, used)
    problems = topic_problems(found, names, topics=used)
    if problems:
        raise CannotRunError("\n".join(problems), ExitCode.PARTITIONS)
    for problem in timestamp_problems(found):
        log.warning("topic_stamped_by_senders", problem=problem)
    return next(state.partitions for state in found if state.name == "telemetry.requests")


async def _work(process: Process[WorkerSettings], partitions: int) -> None:
    collect_seldom()
    metrics = WorkerMetrics()
    make_source = partial(_source, partitions, metrics)
    running = Worker(process.settings.options(process), make_source, metrics)
    settings = process.settings
    reach = KafkaReach(settings.access("headrace-worker"), settings.topic_names.real("policies"))
    beside = [asyncio.create_task(_tell_health(process, running, reach)), asyncio.create_task(reach.watch())]
    try:
        with LoopWatch(BLOCKED_STALLS * settings.stall_seconds):
            await running.run(process.stop)
    finally:
        for task in beside:
            task.cancel()


def collect_seldom() -> None:
    """Leave what starting made out of all collections to come, and have few of them."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _source(partitions: int, metrics: WorkerMetrics, partition: int) -> ControllerSource:
    return ControllerSource(partition, partitions, metrics)


async def _tell_health(process: Process[WorkerSettings], running: Worker, reach: KafkaReach) -> None:
    while True:
        process.health.hold("partitions", running.why_not_ready())
        process.health.hold("kafka", reach.why_not())
        await asyncio.sleep(_HEALTH_EVERY_S)
