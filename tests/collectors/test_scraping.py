"""The live source against servers that misbehave: every answer is an Answer, nothing raises, nothing fills memory."""

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from collectors.answers import Answer, Path
from collectors.scraping import BODY_BYTES_MAX, ScrapeSettings, open_scraper
from collectors.tracker import EngineTracker, Outcome
from headrace.clock import Clock
from tests.collectors.expositions import vllm_body

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(metrics: Handler, health: Handler | None = None) -> AsyncIterator[str]:
    async def healthy(_: web.Request) -> web.StreamResponse:
        return web.Response()

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/health", health or healthy)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def asked(url: str, path: Path = Path.METRICS, timeout_s: float = 30.0, api_key: str | None = None) -> Answer:
    async with open_scraper(ScrapeSettings(timeout_s=timeout_s, api_key=api_key), Clock()) as scraper:
        return await scraper.ask(url, path)


async def test_a_good_answer() -> None:
    async def metrics(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept"].startswith("text/plain")
        return web.Response(text=vllm_body({"length": 1}), headers={"Process-Start-Time-Unix": "77"})

    async with serving(metrics) as url:
        answer = await asked(url)
        health = await asked(url, Path.HEALTH)
    assert (answer.code, answer.failure, answer.process_mark) == (200, None, "77")
    assert answer.body == vllm_body({"length": 1})
    assert (health.code, health.body) == (200, "")


async def test_a_body_of_100_mb_is_given_up_at_the_limit() -> None:
    sent = 0

    async def metrics(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b"x" * 1_000_000)
            sent += 1
        return response

    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with serving(metrics) as url:
        answer = await asked(url)
    assert answer.failure == f"more than {BODY_BYTES_MAX} bytes"
    assert answer.code is None
    assert answer.body == ""
    assert sent < 50, "it hung up"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 60_000


async def test_a_body_that_trickles_is_given_up_in_time() -> None:
    gone = asyncio.Event()

    async def metrics(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"# HELP\n")
        await gone.wait()
        return response

    async with serving(metrics) as url:
        answer = await asked(url, timeout_s=0.2)
        gone.set()
    assert (answer.code, answer.failure) == (None, "no answer within 0.2 s")


async def test_a_redirect_is_not_followed() -> None:
    async def metrics(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/health")

    async with serving(metrics) as url:
        answer = await asked(url)
    assert answer.code == 302
    assert EngineTracker("e", "r").observe(answer).outcome is Outcome.FAILED


@pytest.mark.parametrize("status", [204, 401, 404, 500, 503])
async def test_any_other_status_is_a_failed_scrape(status: int) -> None:
    async def metrics(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    async with serving(metrics) as url:
        observation = EngineTracker("e", "r").observe(await asked(url))
    assert observation.outcome is Outcome.FAILED
    assert observation.detail == f"HTTP status {status}"


async def test_html_with_status_200_is_unreadable() -> None:
    async def metrics(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html><body>Welcome</body></html>", content_type="text/html")

    async with serving(metrics) as url:
        assert EngineTracker("e", "r").observe(await asked(url)).outcome is Outcome.UNREADABLE


async def test_a_compressed_body_is_not_inflated() -> None:
    async def metrics(_: web.Request) -> web.StreamResponse:
        response = web.Response(body=b"\x00" * 20_000_000)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with serving(metrics) as url:
        answer = await asked(url)
    assert len(answer.body) < BODY_BYTES_MAX
    assert EngineTracker("e", "r").observe(answer).outcome is not Outcome.READ


async def test_connection_refused() -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    answer = await asked(f"http://127.0.0.1:{port}")
    assert answer.code is None
    assert "ClientConnectorError" in (answer.failure or "")


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nvllm:generation_tokens_total 5\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["no-http", "closes", "short", "bad-length", "long-header", "bad-chunk"],
)
async def test_what_is_no_http(said: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        answer = await asked(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert answer.code is None
    assert answer.failure


async def test_a_key_travels_as_a_bearer_token() -> None:
    seen: list[str | None] = []

    async def metrics(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return web.Response()

    async with serving(metrics) as url:
        await asked(url, api_key="k1")
        await asked(url)
    assert seen == ["Bearer k1", None]


class TurnedClock:
    """A clock that its sleepers turn on; each wakes `early_s` too early. Ends the watch after `naps` of them."""

    def __init__(self, naps: int, early_s: float = 0.0) -> None:
        self._now_s = 1000.2
        self._left = naps
        self._early_s = early_s

    def now_s(self) -> float:
        return self._now_s

    async def sleep(self, span_s: float) -> None:
        if self._left == 0:
            raise asyncio.CancelledError
        self._left -= 1
        self._now_s += max(0.0, span_s) - self._early_s
        await asyncio.sleep(0)


@pytest.mark.parametrize("early_s", [0.0, 0.001])
async def test_each_second_is_asked_for_once(early_s: float) -> None:
    async def metrics(_: web.Request) -> web.StreamResponse:
        return web.Response(text=vllm_body({"length": 1}))

    answers: list[Answer] = []
    async with serving(metrics) as url, open_scraper(ScrapeSettings(), TurnedClock(6, early_s)) as scraper:
        task = asyncio.create_task(
            scraper._ask_forever("a", url, Path.METRICS, 0.5, lambda _, answer: answers.append(answer))
        )
        await asyncio.wait([task])
    assert [round(answer.at_s, 2) for answer in answers] == [1000.5, 1001.5, 1002.5, 1003.5, 1004.5, 1005.5]


async def test_what_the_receiver_raises_ends_the_watch_as_it_is() -> None:
    async def metrics(_: web.Request) -> web.StreamResponse:
        return web.Response()

    def refuse(replica: str, answer: Answer) -> None:
        raise OSError(28, "No space left on device")

    async with serving(metrics) as url, open_scraper(ScrapeSettings(), Clock()) as scraper:
        with pytest.raises(OSError, match="No space"):
            await scraper.watch({"a": url, "b": url}, refuse)
