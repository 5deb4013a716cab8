"""Serves the fleet's API on a port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from aiohttp import web

from headrace.address_file import write_address
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.host_name import url_host

log = structlog.get_logger("headrace.fleet")


@dataclass(frozen=True, kw_only=True)
class ApiPlace:
    """Where the API is served: port 0 takes a free one; `file` gets the URL once it is."""

    host: str
    port: int
    file: Path | None


@asynccontextmanager
async def served(app: web.Application, place: ApiPlace) -> AsyncIterator[str]:
    """Serve while the context lasts; its URL. Raises CannotRunError where the port or the file cannot be had."""
    # Bodies are left as they come: one whose compression is broken would be a server's error to aiohttp.
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0, auto_decompress=False)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, place.host, place.port).start()
        except OSError as error:
            message = f"--api-port: {place.host}:{place.port} cannot be used: {error.strerror or error}"
            raise CannotRunError(message, ExitCode.UNAVAILABLE) from error
        url = f"http://{url_host(place.host)}:{runner.addresses[0][1]}"
        write_address(place.file, url, "--api-file")
        log.info("api_served", url=url)
        yield url
    finally:
        await runner.cleanup()
        if place.file is not None:
            place.file.unlink(missing_ok=True)
