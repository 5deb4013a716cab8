"""How long nothing was heard of somebody, in the time that this process was awake to hear it."""

from collections.abc import Callable

LOOK_MAX_S = 1.5
"""What one look adds at most; who tells health looks once a second or more often. A process that was stopped, or a
machine that slept, could hear nobody: that is not the other's silence."""


class Silence:
    """Is looked at once a second or more often; what lies between two looks counts for LOOK_MAX_S at most."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._looked_s = monotonic_s()
        self._silent_s = 0.0

    def hear(self) -> None:
        """Somebody was heard just now."""
        self._looked_s, self._silent_s = self._monotonic_s(), 0.0

    def look(self) -> float:
        """Seconds awake since somebody was heard, or since the beginning."""
        now_s = self._monotonic_s()
        self._silent_s += min(now_s - self._looked_s, LOOK_MAX_S)
        self._looked_s = now_s
        return self._silent_s
