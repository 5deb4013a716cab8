"""An HTTP proxy that lets calls through, but for the one that a test spoils or holds."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.actuators.contract import NOT_DONE, Spoilt

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class SpoilingProxy:
    """Passes whole requests and answers of known length; a connection carries one call.

    `held` is set when a call that `hold_next` waits for has arrived; it goes on after `release`.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname, parts.port)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._spoilt: Spoilt | None = None
        self._over = asyncio.Event()
        self._hold: bytes | None = None
        self._released = asyncio.Event()
        self.held = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def is_listening(self) -> bool:
        return self._server is not None

    async def listen(self) -> None:
        self._over.clear()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._over.set()
        if self._server is not None:
            self._server.close()
            self._server = None

    async def spoil(self, how: Spoilt) -> None:
        """The next call. After NO_CONNECTION `listen` again."""
        self._spoilt = how
        if how is Spoilt.NO_CONNECTION:
            await self.close()

    def hold_next(self, method: str) -> None:
        """Keep the next call of this method from going on, once."""
        self._hold = method.encode()

    def release(self) -> None:
        self._released.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _message(reader)
            if request:
                await self._pass_on(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _pass_on(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        how, self._spoilt = self._spoilt, None
        if self._hold is not None and request.startswith(self._hold):
            self._hold = None
            self.held.set()
            await self._released.wait()
        if how is Spoilt.SILENCE:
            await self._over.wait()
        if how is Spoilt.ERROR:
            writer.write(b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops")
        if how in NOT_DONE:
            return
        answer = await self._answer(request)
        match how:
            case Spoilt.LOST:
                return
            case Spoilt.HALF:
                writer.write(answer[: len(answer) - 20])
            case Spoilt.GARBAGE:
                writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"endpoin')
            case Spoilt.SLOW:
                for byte in answer:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.05)
            case _:
                writer.write(answer)
        await writer.drain()

    async def _answer(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._upstream)
        try:
            writer.write(request)
            return await _message(reader)
        finally:
            writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Head and body; empty where the other side closed before one."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = _LENGTH.search(head)
    return head + (await reader.readexactly(int(length[1])) if length else b"")


@asynccontextmanager
async def proxied(upstream: str) -> AsyncIterator[SpoilingProxy]:
    proxy = SpoilingProxy(upstream)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.close()
