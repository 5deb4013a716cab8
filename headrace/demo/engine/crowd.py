"""The load of one endpoint: users who wait for their answers, so that a queue is as long as the users are many.

An open loop would need to know what this machine can do: on a slow one its queue would outlast the demo, and on a fast
one there would be none.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import cycle

from headrace.demo.engine.script import DemoEndpoint, phase_at
from headrace.load import LoadCounts, LoadGenerator, LoadPhase, PlannedRequest, plan_load

TOKENS_MAX = 800_000
"""Tokens of one engine's counter at which its users stop: llama.cpp prints six digits of them."""
SEED = 7
REQUESTS_DRAWN = 500
"""Requests that differ; after them the first ones come again, as prompts that engines have cached do."""


class Crowd:
    """All users of one endpoint, spread over its engines. `now_s` paces them (seconds, any origin)."""

    def __init__(self, endpoint: DemoEndpoint, engines: Mapping[str, str], now_s: Callable[[], float]) -> None:
        self._endpoint = endpoint
        self._urls = tuple(engines.values())
        self._now_s = now_s
        self._requests = _requests(endpoint)
        self._sent = 0
        self._answered = LoadCounts()

    @property
    def counts(self) -> LoadCounts:
        """So far; whoever has no answer yet is in flight."""
        return replace(self._answered, planned=self._sent, sent=self._sent)

    async def run(self, seconds: float) -> None:
        """Send for `seconds`, then wait for every answer."""
        begin_s = self._now_s()
        most = max(users.count for users in self._endpoint.users.values())
        async with asyncio.TaskGroup() as group:
            for number in range(most):
                group.create_task(self._be_user(number, begin_s, seconds))

    async def _be_user(self, number: int, begin_s: float, seconds: float) -> None:
        while (done_s := self._now_s() - begin_s) < seconds:
            phase, end_s = phase_at(done_s, seconds)
            users = self._endpoint.users[phase.name]
            if number >= users.count or self._is_full:
                await asyncio.sleep(end_s - done_s)
            else:
                await self._send(self._urls[number % len(self._urls)], next(self._requests))
                await asyncio.sleep(users.think_s)

    @property
    def _is_full(self) -> bool:
        tokens = max(self._answered.prompt_tokens, self._answered.output_tokens)
        return tokens >= TOKENS_MAX * len(self._urls)

    async def _send(self, url: str, request: PlannedRequest) -> None:
        self._sent += 1
        counts = await LoadGenerator([url], [request], self._now_s).run()
        self._answered = _sum(self._answered, counts)


def _requests(endpoint: DemoEndpoint) -> Iterator[PlannedRequest]:
    """Requests without end, each to be sent at once."""
    drawn = plan_load(
        [LoadPhase(duration_s=REQUESTS_DRAWN, requests_per_s=1.0)], SEED, endpoint.prompts, endpoint.outputs
    )
    return cycle([replace(one, at_s=0.0) for one in drawn])


def _sum(one: LoadCounts, other: LoadCounts) -> LoadCounts:
    return LoadCounts(**{each.name: getattr(one, each.name) + getattr(other, each.name) for each in fields(LoadCounts)})
