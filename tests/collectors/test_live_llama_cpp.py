"""A real llama.cpp server, asked as in production: what its clients were told is what the samples say."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import aiohttp
import pytest

from collectors.collector import Collector
from collectors.scraping import ScrapeSettings, open_scraper
from collectors.tracker import Outcome, Problem
from headrace.clock import Clock, monotonic_s
from headrace.engine import SLOTS, LlamaServer
from headrace.load import LoadGenerator, LoadPhase, TokenRange, plan_load
from records.telemetry import RequestSample

FAST = 5.0
"""Seconds of the collector's clock in a real one: the engine is real, waiting for whole seconds is not the point."""
PATIENT = ScrapeSettings(timeout_s=30.0)
"""An engine on a loaded machine answers late, and late is not dead."""
IMPATIENT = ScrapeSettings(timeout_s=0.5)
"""For engines that are to be found silent."""


class Kept:
    """A delivery that keeps the samples, and lets a test wait for what it wants to see.

    It is called for every answer, also for those that give no sample.
    """

    def __init__(self) -> None:
        self.samples: list[RequestSample] = []
        self._changed = asyncio.Event()

    def deliver(self, samples: Iterable[RequestSample], received_s: float) -> None:
        self.samples.extend(samples)
        self._changed.set()

    def total(self, field: str) -> int:
        return sum(getattr(sample, field) or 0 for sample in self.samples)

    async def until(self, condition: Callable[[], object]) -> None:
        """Look after every answer of the engine."""
        async with asyncio.timeout(90):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LlamaServer]:
    async with LlamaServer(tmp_path / "engine") as running:
        yield running


@pytest.fixture
def scrapes() -> ScrapeSettings:
    return PATIENT


@pytest.fixture
async def collecting(server: LlamaServer, scrapes: ScrapeSettings) -> AsyncIterator[tuple[Kept, Collector]]:
    kept = Kept()
    collector = Collector("chat", ["llama-0"], kept)
    clock = Clock(shown_s=1_700_000_000.0, real_s=Clock().now_s(), speed=FAST)
    async with open_scraper(scrapes, clock) as scraper:
        watch = asyncio.create_task(scraper.watch({"llama-0": server.url}, collector.receive))
        await kept.until(lambda: kept.samples)
        yield kept, collector
        watch.cancel()
        await asyncio.wait([watch])
    collector.close()


async def test_token_sums_are_those_that_the_clients_were_told(
    server: LlamaServer, collecting: tuple[Kept, Collector]
) -> None:
    kept, collector = collecting
    plan = plan_load(
        [LoadPhase(duration_s=1.0, requests_per_s=20), LoadPhase(duration_s=1.0, requests_per_s=80)],
        seed=11,
        prompts=TokenRange(least=5, most=90),
    )
    counts = await LoadGenerator([server.url], plan, monotonic_s).run()
    assert counts.completed == counts.planned == len(plan) > 50
    assert counts.output_tokens == sum(request.output_tokens for request in plan)
    assert counts.prompt_tokens == sum(len(request.prompt) + 2 for request in plan)
    await kept.until(lambda: kept.total("output_tokens") >= counts.output_tokens)
    await kept.until(lambda: kept.samples[-1].output_tokens == 0)
    assert kept.total("output_tokens") == counts.output_tokens
    assert kept.total("input_tokens") == counts.prompt_tokens
    assert kept.total("cached_tokens") == counts.cached_tokens
    assert kept.total("steps") > 0
    for sample in kept.samples:
        assert (sample.completions, sample.errors, sample.arrivals, sample.preemptions) == (None,) * 4
        assert (sample.ttft_ms, sample.e2e_ms, sample.kv_cache_usage) == (None,) * 3
    seconds = [sample.at_s for sample in kept.samples]
    assert seconds == list(range(seconds[0], seconds[-1] + 1))
    assert collector.reports.bad_input == 0


async def test_more_requests_than_slots_wait_in_the_engine(
    server: LlamaServer, collecting: tuple[Kept, Collector]
) -> None:
    """Clients send again until a sample has seen all slots busy and as many requests waiting."""
    kept, _ = collecting
    is_seen = asyncio.Event()

    async def send_again_and_again(client: int) -> int:
        told = 0
        while not is_seen.is_set():
            await complete(server, f"request of client {client}", 100)
            told += 100
        return told

    async with asyncio.TaskGroup() as group:
        clients = [group.create_task(send_again_and_again(number)) for number in range(4 * SLOTS)]
        await kept.until(
            lambda: any(sample.running == SLOTS and (sample.waiting or 0) >= SLOTS for sample in kept.samples)
        )
        is_seen.set()
    told = sum(client.result() for client in clients)
    await kept.until(lambda: kept.total("output_tokens") >= told)
    await kept.until(lambda: kept.samples[-1].output_tokens == 0)
    assert kept.total("output_tokens") == told
    assert max(sample.running or 0 for sample in kept.samples) == SLOTS


@pytest.mark.parametrize("scrapes", [IMPATIENT], ids=["impatient"])
async def test_a_restart_is_a_new_epoch_and_a_death_is_silence(
    server: LlamaServer, collecting: tuple[Kept, Collector]
) -> None:
    kept, collector = collecting
    await complete(server, "before the restart", 6)
    await kept.until(lambda: kept.total("output_tokens") == 6)
    server.kill()
    await kept.until(lambda: collector.reports.answers[Outcome.NOT_HEALTHY] >= 2)
    told = len(kept.samples)
    await kept.until(lambda: collector.reports.answers[Outcome.NOT_HEALTHY] >= 4)
    assert len(kept.samples) == told, "nothing is told of an engine that is not there"
    await server.start()
    await complete(server, "after", 9)
    await kept.until(lambda: kept.samples[-1].epoch != kept.samples[0].epoch and kept.samples[-1].output_tokens == 0)
    assert collector.reports.problems == {Problem.RESTARTED: 1}
    first, second = dict.fromkeys(sample.epoch for sample in kept.samples)
    by_epoch = {epoch: sum(s.output_tokens or 0 for s in kept.samples if s.epoch == epoch) for epoch in (first, second)}
    assert by_epoch[first] == 6
    assert by_epoch[second] in (0, 9), "all or nothing: the first scrape of the new epoch may come after the request"


@pytest.mark.parametrize("scrapes", [IMPATIENT], ids=["impatient"])
async def test_a_frozen_engine_gives_no_sample_and_loses_nothing(
    server: LlamaServer, collecting: tuple[Kept, Collector]
) -> None:
    kept, collector = collecting
    await complete(server, "before", 5)
    await kept.until(lambda: kept.total("output_tokens") == 5)
    server.freeze()
    failed = collector.reports.answers[Outcome.FAILED]
    await kept.until(lambda: collector.reports.answers[Outcome.FAILED] >= failed + 2)
    told = len(kept.samples)
    await kept.until(lambda: collector.reports.answers[Outcome.FAILED] >= failed + 3)
    assert len(kept.samples) == told
    server.thaw()
    await complete(server, "after", 7)
    await kept.until(lambda: kept.total("output_tokens") >= 12)
    assert kept.total("output_tokens") == 12
    assert len({sample.epoch for sample in kept.samples}) == 1


async def complete(server: LlamaServer, prompt: str, output_tokens: int) -> None:
    body = {"prompt": prompt, "max_tokens": output_tokens, "ignore_eos": True}
    async with aiohttp.ClientSession() as session, session.post(server.url + "/v1/completions", json=body) as answer:
        assert answer.status == 200
        assert (await answer.json())["usage"]["completion_tokens"] == output_tokens
