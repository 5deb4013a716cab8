"""The live source: one engine's `/metrics` and `/health`, each asked once a second.

Whatever an engine answers ends in an Answer: refused, too late, too long, a redirect, no HTTP at all.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import floor
from typing import Protocol

import aiohttp

from collectors.answers import Answer, Path

TIMEOUT_S = 5.0
BODY_BYTES_MAX = 4 * 1024 * 1024
"""vLLM's answer has 50 KB, with eight data-parallel ranks 350 KB."""

METRICS_PHASE_S = 0.5
"""In the middle of its second: delayed by up to half a second, a scrape is still in it, and its gauges speak for it."""
HEALTH_PHASE_S = 0.0
"""`/health` begins the next second: its answer lets the sample of the second before go."""
STAGGER_S = 0.2
"""Replicas of one collector are asked one after the other within this time."""

_CHUNK_BYTES = 64 * 1024
_HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"}
_PROCESS_MARK = "Process-Start-Time-Unix"
"""llama.cpp's header: the monotonic clock at its start, so no date, but another one for every process."""


class Clock(Protocol):
    """The time that answers are stamped with, and that the asking is paced by."""

    def now_s(self) -> float:
        """UNIX seconds."""

    async def sleep(self, span_s: float) -> None:
        """Wait for this many of the clock's seconds."""


@dataclass(frozen=True, kw_only=True)
class ScrapeSettings:
    """How long and how much: `timeout_s` is in real seconds, whatever the clock."""

    timeout_s: float = TIMEOUT_S
    body_bytes_max: int = BODY_BYTES_MAX
    api_key: str | None = None


Emit = Callable[[str, Answer], None]
"""Takes the name of a replica and its answer."""


class Scraper:
    """Asks the engines; `clock` says when it is, and what time an answer was there."""

    def __init__(self, session: aiohttp.ClientSession, settings: ScrapeSettings, clock: Clock) -> None:
        self._session = session
        self._settings = settings
        self._clock = clock

    async def watch(self, engines: Mapping[str, str], emit: Emit) -> None:
        """Ask all engines (URL without a slash at its end, by replica) for ever, and hand over every answer.

        Raises what `emit` raises.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for place, (replica, url) in enumerate(engines.items()):
                    for path, phase_s in ((Path.HEALTH, HEALTH_PHASE_S), (Path.METRICS, METRICS_PHASE_S)):
                        later_s = STAGGER_S * place / len(engines)
                        group.create_task(self._ask_forever(replica, url, path, (phase_s + later_s), emit))
        except ExceptionGroup as group_error:
            raise group_error.exceptions[0] from None

    async def ask(self, url: str, path: Path) -> Answer:
        """One GET. Never raises for what the other side does."""
        code, body, mark, failure = None, "", None, None
        try:
            async with self._session.get(url + path, allow_redirects=False) as response:
                if path is Path.METRICS and response.status == 200:
                    body = await self._read(response)
                code, mark = response.status, response.headers.get(_PROCESS_MARK)
        except TimeoutError:
            failure = f"no answer within {self._settings.timeout_s:g} s"
        except _TooLongError:
            failure = f"more than {self._settings.body_bytes_max} bytes"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = f"{type(error).__name__}: {error}"
        return Answer(at_s=self._clock.now_s(), path=path, code=code, failure=failure, body=body, process_mark=mark)

    async def _ask_forever(self, replica: str, url: str, path: Path, phase_s: float, emit: Emit) -> None:
        """At `phase_s` after each whole second; what came due while an answer was out is left out."""
        last = None
        while True:
            now_s = self._clock.now_s()
            turn = floor(now_s - phase_s) + 1
            # a sleep may end a moment early by this clock, and its turn would come again
            turn += turn == last
            last = turn
            await self._clock.sleep(turn + phase_s - now_s)
            emit(replica, await self.ask(url, path))

    async def _read(self, response: aiohttp.ClientResponse) -> str:
        body = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if len(body) > self._settings.body_bytes_max:
                raise _TooLongError
        return body.decode("utf-8", errors="replace")


class _TooLongError(Exception):
    pass


@asynccontextmanager
async def open_scraper(settings: ScrapeSettings, clock: Clock) -> AsyncIterator[Scraper]:
    """A scraper with its HTTP session, closed when the context is left."""
    # a connection a request: engines end kept ones while a client is about to use them, and a stopped one holds them
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    headers = _HEADERS if settings.api_key is None else {**_HEADERS, "Authorization": f"Bearer {settings.api_key}"}
    timeout = aiohttp.ClientTimeout(total=settings.timeout_s)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=headers, auto_decompress=False
    ) as session:
        yield Scraper(session, settings, clock)
