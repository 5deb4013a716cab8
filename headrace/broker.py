"""A real Apache Kafka on this machine: one KRaft node as a child process, on loopback, in a folder of its own."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from aiokafka.errors import KafkaError

from headrace.broker_classes import archive_option
from headrace.broker_files import BrokerFolder, Ports
from headrace.broker_jars import fetch_jars, find_java
from headrace.clock import monotonic_s
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.leash import run_apart, spawn_leashed
from wire.kafka import KafkaAccess, open_admin, started

HEAP_MB = 320
"""Enough for a thousand partitions and a few MB a second; with the JVM's own about 450 MB resident."""

TRAINING_TIMEOUT_S = 120.0
"""For a first start, and for the end that writes the classes."""

_POLL_S = 0.05
_REQUEST_MS = 2_000


class EmbeddedBroker:
    """One broker on `folder`: data, settings and logs; the same folder gives the same data and ports again.

    `port` 0 keeps the folder's port, or takes a free one the first time. `properties` are added to the server's
    settings, and win. `quick_start` leaves out the optimising compiler: half of the CPU to start, for brokers that live
    for seconds. All methods block (a second or two to start, up to a minute to fetch the jars the first time);
    from a coroutine call them with `asyncio.to_thread`. The broker ends with this process, however that ends.
    """

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = HEAP_MB,
        quick_start: bool = False,
    ) -> None:
        self._files = BrokerFolder(folder.absolute(), dict(properties or {}))
        self._wanted_port = port
        self._heap_mb = heap_mb
        self._quick_start = quick_start
        self._ports: Ports | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        return self._files.folder

    @property
    def log_path(self) -> Path:
        """Kafka's own log; what Java wrote itself is beside it in `broker.out`."""
        return self._files.log

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:PORT`, known from the first start on."""
        if self._ports is None:
            raise RuntimeError("the broker has not been started yet")
        return f"127.0.0.1:{self._ports.clients}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The Java process itself. Raises RuntimeError where none runs."""
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("the broker is not running")
        return self._process

    @property
    def pid(self) -> int:
        """Of the Java process. Raises RuntimeError where none runs."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float = 120.0) -> None:
        """Start it and return when it answers with itself and a leader for every partition.

        Raises CannotRunError, with the log's path and its last lines, where Java, Maven, the port or the folder
        stand in the way, or no answer came within `timeout_s` (which leaves out fetching the jars).
        """
        if self.is_running:
            return
        java, jars = find_java(), fetch_jars()
        archive = archive_option(java, jars, partial(_train, java, jars))
        self._prepare(java, jars, archive)
        self._run(java, jars, archive, timeout_s)

    def _prepare(self, java: Path, jars: Path, archive: Sequence[str]) -> None:
        self._ports = self._files.choose_ports(self._wanted_port)
        for port in self._ports:
            _refuse_taken(port, self.folder)
        self._files.prepare(java, jars, self._ports, archive)

    def _run(self, java: Path, jars: Path, options: Sequence[str], timeout_s: float) -> None:
        deadline_s = monotonic_s() + timeout_s
        self._launch(java, jars, options)
        try:
            self._await_answer(deadline_s, timeout_s)
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout_s: float = 20.0) -> None:
        """End it in order; with SIGKILL where that takes longer than `timeout_s`."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """SIGKILL, as a crash would; returns when the process is gone. `start` goes on from the folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self, timeout_s: float = 120.0) -> None:
        """Stop in order and start again on the same folder and ports."""
        self.stop()
        self.start(timeout_s)

    def wait(self) -> int:
        """Block until the process ends by itself; its exit status (negative: the signal)."""
        return self.process.wait()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers, until `thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, java: Path, jars: Path, chosen: Sequence[str]) -> None:
        heap = [f"-Xms{min(128, self._heap_mb)}m", f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC"]
        compiler = ["-XX:TieredStopAtLevel=1"] if self._quick_start else []
        options = [
            *heap,
            *compiler,
            *chosen,
            "-XX:+ExitOnOutOfMemoryError",
            "-Xss512k",
            "-Djava.awt.headless=true",
            *self._files.logging(),
        ]
        argv = [str(java), *options, "-cp", f"{jars}/*", "kafka.Kafka", str(self._files.settings)]
        with self._files.output.open("wb") as output:
            self._process = spawn_leashed(argv, output, cwd=self.folder)

    def _await_answer(self, deadline_s: float, timeout_s: float) -> None:
        process = self.process
        while process.poll() is None:
            if run_apart(_answers, self.bootstrap):
                return
            if monotonic_s() > deadline_s:
                raise self._failure(f"did not answer on {self.bootstrap} within {timeout_s:g} s")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
        raise self._failure(f"ended with status {process.returncode} before it answered")

    def _failure(self, what: str) -> CannotRunError:
        return CannotRunError(
            f"The embedded broker {what}. Its log: {self.log_path}, Java's output: {self._files.output}; "
            f"the last lines:\n{self._files.last_lines()}",
            ExitCode.UNAVAILABLE,
        )


def _train(java: Path, jars: Path, options: list[str]) -> None:
    """Run a broker for as long as it takes to answer: what it loads goes into the archive of classes."""
    with tempfile.TemporaryDirectory(prefix="headrace-classes-") as folder:
        broker = EmbeddedBroker(Path(folder), quick_start=True)
        broker._prepare(java, jars, ())
        broker._run(java, jars, options, TRAINING_TIMEOUT_S)
        broker.stop(TRAINING_TIMEOUT_S)


def _refuse_taken(port: int, folder: Path) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotRunError(
                f"Port {port} on 127.0.0.1 cannot be used for the embedded broker: {error.strerror}. Does another one "
                f"run on {folder}? End it, or choose another folder with --data. `headrace broker` also takes another "
                "--port; `headrace up` and `headrace demo` use a Kafka that runs already with --bootstrap.",
                ExitCode.UNAVAILABLE,
            ) from error


def _answers(bootstrap: str) -> bool:
    """Whether a broker answers there, lists itself, and leads every partition that it has."""

    async def ask() -> bool:
        access = KafkaAccess(bootstrap=bootstrap)
        async with started(open_admin(access, request_timeout_ms=_REQUEST_MS)) as admin:
            cluster = await admin.describe_cluster()
            topics = await admin.describe_topics()
        leaders = [partition["leader"] for topic in topics for partition in topic["partitions"]]
        return bool(cluster["brokers"]) and min(leaders, default=0) >= 0

    host, port = bootstrap.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
        return asyncio.run(ask())
    except (KafkaError, OSError, TimeoutError):
        return False
