"""Simulated seconds at the pace of the line's clock, in order, each once, whatever the host does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from headrace.clock import Clock


async def paced_seconds(
    clock: Clock, first_s: int, count: int | None, stop: asyncio.Event, note_delay: Callable[[float], None]
) -> AsyncIterator[int]:
    """Yields each second after it has passed by `clock`; `count` of them, or until `stop` is set.

    A host that was late is caught up without pauses. `note_delay` gets the seconds that are due and not yet done.
    """
    second = first_s
    while not stop.is_set() and (count is None or second < first_s + count):
        wait_s = clock.real_seconds(second + 1 - clock.now_s())
        if wait_s > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), wait_s)
            continue
        note_delay(max(0.0, clock.now_s() - (second + 1)))
        yield second
        second += 1
        await asyncio.sleep(0)  # whoever calls the API gets a turn, also while there is much to catch up
