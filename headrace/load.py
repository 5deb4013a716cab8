"""HTTP load on OpenAI-compatible servers for the demo and the tests: a seeded plan, and what its answers said.

The load is open-loop: requests start at their planned time whether or not earlier ones were answered, so a server
that is too slow builds a queue. Nothing is sent twice.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp

IN_FLIGHT_MAX = 512
"""Connections at a time; requests above wait here, and start late. Above what one process can usefully hold."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz "
_LATE_MAX_S = 60.0


@dataclass(frozen=True, kw_only=True)
class LoadPhase:
    """`requests_per_s` on average for `duration_s`, as a Poisson process."""

    duration_s: float
    requests_per_s: float


@dataclass(frozen=True, kw_only=True)
class PlannedRequest:
    """One request `at_s` seconds after the load's start; its output is exactly `output_tokens` long."""

    at_s: float
    prompt: str
    output_tokens: int


@dataclass(frozen=True, kw_only=True)
class TokenRange:
    """Lengths drawn evenly from `least` to `most`; prompts in characters (a token each of the tiny model)."""

    least: int
    most: int


@dataclass(frozen=True, kw_only=True)
class LoadCounts:
    """What came of the load so far. Token counts are the servers' own `usage` of the completed requests.

    `refused` had an answer other than 200, `failed` had none (connection lost, timeout). `prompt_tokens` includes
    `cached_tokens`, as `usage` does.
    """

    planned: int = 0
    sent: int = 0
    completed: int = 0
    refused: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    @property
    def in_flight(self) -> int:
        return self.sent - self.completed - self.refused - self.failed


def plan_load(
    phases: Sequence[LoadPhase],
    seed: int,
    prompts: TokenRange = TokenRange(least=16, most=128),
    outputs: TokenRange = TokenRange(least=4, most=32),
) -> tuple[PlannedRequest, ...]:
    """All requests of `phases`, one after the other, in order of their time. The same seed, the same plan."""
    dice = random.Random(seed)
    planned = []
    begin_s = 0.0
    for phase in phases:
        end_s = begin_s + phase.duration_s
        at_s = begin_s
        while phase.requests_per_s > 0 and (at_s := at_s + dice.expovariate(phase.requests_per_s)) < end_s:
            prompt = "".join(dice.choices(_LETTERS, k=dice.randint(prompts.least, prompts.most)))
            output_tokens = dice.randint(outputs.least, outputs.most)
            planned.append(PlannedRequest(at_s=at_s, prompt=prompt, output_tokens=output_tokens))
        begin_s = end_s
    return tuple(planned)


class LoadGenerator:
    """Sends `plan` to the servers at `urls` in turn; `counts` may be read while it runs.

    `now_s` paces it (seconds, any origin). `model` is the name that the servers were started with.
    """

    def __init__(
        self, urls: Sequence[str], plan: Sequence[PlannedRequest], now_s: Callable[[], float], model: str = "tiny"
    ) -> None:
        self._urls = tuple(urls)
        self._plan = plan
        self._now_s = now_s
        self._model = model
        self._sent = self._completed = self._refused = self._failed = 0
        self._prompt_tokens = self._cached_tokens = self._output_tokens = 0

    @property
    def counts(self) -> LoadCounts:
        return LoadCounts(
            planned=len(self._plan),
            sent=self._sent,
            completed=self._completed,
            refused=self._refused,
            failed=self._failed,
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            output_tokens=self._output_tokens,
        )

    async def run(self) -> LoadCounts:
        """Send the whole plan and wait for every answer. Cancelled, it drops what is in flight."""
        begin_s = self._now_s()
        # a connection a request: llama.cpp's server ends kept ones while a client is about to use them
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT_MAX, force_close=True)
        timeout = aiohttp.ClientTimeout(total=_LATE_MAX_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session, asyncio.TaskGroup() as group:
            for number, request in enumerate(self._plan):
                ahead_s = begin_s + request.at_s - self._now_s()
                await asyncio.sleep(max(0.0, ahead_s))
                self._sent += 1
                group.create_task(self._send(session, self._urls[number % len(self._urls)], request))
        return self.counts

    async def _send(self, session: aiohttp.ClientSession, url: str, request: PlannedRequest) -> None:
        body = {
            "model": self._model,
            "prompt": request.prompt,
            "max_tokens": request.output_tokens,
            "ignore_eos": True,
            "temperature": 0,
        }
        try:
            async with session.post(url + "/v1/completions", json=body) as answer:
                if answer.status != 200:
                    self._refused += 1
                    return
                usage = (await answer.json())["usage"]
        except (aiohttp.ClientError, TimeoutError):
            self._failed += 1
            return
        self._completed += 1
        self._prompt_tokens += usage["prompt_tokens"]
        self._cached_tokens += (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        self._output_tokens += usage["completion_tokens"]
