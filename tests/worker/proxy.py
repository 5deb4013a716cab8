"""A TCP proxy before a broker, with bad weather: it delays, holds back, loses and resets what passes through it."""

import asyncio
import contextlib
import socket
import struct
from enum import StrEnum
from types import TracebackType
from typing import Self

CHUNK_BYTES = 64 * 1024
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s: a close is a reset."""


class Weather(StrEnum):
    """What happens to bytes on their way, in both directions."""

    FAIR = "fair"
    SLOW = "slow"
    """Each piece waits for `delay_s`."""
    SILENT = "silent"
    """Nothing passes, and nothing is lost: what was held back goes on in fair weather."""
    LOST = "lost"
    """Bytes vanish and connections stay open, as when the other side is gone: such a connection never works again."""


class Proxy:
    """Listens on `port` of 127.0.0.1 and passes on to `target_port`; an asynchronous context."""

    def __init__(self, port: int, target_port: int, delay_s: float = 0.1) -> None:
        self.weather = Weather.FAIR
        self.port = port
        self.connections = 0
        """That were ever opened."""
        self._target_port = target_port
        self._delay_s = delay_s
        self._fair = asyncio.Event()
        self._fair.set()
        self._links: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.StreamWriter] = set()

    def turn(self, weather: Weather) -> None:
        self.weather = weather
        if weather is Weather.SILENT:
            self._fair.clear()
        else:
            self._fair.set()

    def reset_all(self) -> None:
        """Every connection ends with a reset; new ones are taken."""
        for writer in self._open:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.reset_all()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            self._open |= {writer, far_writer}
            await self._join((reader, far_writer), (far_reader, writer))
            self._open -= {writer, far_writer}
            far_writer.close()
        writer.close()
        self._links.discard(link)

    async def _join(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Until one of them has ended."""
        pumps = {asyncio.create_task(self._pump(*way)) for way in ways}
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_broken = False
        while data := await reader.read(CHUNK_BYTES):
            await self._fair.wait()
            is_broken = is_broken or self.weather is Weather.LOST
            if is_broken:
                continue
            if self.weather is Weather.SLOW:
                await asyncio.sleep(self._delay_s)
            writer.write(data)
            await writer.drain()
