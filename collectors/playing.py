"""A recording as a source: its answers at once, or at the recording's own pace."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path as FilePath

from collectors.recordings import BrokenLine, answer_of, read_recording
from collectors.scraping import Clock, Emit


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A file, the replica that it is of, and the UNIX time of its `t = 0`."""

    path: FilePath
    replica: str
    start_s: float


async def play_recording(
    recording: Recording, emit: Emit, tell_broken: Callable[[BrokenLine], None], clock: Clock | None = None
) -> None:
    """Hand over every answer in event time; lines that are none go to `tell_broken`.

    With a `clock` the answer of `t` comes `t` of its seconds after the call, else all come at once. Raises OSError
    where the file cannot be opened.
    """
    begin_s = 0.0 if clock is None else clock.now_s()
    for found in read_recording(recording.path):
        if isinstance(found, BrokenLine):
            tell_broken(found)
            continue
        # without a clock too, so that the process can be asked to stop
        await (asyncio.sleep(0) if clock is None else clock.sleep(begin_s + found.t - clock.now_s()))
        emit(recording.replica, answer_of(found, recording.start_s))
