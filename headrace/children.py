"""Several child processes as one: started in order, watched, ended in the reverse order.

A child is not restarted: one that ends unexpectedly ends the whole, and is named with its status and its log. Each
Headrace child tells where its /readyz is by a file, so its port may be any.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import structlog

from headrace.clock import monotonic_s
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.leash import spawn_leashed

_POLL_S = 0.05
_LAST_LINES = 12

log = structlog.get_logger("headrace.children")


@dataclass(frozen=True, kw_only=True)
class Child:
    """One started process. `health_file` gets the address of its health server once that is served."""

    name: str
    process: subprocess.Popen[bytes]
    log_path: Path
    health_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def health_address(self) -> str | None:
        """HOST:PORT, None until it is served."""
        try:
            return self.health_file.read_text().strip()
        except FileNotFoundError:
            return None

    def last_lines(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join(f"  {line}" for line in lines) or "  (nothing was written)"

    def ended_message(self) -> str:
        return (
            f"{self.name} ended unexpectedly with {_status_text(self.process.poll())}; its log: {self.log_path}; "
            f"the last lines:\n{self.last_lines()}"
        )


class Children:
    """An asynchronous context that ends all its children when it is left.

    `logs` is the folder for `NAME.log` and `NAME.health`; `stop_s` is how long all together have to end after SIGTERM
    before SIGKILL.
    """

    def __init__(self, logs: Path, stop_s: float = 20.0) -> None:
        self._logs = logs
        self._stop_s = stop_s
        self._children: list[Child] = []

    @property
    def running(self) -> tuple[Child, ...]:
        return tuple(child for child in self._children if child.process.poll() is None)

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Child:
        """Start one; `env` is added to this process's environment. Raises CannotRunError where it cannot be logged."""
        log_path, health_file = self._logs / f"{name}.log", self._logs / f"{name}.health"
        told = {"HEADRACE_HEALTH_FILE": str(health_file), "HEADRACE_HEALTH_PORT": "0"}
        try:
            self._logs.mkdir(parents=True, exist_ok=True)
            health_file.unlink(missing_ok=True)
            with log_path.open("wb") as output:
                process = spawn_leashed(argv, output, env={**os.environ, **told, **(env or {})})
        except OSError as error:
            raise CannotRunError(f"{name} cannot be started: {error}", ExitCode.STORAGE) from error
        child = Child(name=name, process=process, log_path=log_path, health_file=health_file)
        self._children.append(child)
        log.info("child_started", child=name, pid=child.pid, log=str(log_path))
        return child

    def adopt(self, name: str, process: subprocess.Popen[bytes], log_path: Path) -> Child:
        """Watch and end a process that somebody else started; it has no health server."""
        child = Child(name=name, process=process, log_path=log_path, health_file=self._logs / f"{name}.health")
        self._children.append(child)
        return child

    async def wait_ready(self, child: Child, timeout_s: float = 120.0) -> None:
        """Return when its /readyz answers 200. Raises CannotRunError when a child ends first, or time is up."""
        deadline_s = monotonic_s() + timeout_s
        told = "it has not told its address"
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            while monotonic_s() < deadline_s:
                self.raise_ended()
                if address := child.health_address:
                    problems = await _not_ready(session, address)
                    if problems is None:
                        return
                    told = problems
                await asyncio.sleep(_POLL_S)
        raise CannotRunError(
            f"{child.name} was not ready within {timeout_s:g} s: {told}; its log: {child.log_path}",
            ExitCode.CHILD_ENDED,
        )

    async def watch(self) -> None:
        """Return never: raise CannotRunError (CHILD_ENDED) as soon as one has ended. Cancel it to go on."""
        while True:
            self.raise_ended()
            await asyncio.sleep(_POLL_S)

    def raise_ended(self) -> None:
        """Raise CannotRunError (CHILD_ENDED) with the name, status and log of the first child that has ended."""
        for child in self._children:
            if child.process.poll() is not None:
                raise CannotRunError(child.ended_message(), ExitCode.CHILD_ENDED)

    async def end(self, child: Child, how: signal.Signals = signal.SIGTERM) -> int:
        """End one on purpose; it is not watched any more. Its exit status."""
        self._children.remove(child)
        child.process.send_signal(how)
        return await asyncio.to_thread(_wait, child, self._stop_s)

    async def end_all(self) -> None:
        """SIGTERM to each, the last started first, each after the one before has ended; SIGKILL when time is up."""
        deadline_s = monotonic_s() + self._stop_s
        while self._children:
            child = self._children.pop()
            if child.process.poll() is None:
                child.process.terminate()
                status = await asyncio.to_thread(_wait, child, max(0.5, deadline_s - monotonic_s()))
                log.info("child_ended", child=child.name, status=status)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.shield(self.end_all())


def _wait(child: Child, timeout_s: float) -> int:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return child.process.wait(timeout_s)
    log.warning("child_killed", child=child.name, after_s=timeout_s)
    child.process.kill()
    return child.process.wait()


def _status_text(status: int | None) -> str:
    if status is None:
        return "no status"
    if status < 0:
        return f"signal {signal.Signals(-status).name}"
    known = ExitCode(status).meaning if status in list(ExitCode) else ""
    return f"status {status}" + (f" ({known})" if known else "")


async def _not_ready(session: aiohttp.ClientSession, address: str) -> str | None:
    """None when ready, else what it says stands in the way."""
    try:
        async with session.get(f"http://{address}/readyz") as answer:
            told = await answer.json()
    except (aiohttp.ClientError, TimeoutError) as error:
        return f"/readyz at {address}: {error!r}"
    return None if answer.status == 200 else str(told["problems"])
