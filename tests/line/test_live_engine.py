"""A live llama.cpp server through collect, Kafka and the sink: its clients' tokens are the table's tokens."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collectors.scraping import TIMEOUT_S
from headrace.clock import monotonic_s
from headrace.engine import LlamaServer
from headrace.load import LoadCounts, LoadGenerator, PlannedRequest
from tests.line.audit import ask, count_everything, read_topic, until, until_kept
from tests.line.conftest import MakeLine
from tests.line.deployment import Line

TOPIC = "telemetry.requests"
DIFFERENT = 24
ROUNDS = 3


def completions() -> list[PlannedRequest]:
    """Each prompt comes ROUNDS times, one after the other, so that the engine has most of it in its cache."""
    requests = []
    for number in range(DIFFERENT):
        prompt = f"question {number:02}: " + "why is it so? " * (number % 5)
        for turn in range(ROUNDS):
            at_s = 0.1 * number + 0.03 * turn
            requests.append(PlannedRequest(at_s=at_s, prompt=prompt, output_tokens=3 + (7 * number + turn) % 40))
    return requests


def samples_of(line: Line) -> str:
    return f"delta_scan('{line.tables / 'telemetry_requests'}')"


async def run_line(line: Line, server: LlamaServer) -> LoadCounts:
    """Everything from the topics to tables that have all that was sent; what the clients were told."""
    topic = line.prefix + TOPIC
    await line.create([])
    sink = await line.start("sink")
    collector = await line.start("collect", "--endpoint", "live", "--replica", f"live-0={server.url}")

    async def sent() -> list[Mapping[str, Any]]:
        return [json.loads(message.value or b"") for message in await read_topic(line.bootstrap, topic)]

    async def is_scraped() -> bool:
        # Counters count from the first scrape on. The first sample may be of a second that had none.
        return any(sample.get("running") is not None for sample in await sent())

    await until(is_scraped)
    counts = await LoadGenerator([server.url], completions(), monotonic_s).run()
    done_s = line.clock.now_s()

    async def is_told() -> bool:
        # A sample has the time at which its answer came; what it counts may be as old as an answer may take.
        return bool(max(sample["at_s"] for sample in await sent()) > done_s + TIMEOUT_S)

    await until(is_told)
    await line.drain(collector)
    await until_kept(line.bootstrap, line.prefix, line.tables, [TOPIC])
    await line.drain(sink)
    return counts


@pytest.mark.kafka
@pytest.mark.timeout(240)
async def test_a_live_engines_tokens_are_those_in_the_table(make_line: MakeLine, tmp_path: Path) -> None:
    line = make_line()
    async with LlamaServer(tmp_path / "engine") as server:
        told = await run_line(line, server)
    plan = completions()
    assert told.completed == len(plan) == DIFFERENT * ROUNDS
    assert told.output_tokens == sum(request.output_tokens for request in plan)
    assert told.prompt_tokens == sum(len(request.prompt) + 2 for request in plan)
    assert told.cached_tokens > 0

    samples = samples_of(line)
    fields = "sum(input_tokens), sum(cached_tokens), sum(output_tokens)"
    (sums,) = ask(f"SELECT {fields} FROM {samples} WHERE endpoint = 'live' AND replica = 'live-0'")
    assert sums == (told.prompt_tokens, told.cached_tokens, told.output_tokens)

    counts = await count_everything(line.bootstrap, line.prefix, line.tables, [TOPIC])
    assert counts[TOPIC].dead == 0
    (facts,) = ask(
        f"SELECT count(*), count(DISTINCT at_s), max(at_s) - min(at_s) + 1, count(DISTINCT epoch), "
        f"count(completions), count(arrivals), count(ttft_ms) FROM {samples}"
    )
    rows = counts[TOPIC].kept
    assert facts == (rows, rows, rows, 1, 0, 0, 0), "one sample a second, and unknown what the engine does not count"
