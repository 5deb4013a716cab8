"""Waiting with an end: for a time at most, and only as long as all that runs beside it is well."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from headrace.exit_codes import CannotRunError, ExitCode

SETTLE_S = 120.0
"""Longest wait for the line to work on what it was sent, or for the sink to keep it: minutes on a crowded machine."""
REFRESH_S = 0.25

R = TypeVar("R")


async def in_time(wait: Coroutine[Any, Any, R], what: str) -> R:
    """What `wait` returns. Raises CannotRunError (UNAVAILABLE) that names `what` did not come within SETTLE_S."""
    try:
        async with asyncio.timeout(SETTLE_S):
            return await wait
    except TimeoutError:
        raise CannotRunError(f"no {what} came within {SETTLE_S:g} s; see the logs", ExitCode.UNAVAILABLE) from None


async def guarded(work: Coroutine[Any, Any, R], *guards: Coroutine[Any, Any, None]) -> R:
    """What `work` returns; a guard that ends before it ends it, with the guard's exception."""
    working = asyncio.create_task(work)
    guarding = [asyncio.create_task(guard) for guard in guards]
    try:
        await asyncio.wait([working, *guarding], return_when=asyncio.FIRST_COMPLETED)
        for guard in guarding:
            if guard.done():
                guard.result()
        return await working
    finally:
        for task in (working, *guarding):
            task.cancel()
        await asyncio.gather(working, *guarding, return_exceptions=True)
