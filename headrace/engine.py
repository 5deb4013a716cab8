"""A real llama.cpp server as a child process, for the demo and the tests: real HTTP, real counters, random weights.

Needs the optional extra `engine` (xllamacpp, gguf). llama.cpp prints its counters with six digits: above 999,999 the
ones of a token counter are rounded away, so exact sums need a server that has done less than that.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from headrace.address_file import write_address
from headrace.broker_files import free_port
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.leash import spawn_leashed
from headrace.tiny_model import write_tiny_model

SLOTS = 8
CONTEXT_TOKENS_PER_SLOT = 512
START_TIMEOUT_S = 60.0

_POLL_S = 0.02


class LlamaServer:
    """One server on loopback, with `slots` requests at a time; the others wait in its queue.

    `folder` gets the model, the server's log and its address. Port 0 takes a free one at the first start; a server that
    is started again keeps it, so that its clients see a restart of one replica. It ends with this process, however
    that ends.
    """

    def __init__(self, folder: Path, port: int = 0, slots: int = SLOTS) -> None:
        self._folder = folder
        self._port = port
        self._slots = slots
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, known from the first start on."""
        if self._port == 0:
            raise RuntimeError("the server has not been started yet")
        return f"http://127.0.0.1:{self._port}"

    @property
    def log_path(self) -> Path:
        return self._folder / "llama-server.log"

    @property
    def _address_path(self) -> Path:
        return self._folder / "llama-server.address"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server's process. Raises RuntimeError where none runs."""
        return self._running()

    async def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start it and return when `/health` answers 200.

        Raises CannotRunError where the extra is missing, the port is taken, or it does not answer in `timeout_s`.
        """
        if self.is_running:
            raise RuntimeError("the server is running already")
        model = await asyncio.to_thread(self._prepare)
        self._port = self._port or free_port()
        with self.log_path.open("wb") as log:
            self._process = await asyncio.to_thread(spawn_leashed, self._argv(model), log)
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_listening()
                await self._wait_healthy()
        except TimeoutError:
            self.kill()
            message = f"llama.cpp's server does not answer after {timeout_s:g} s; its log: {self.log_path}"
            raise CannotRunError(message, ExitCode.UNAVAILABLE) from None
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ask it to end, wait, and kill it after `timeout_s`."""
        self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """SIGKILL: what a crash looks like from outside."""
        self._end(signal.SIGKILL, None)

    def freeze(self) -> None:
        """SIGSTOP: connections are accepted by the kernel, and nothing answers."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def _prepare(self) -> Path:
        try:
            import xllamacpp  # noqa: F401  # only to tell before a child fails that the optional extra is missing

            self._folder.mkdir(parents=True, exist_ok=True)
            model = self._folder / "tiny.gguf"
            self._address_path.unlink(missing_ok=True)
            return model if model.exists() else write_tiny_model(model)
        except ImportError as missing:
            message = f"the package {missing.name} is missing: install Headrace with the extra `engine`"
            raise CannotRunError(message, ExitCode.UNAVAILABLE) from None

    def _argv(self, model: Path) -> list[str]:
        return [
            *(sys.executable, "-m", "headrace.engine"),
            *(str(model), str(self._port), str(self._slots), str(self._address_path)),
        ]

    async def _until_listening(self) -> None:
        """Raises CannotRunError with the end of the child's log where it ended instead."""
        while not await asyncio.to_thread(self._address_path.exists):
            if not self.is_running:
                said = await asyncio.to_thread(self.log_path.read_bytes)
                tail = said[-500:].decode(errors="replace").strip()
                raise CannotRunError(f"llama.cpp's server ended at once:\n{tail}", ExitCode.UNAVAILABLE)
            await asyncio.sleep(_POLL_S)

    async def _wait_healthy(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(self.url + "/health") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    if not self.is_running:
                        message = f"llama.cpp's server ended while starting; its log: {self.log_path}"
                        raise CannotRunError(message, ExitCode.UNAVAILABLE) from None
                await asyncio.sleep(_POLL_S)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("the server is not running")
        return self._process

    def _end(self, how: signal.Signals, timeout_s: float | None) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def serve(model: Path, port: int, slots: int, address_file: Path) -> None:
    """Run the server in this process until a signal ends it. One thread: more than one stall it on small machines.

    `address_file` gets its URL once it listens. A line of the log would not do: llama.cpp's logging thread writes a
    line in pieces, and what is printed meanwhile comes between them.
    """
    import xllamacpp  # the optional extra: only the demo and the tests have it

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.endpoint_metrics = True
    params.n_parallel = slots
    params.n_ctx = slots * CONTEXT_TOKENS_PER_SLOT
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.fit_params = False
    server = xllamacpp.Server(params)
    write_address(address_file, server.listening_address, "address file")
    while True:
        signal.pause()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
