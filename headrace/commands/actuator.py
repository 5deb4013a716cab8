"""`headrace actuator`: carry out decisions, one command for each kind of scale target."""

import asyncio
import os
import socket
import zlib
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

import numpy as np
import structlog
from aiokafka.errors import InvalidSessionTimeoutError, KafkaError
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from actuators.actuator import Actuator, ActuatorOptions, TopicsMissingError
from actuators.fleet_api import CALL_S, FleetApi
from actuators.retries import Backoff
from actuators.tenure import DECISIONS, ActuatorStuckError
from actuators.verdicts import Limits
from actuators.watched_port import WatchedPort
from headrace.clock import monotonic_s
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import new_app, settings_command
from headrace.kafka_door import enter, turned_away
from headrace.kafka_reach import KafkaReach
from headrace.process import Process, run_process
from headrace.session_timeouts import session_timeout_told
from headrace.settings import KafkaSettings, ProcessSettings
from wire.acls import Groups, Role, rights_of
from wire.hosts import is_host

HELP = """Carry out scaling decisions: read `decisions.scaling`, change the scale targets, write `outcomes`.

The newest decision of an endpoint is carried out, once, by compare-and-set: an actuator that was paused cannot undo
what another one did meanwhile. Every decision that is no hold gets an outcome, whatever came of it.

One command for each kind of scale target:

    headrace actuator fleet --api URL      the fleet of `headrace fleet`
"""

app = new_app(HELP)
log = structlog.get_logger("headrace.actuator")

_LIMITS, _BACKOFF = Limits(), Backoff()
_HEALTH_EVERY_S = 0.5
_LOOK_EVERY_S = 1.0


@app.callback()
def _commands() -> None:
    """Keep `fleet` a command of its own while it is the only one."""


class ActuatorSettings(KafkaSettings, ProcessSettings):
    """What the actuators of all kinds of target share."""

    section: ClassVar[str] = "actuator"

    name: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        pattern="^[a-zA-Z0-9._-]+$",
        description="Who it is, in outcomes and to the scale targets; actuators of one name share the endpoints. "
        "Default: the kind of target, with -dry-run after it where that is set.",
    )
    group: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Consumer group; default: headrace-actuator-NAME after the prefix.",
    )
    dry_run: bool = Field(
        False, description="Read decisions and targets, and write outcomes `dry_run`; change nothing."
    )
    decision_age_seconds: float = Field(
        _LIMITS.age_max_s,
        gt=0,
        le=3600,
        description="A decision is carried out until it is this old, in event time. The worker repeats one for 60 s.",
    )
    attempts: int = Field(
        _BACKOFF.attempts, ge=1, le=1000, description="Most attempts of one decision; the pauses between them double."
    )
    session_timeout_seconds: float = Field(
        8.0,
        ge=1,
        le=300,
        description="After this long without a sign of life an actuator's partitions move to others. "
        "Kafka refuses less than its group.min.session.timeout.ms (6 s by default).",
    )

    def name_for(self, kind: str) -> str:
        """What it calls itself. A dry run under the name of one that acts would take endpoints away from it."""
        return self.name or (f"{kind}-dry-run" if self.dry_run else kind)

    def options(self, kind: str, process: Process[Any]) -> ActuatorOptions:
        clock, name = process.clock, self.name_for(kind)
        # Two actuators must not pause for the same times: they would meet again and again.
        seed = zlib.crc32(f"{name}/{socket.gethostname()}/{os.getpid()}".encode())
        return ActuatorOptions(
            access=self.access(f"headrace-actuator-{name}"),
            names=self.topic_names,
            name=name,
            group=self.group,
            clock=clock.now_s,
            monotonic_s=monotonic_s,
            rng=np.random.default_rng(seed),
            limits=Limits(age_max_s=self.decision_age_seconds, dry_run=self.dry_run),
            backoff=Backoff(attempts=self.attempts),
            session_s=self.session_timeout_seconds,
            timestamp_s=None if clock.is_real else clock.now_s,
        )


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_good = (
            parts.scheme in ("http", "https")
            and is_host(parts.hostname or "")
            and (parts.port is None or parts.port > 0)
        )
        is_good = is_good and not (parts.query or parts.fragment) and url.isprintable() and " " not in url
    except ValueError:
        is_good = False
    if not is_good:
        raise PydanticCustomError("url", "http:// or https:// with a host, without ? and #")
    return url


class FleetActuatorSettings(ActuatorSettings):
    section: ClassVar[str] = "actuator_fleet"

    api: Annotated[str, AfterValidator(_checked)] = Field(
        description="URL of the fleet's scale API; `headrace fleet` logs it, and writes it to its --api-file."
    )
    call_timeout_seconds: float = Field(
        CALL_S, gt=0, le=60, description="How long the API has for an answer, real seconds."
    )


@settings_command(
    app,
    FleetActuatorSettings,
    name="fleet",
    exits=[ExitCode.UNAVAILABLE, ExitCode.REFUSED, ExitCode.PARTITIONS, ExitCode.STUCK],
)
def fleet(settings: FleetActuatorSettings) -> ExitCode:
    r"""Carry out decisions on the simulated fleet, until Ctrl-C or SIGTERM.

    Start one more and they share the endpoints. Killed at any moment, the next one goes on: what was carried out is
    found on the target, and nothing is done twice. SIGTERM finishes calls under way and writes their outcomes.

    Endpoints in mode `advise` are never changed. To look on without changing anything at all, give --dry-run.

    Examples:
        headrace fleet --bootstrap 127.0.0.1:9092 \
            --scenario fleet.yaml --api-port 8090
        headrace actuator fleet --bootstrap 127.0.0.1:9092 \
            --api http://127.0.0.1:8090
    """
    return run_process("actuator", settings, _serve_fleet)


async def _serve_fleet(process: Process[FleetActuatorSettings]) -> None:
    settings = process.settings
    async with FleetApi(settings.api, settings.call_timeout_seconds) as api:
        port = WatchedPort(api)
        options = settings.options("fleet", process)
        watching = asyncio.create_task(_watch_target(api, port, options.name))
        try:
            await _serve(process, options, port)
        finally:
            watching.cancel()


async def _watch_target(api: FleetApi, port: WatchedPort, name: str) -> None:
    """Until a first answer nobody knows whether the address is right; after it the calls tell, and what ails them is
    looked at again, as the next call may be far off."""
    said = None
    port.why_not = "not asked yet"
    while True:
        if port.why_not is not None:
            port.why_not = await api.reach(name)
        if port.why_not != said:
            say = log.info if port.why_not is None else log.warning
            say("target_changed", error=port.why_not)
            said = port.why_not
        await asyncio.sleep(_LOOK_EVERY_S)


async def _serve(process: Process[Any], options: ActuatorOptions, port: WatchedPort) -> None:
    settings = process.settings
    rights = rights_of(Role.ACTUATOR, options.names, Groups(actuator=options.group_id))
    process.health.expect("partitions", "not assigned yet")
    await enter(options.access, rights)
    running = Actuator(options, port)
    reach = KafkaReach(options.access, options.names.real(DECISIONS))
    beside = [asyncio.create_task(_tell_health(process, running, port, reach)), asyncio.create_task(reach.watch())]
    try:
        await running.run(process.stop)
    except TopicsMissingError as error:
        raise CannotRunError(str(error), ExitCode.PARTITIONS) from error
    except ActuatorStuckError as error:
        raise CannotRunError(str(error), ExitCode.STUCK) from error
    except InvalidSessionTimeoutError as error:
        told = await session_timeout_told(options.access, settings.session_timeout_seconds)
        raise CannotRunError(told) from error
    except KafkaError as error:
        raise await turned_away(options.access, rights, error, "the actuator") from error
    finally:
        for task in beside:
            task.cancel()


async def _tell_health(process: Process[Any], running: Actuator, port: WatchedPort, reach: KafkaReach) -> None:
    while True:
        process.health.hold("partitions", running.why_not_ready())
        process.health.hold("kafka", reach.why_not())
        process.health.hold("target", port.why_not)
        await asyncio.sleep(_HEALTH_EVERY_S)
