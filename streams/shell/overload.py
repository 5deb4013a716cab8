"""Tells a load beyond capacity from a backlog that is being caught up."""

from dataclasses import dataclass

from streams.endpoints.ticks import CATCH_UP_S

LOOK_S = 10.0
"""How long a stretch of reading is measured. Longer between two reads, and the pipeline was away, not overloaded."""
RECOVERY_MAX_S = 60.0
"""A backlog that is caught up within this is read: what is skipped leaves holes in the windows for five minutes."""


@dataclass(frozen=True, slots=True)
class _Mark:
    now_s: float
    behind_s: float


class OverloadWatch:
    """Shown how far reading is behind, UNIX s, after each read of a partition.

    `is_hopeless`, until `reset`: once it was more than CATCH_UP_S behind and, at the pace of the last LOOK_S, was to be
    for RECOVERY_MAX_S more.
    """

    def __init__(self) -> None:
        self.is_hopeless = False
        self._mark: _Mark | None = None
        self._read_s = float("-inf")

    def reset(self) -> None:
        """Reading begins anew: at another place, or after windows were rebuilt."""
        self.is_hopeless = False
        self._mark = None

    def look(self, now_s: float, processed_s: float) -> bool:
        """Something was read, and processing time is at `processed_s`; whether it is hopeless."""
        seen = _Mark(now_s, now_s - processed_s)
        was_away = now_s - self._read_s >= LOOK_S
        self._read_s = now_s
        mark = self._mark
        if seen.behind_s <= CATCH_UP_S or mark is None or was_away:
            self._mark = seen if seen.behind_s > CATCH_UP_S else None
        elif now_s - mark.now_s >= LOOK_S:
            self._mark = seen
            caught_up_per_s = (mark.behind_s - seen.behind_s) / (now_s - mark.now_s)
            self.is_hopeless = seen.behind_s - CATCH_UP_S > caught_up_per_s * RECOVERY_MAX_S
        return self.is_hopeless
