"""`headrace sink`: keep every topic in its Delta table."""

import asyncio
import hashlib
from typing import Annotated, ClassVar

from aiokafka.errors import InvalidSessionTimeoutError, KafkaError
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from headrace.clock import monotonic_s
from headrace.commands.table_settings import TablesSettings
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import new_app, settings_command
from headrace.kafka_door import enter, turned_away
from headrace.kafka_reach import KafkaReach
from headrace.nearest import did_you_mean
from headrace.process import Process, run_process
from headrace.session_timeouts import session_timeout_told
from headrace.setting_checks import check
from headrace.settings import KafkaSettings, ProcessSettings
from sinks.buffers import FlushRules
from sinks.errors import SourceError, StorageError, StuckError
from sinks.sink import DeltaSink, SinkPlan
from wire.acls import Groups, Role, rights_of
from wire.groups import sink_group
from wire.topics import TOPICS

app = new_app()

_RULES = FlushRules()
_HEALTH_EVERY_S = 1.0


def _split(given: object) -> object:
    parts = given if isinstance(given, list) else [given]
    return tuple(name for part in parts for name in (part.split(",") if isinstance(part, str) else [part]))


def _known(topics: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [f"not {name}{did_you_mean(name, list(TOPICS))}" for name in topics if name not in TOPICS]
    if unknown:
        raise PydanticCustomError("topics", "names of topics, {unknown}", {"unknown": "; ".join(unknown)})
    return topics


class SinkSettings(KafkaSettings, TablesSettings, ProcessSettings):
    section: ClassVar[str] = "sink"

    topics: Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_known)] | None = Field(
        None, description="What to keep, names without the prefix, with commas between; default: all topics."
    )
    group: str | None = Field(
        None, min_length=1, description="Consumer group; default: one for each address of tables. Sinks share its load."
    )
    flush_seconds: float = Field(
        _RULES.age_max_s, ge=0.1, le=3600, description="Longest time from reading a record to its commit."
    )
    flush_messages: int = Field(
        _RULES.messages_max, ge=1, le=10_000_000, description="Messages of one topic that are committed at once."
    )
    flush_bytes: int = Field(_RULES.bytes_max, ge=2**10, description="Bytes of one topic that are committed at once.")
    memory_bytes: int = Field(
        _RULES.memory_bytes_max, ge=2**10, description="Most bytes that are read and not committed; then reading waits."
    )
    threads: int = Field(2, ge=1, le=64, description="Topics that are decoded and written at the same time.")
    session_timeout_seconds: float = Field(
        10.0,
        ge=1,
        le=300,
        description="After this long without a sign of life a sink's partitions move to others. "
        "Kafka refuses less than its group.min.session.timeout.ms (6 s by default).",
    )
    ready_lag: int = Field(10_000, ge=0, description="Most unread records with which /readyz says ready.")

    @check("memory_bytes", "flush_bytes")
    def _memory_holds_a_flush(self) -> list[str]:
        if self.memory_bytes >= self.flush_bytes:
            return []
        return [f"--memory-bytes: {self.memory_bytes}, allowed: --flush-bytes ({self.flush_bytes}) or more"]

    def plan(self) -> SinkPlan:
        """Two addresses of tables never share a group: each would get half of the records."""
        address = hashlib.sha256(self.root.uri("").encode()).hexdigest()[:12]
        return SinkPlan(
            access=self.access("headrace-sink"),
            root=self.root,
            monotonic_s=monotonic_s,
            names=self.topic_names,
            topics=self.topics or tuple(TOPICS),
            group=self.group or sink_group(self.topic_names, address),
            rules=FlushRules(
                age_max_s=self.flush_seconds,
                messages_max=self.flush_messages,
                bytes_max=self.flush_bytes,
                memory_bytes_max=self.memory_bytes,
            ),
            threads=self.threads,
            session_s=self.session_timeout_seconds,
        )


@settings_command(
    app,
    SinkSettings,
    name="sink",
    exits=[ExitCode.UNAVAILABLE, ExitCode.REFUSED, ExitCode.PARTITIONS, ExitCode.STORAGE, ExitCode.STUCK],
)
def sink(settings: SinkSettings) -> ExitCode:
    """Write every topic into its Delta table, each record once, until Ctrl-C or SIGTERM.

    Records are in their table some ten seconds after they were produced; what cannot be read is in `deadletters`.
    Killed at any moment, started again, or started twice, it goes on from what the tables have. On SIGTERM it commits
    what it has read. A full disk or a missing folder ends it with a message; nothing is lost by that.

    Example:
        mkdir -p tables
        headrace sink --bootstrap 127.0.0.1:9092 --tables tables
    """
    return run_process("sink", settings, _serve)


async def _serve(process: Process[SinkSettings]) -> None:
    settings = process.settings
    plan = settings.plan()
    rights = rights_of(Role.SINK, plan.names, Groups(sink=plan.group), plan.topics)
    process.health.expect("partitions", "not assigned yet")
    await enter(plan.access, rights)
    running = DeltaSink(plan)
    reach = KafkaReach(settings.access("headrace-sink"), settings.topic_names.real("policies"))
    beside = [asyncio.create_task(_tell_health(process, running, reach)), asyncio.create_task(reach.watch())]
    try:
        await running.run(process.stop)
    except StorageError as error:
        raise CannotRunError(error.message, ExitCode.STORAGE) from error
    except SourceError as error:
        raise CannotRunError(error.message, ExitCode.PARTITIONS) from error
    except StuckError as error:
        raise CannotRunError(error.message, ExitCode.STUCK) from error
    except InvalidSessionTimeoutError as error:
        told = await session_timeout_told(settings.access("headrace-sink"), settings.session_timeout_seconds)
        raise CannotRunError(told) from error
    except KafkaError as error:
        raise await turned_away(settings.access("headrace-sink"), rights, error, "the sink") from error
    finally:
        for task in beside:
            task.cancel()


async def _tell_health(process: Process[SinkSettings], running: DeltaSink, reach: KafkaReach) -> None:
    while True:
        process.health.hold("partitions", _why_behind(running.lag, process.settings.ready_lag))
        process.health.hold("kafka", reach.why_not())
        await asyncio.sleep(_HEALTH_EVERY_S)


def _why_behind(lag: int | None, limit: int) -> str | None:
    if lag is None:
        return "not assigned, or not in place yet"
    return None if lag <= limit else f"{lag} records not read yet, ready at {limit}"
