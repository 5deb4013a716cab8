"""Ends a process whose event loop answers no more, from a thread of its own: nothing in the loop could."""

import asyncio
import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Self

import structlog

from headrace.exit_codes import ExitCode

LOOKS = 6
"""In the time of a stall. They are counted, not timed: a machine that slept misses one, and not all of them."""

TELL_S = 1.0

log = structlog.get_logger("headrace.loop")


class LoopWatch:
    """While its context lasts, a loop that does not answer for `stall_s` real seconds ends the process with STUCK, and
    the log says where it was."""

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self._stopped = threading.Event()
        self._answered = threading.Event()

    def __enter__(self) -> Self:
        loop, watched = asyncio.get_running_loop(), threading.get_ident()
        self._answered.set()
        threading.Thread(target=self._watch, args=(loop, watched), name="loop-watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, watched: int) -> None:
        missed = 0
        while not self._stopped.wait(self._stall_s / LOOKS):
            if self._answered.is_set():
                missed = 0
                self._answered.clear()
                loop.call_soon_threadsafe(self._answered.set)
                continue
            missed += 1
            if missed == LOOKS:
                # Told by one more thread: a loop that waits for standard error keeps everybody from writing there.
                telling = threading.Thread(target=self._tell, args=(_place(watched),), daemon=True)
                telling.start()
                telling.join(TELL_S)
                os._exit(ExitCode.STUCK)

    def _tell(self, place: list[str]) -> None:
        log.error("loop_blocked", seconds=self._stall_s, at=place)


def _place(thread: int) -> list[str]:
    """What a thread does: the innermost calls, the last first."""
    frame = sys._current_frames().get(thread)
    calls = traceback.extract_stack(frame)[::-1] if frame is not None else []
    return [f"{call.filename}:{call.lineno} {call.name}" for call in calls[:5]]
