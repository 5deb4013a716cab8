"""The frame of every long-running process: settings in, signals, logs, health and metrics around, an exit code out."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from headrace.clock import Clock
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.health import Health, HealthServer
from headrace.logs import configure_logs
from headrace.settings import ProcessSettings
from headrace.standard_output import OutputLostError, output_lost
from headrace.telemetry import Metrics
from headrace.variables import unread

log = structlog.get_logger("headrace.process")

S = TypeVar("S", bound=ProcessSettings)


@dataclass(frozen=True, kw_only=True)
class Process(Generic[S]):
    """What a process's main coroutine is given. It returns soon after `stop` is set (SIGTERM or SIGINT)."""

    name: str
    settings: S
    clock: Clock
    health: Health
    stop: asyncio.Event


Main = Callable[[Process[S]], Awaitable[ExitCode | None]]


def run_process(name: str, settings: S, main: Main[S]) -> ExitCode:
    """Run `main` until it returns, with /healthz, /readyz and /metrics served beside it; the exit code.

    The first SIGTERM or SIGINT sets `process.stop`; a second one ends the process at once with 130. CannotRunError
    becomes its message on stderr, any other exception a logged traceback and BUG.
    """
    configure_logs(settings, name)
    if strange := unread(os.environ):
        log.warning("unread_variables", names=strange)
    try:
        clock = Clock.from_environment()
        with asyncio.Runner() as runner:
            code = runner.run(_run(name, settings, clock, main))
    except CannotRunError as error:
        error.tell()
        code = error.code
    except OutputLostError as error:
        told = output_lost(error)
        told.tell()
        code = told.code
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except Exception:
        log.exception("process_failed")
        code = ExitCode.BUG
    log.info("process_ended", exit_code=int(code))
    return code


async def _run(name: str, settings: S, clock: Clock, main: Main[S]) -> ExitCode:
    health = Health(name)
    process = Process(name=name, settings=settings, clock=clock, health=health, stop=asyncio.Event())
    metrics = Metrics(name)
    try:
        async with HealthServer(settings, health, metrics.registry):
            with _signals_set(process.stop):
                return await main(process) or ExitCode.OK
    finally:
        await asyncio.to_thread(metrics.stop)


async def until_stopped(process: Process[S], work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends (its exception is raised here) or `process.stop` is set (it is then cancelled)."""
    working = asyncio.create_task(work)
    stopped = asyncio.create_task(process.stop.wait())
    try:
        await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        working.cancel()
        (ended,) = await asyncio.gather(working, return_exceptions=True)
    if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
        raise ended


@contextlib.contextmanager
def _signals_set(stop: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set `stop`; once it is set they end the process at once."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def ask_to_stop(number: signal.Signals) -> None:
        if stop.is_set():
            # Stopping in order takes too long for whoever asks again. Child processes end with this one.
            log.warning("stopped_at_once", signal=number.name)
            os._exit(ExitCode.INTERRUPTED)
        stop.set()
        log.info("stop_asked", signal=number.name)

    for number in signals:
        loop.add_signal_handler(number, ask_to_stop, number)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
