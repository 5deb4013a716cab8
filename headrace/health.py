"""/healthz, /readyz and /metrics of one process."""

from types import TracebackType
from typing import Self

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from headrace.address_file import write_address
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.few_connections import listen
from headrace.host_name import url_host
from headrace.settings import ProcessSettings

log = structlog.get_logger("headrace.health")


class Health:
    """What this process says about itself: named conditions, each with the reason why it does not hold.

    Ready (/readyz) needs every expected condition met: one that is not gets no work. Alive (/healthz) is who answers at
    all: a process that is stuck ends itself, which tells whoever runs it more than an answer here.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._waiting: dict[str, str] = {}

    def expect(self, condition: str, why: str) -> None:
        """Not ready until `meet(condition)`; `why` is told at /readyz. Again later: no longer ready."""
        self._waiting[condition] = why

    def meet(self, condition: str) -> None:
        self._waiting.pop(condition, None)

    def hold(self, condition: str, why_not: str | None) -> None:
        """`meet` where there is no reason against it, else `expect`."""
        if why_not is None:
            self.meet(condition)
        else:
            self.expect(condition, why_not)

    @property
    def waiting(self) -> dict[str, str]:
        """What stands between the process and work."""
        return dict(self._waiting)


class HealthServer:
    """Serves `health` and the registry's metrics while its context lasts.

    `address` is HOST:PORT, known inside the context; it is logged, and written to `health_file` where that is set.
    Raises CannotRunError where the port cannot be had.
    """

    def __init__(self, settings: ProcessSettings, health: Health, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._health = health
        self._registry = registry
        self.address = ""

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await self._runner.setup()
        host, port = self._settings.health_host, self._settings.health_port
        assert self._runner.server is not None, "it has been set up"
        try:
            self._listening = await listen(self._runner.server, host, port)
        except OSError as error:
            await self._runner.cleanup()
            message = f"--health-port: {host}:{port} cannot be used: {error.strerror or error}"
            raise CannotRunError(message, ExitCode.UNAVAILABLE) from error
        self.address = f"{url_host(host)}:{self._listening.sockets[0].getsockname()[1]}"
        log.info("health_served", address=self.address)
        write_address(self._settings.health_file, self.address, "--health-file")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        await self._runner.cleanup()
        if self._settings.health_file is not None:
            self._settings.health_file.unlink(missing_ok=True)

    async def _healthz(self, _: web.Request) -> web.Response:
        return _answer(self._health.name, {})

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self._health.name, self._health.waiting)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


def _answer(name: str, problems: dict[str, str]) -> web.Response:
    body = {"process": name, "ok": not problems, "problems": problems}
    return web.json_response(body, status=503 if problems else 200)
