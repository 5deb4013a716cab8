"""The one module that reads a clock. Everything else is given a time, or a `Clock`.

A whole pipeline can run on another time: `HEADRACE_CLOCK_SPEED` says how many of its seconds pass in a real one, and
`HEADRACE_CLOCK_BASE=SHOWN@REAL` that it shows the UNIX time SHOWN when the real clock shows REAL (`SHOWN` alone: the
two agree at that moment). All processes that are given the same two show the same time.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from headrace.exit_codes import CannotRunError

BASE_VARIABLE = "HEADRACE_CLOCK_BASE"
SPEED_VARIABLE = "HEADRACE_CLOCK_SPEED"
SPEED_MAX = 10_000.0


def monotonic_s() -> float:
    """Real seconds from some start on, never going back: for time-outs and durations of our own work."""
    return time.monotonic()


def elapsed_s() -> float:
    """As `monotonic_s`, but the time in which the machine sleeps counts too, where the system can tell it."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Shows `shown_s` when the real clock shows `real_s`, and `speed` seconds for each real one after that."""

    shown_s: float = 0.0
    real_s: float = 0.0
    speed: float = 1.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Raises CannotRunError, naming each variable, its value and what is allowed."""
        base, speed = environment.get(BASE_VARIABLE, ""), environment.get(SPEED_VARIABLE, "")
        shown, _, real = base.partition("@")
        shown_s, real_s = _number(shown or "0"), _number(real or shown or "0")
        per_s = _number(speed or "1")
        problems = []
        if not (math.isfinite(shown_s) and math.isfinite(real_s) and shown_s >= 0 and real_s >= 0):
            problems.append(f"{BASE_VARIABLE}: {base!r}, allowed: SHOWN or SHOWN@REAL, both UNIX seconds")
        if not 0 < per_s <= SPEED_MAX:
            problems.append(f"{SPEED_VARIABLE}: {speed!r}, allowed: above 0, up to {SPEED_MAX:g}")
        elif per_s != 1 and not base:
            problems.append(f"{BASE_VARIABLE}: required with {SPEED_VARIABLE} {speed}, allowed: SHOWN or SHOWN@REAL")
        if problems:
            raise CannotRunError("\n".join(problems))
        return cls(shown_s=shown_s, real_s=real_s, speed=per_s)

    @property
    def is_real(self) -> bool:
        return self.speed == 1 and self.shown_s == self.real_s

    def now_s(self) -> float:
        """The time now, UNIX seconds."""
        return self.shown_s + (time.time() - self.real_s) * self.speed

    def steady(self) -> Callable[[], float]:
        """`now_s` as it is now, and from then on by the time that passes: a wall clock that is set, forwards or back,
        changes nothing. The time in which the machine sleeps counts."""
        began_s, passed_s = self.now_s(), elapsed_s()
        return lambda: began_s + (elapsed_s() - passed_s) * self.speed

    def real_seconds(self, span_s: float) -> float:
        """How many real seconds `span_s` of this clock's take."""
        return span_s / self.speed

    async def sleep(self, span_s: float) -> None:
        """Wait for `span_s` of this clock's seconds; at once where that is not above 0."""
        await asyncio.sleep(max(0.0, self.real_seconds(span_s)))

    def to_environment(self) -> dict[str, str]:
        """The variables that give a child process this clock."""
        return {BASE_VARIABLE: f"{self.shown_s!r}@{self.real_s!r}", SPEED_VARIABLE: repr(self.speed)}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
