"""How often and when a decision is tried again. Backoff is in real seconds: it is the world that needs them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tenacity import AsyncRetrying, RetryCallState, retry_if_result

Pause = Callable[[float, asyncio.Event], Awaitable[None]]
"""Waits for so many real seconds, or until the event is set."""


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Tries of one decision: at most `attempts`, the first pause up to `first_s` real seconds, doubled up to `max_s`.

    Twenty tries are some 80 s, longer than the 60 s in which a decision is carried out.
    """

    attempts: int = 20
    first_s: float = 0.1
    max_s: float = 5.0

    def __post_init__(self) -> None:
        problems = [] if self.attempts >= 1 else [f"attempts: {self.attempts}, allowed from 1"]
        if not 0 < self.first_s <= self.max_s:
            problems.append(f"first_s, max_s: {self.first_s}, {self.max_s}, allowed: 0 < first_s <= max_s")
        if problems:
            raise ValueError("\n".join(problems))

    def pause_s(self, attempt: int, rng: np.random.Generator) -> float:
        """The pause after this attempt, counted from 1: half of it by chance, so that two actuators fall apart."""
        longest_s: float = min(self.max_s, self.first_s * 2.0 ** min(attempt - 1, 30))
        return longest_s * float(rng.uniform(0.5, 1.0))


async def pause(span_s: float, stirred: asyncio.Event) -> None:
    """See Pause."""
    try:
        async with asyncio.timeout(span_s):
            await stirred.wait()
    except TimeoutError:
        pass


def retrying(
    is_to_be_tried_again: Callable[[Any], bool],
    is_over: Callable[[], bool],
    backoff: Backoff,
    rng: np.random.Generator,
    sleep: Callable[[float], Awaitable[None]],
) -> AsyncRetrying:
    """Calls again while the result is to be tried again, until `is_over`; the last result is what comes of it."""

    def wait(state: RetryCallState) -> float:
        return backoff.pause_s(state.attempt_number, rng)

    def last_result(state: RetryCallState) -> Any:
        assert state.outcome is not None, "tenacity calls this after an attempt"
        return state.outcome.result()

    return AsyncRetrying(
        retry=retry_if_result(is_to_be_tried_again),
        stop=lambda state: state.attempt_number >= backoff.attempts or is_over(),
        wait=wait,
        sleep=sleep,
        retry_error_callback=last_result,
    )
