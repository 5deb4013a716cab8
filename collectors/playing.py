"""A recording as a source: its answers at once, or at the recording's own pace."""

import asyncio
from collections.abc import Callable
from pathlib import Path as FilePath

from collectors.recordings import BrokenLine, answer_of, read_recording
from collectors.scraping import Clock, Emit


async def play_recording(
    path: FilePath, start_s: float, emit: Emit, tell_broken: Callable[[BrokenLine], None], clock: Clock | None = None
) -> None:
    """Hand over every answer, in event time from `start_s` on; lines that are none go to `tell_broken`.

    With a `clock` the answer of `t` comes `t` of its seconds after the call, else all come at once. Raises OSError
    where the file cannot be opened.
    """
    begin_s = None if clock is None else clock.now_s()
    for found in read_recording(path):
        if isinstance(found, BrokenLine):
            tell_broken(found)
            continue
        if clock is not None and begin_s is not None:
            await clock.sleep(begin_s + found.t - clock.now_s())
        else:
            await asyncio.sleep(0)
        emit(answer_of(found, start_s))
