"""Keeps connections that nobody uses from taking the file descriptors that a process needs for Kafka."""

import asyncio

from aiohttp import web

CONNECTIONS_MAX = 32
"""At once, to one port: a few scrapers and probes, each of which asks for milliseconds."""


class NewestConnections:
    """A server's protocols: where a connection would be one too many, the oldest is closed, so that whoever holds many
    open keeps nobody else out."""

    def __init__(self, server: web.Server) -> None:
        self._server = server

    def __call__(self) -> web.RequestHandler:
        # Just before this connection is made: of many that are accepted in one go, none is made yet.
        asyncio.get_running_loop().call_soon(self._make_room)
        return self._server()

    def _make_room(self) -> None:
        is_open = [found for found in self._server.connections if found.transport is not None]
        for oldest in is_open[: max(0, len(is_open) + 1 - CONNECTIONS_MAX)]:
            oldest.force_close()


async def listen(server: web.Server, host: str, port: int) -> asyncio.Server:
    """Serve on a port, 0 for a free one. Raises OSError.

    So many are accepted in one go: asyncio, once it can open no more files, tries and logs each again for ever.
    """
    loop = asyncio.get_running_loop()
    return await loop.create_server(NewestConnections(server), host, port, backlog=CONNECTIONS_MAX)
