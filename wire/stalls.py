"""Finds partitions that are not read although there is something to read. Pure.

A Kafka client can be alive, answer heartbeats and fetch nothing any more; only progress tells.
"""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)


class StallDetector(Generic[P]):
    """Compares positions with ends, seen from time to time; a position may stand still for `patience_s` seconds."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: dict[P, tuple[int, float]] = {}

    def stalled(self, now_s: float, positions: Mapping[P, int], ends: Mapping[P, int]) -> list[P]:
        """Partitions whose position was seen below the end and has not moved for `patience_s` since then.

        Partitions left out of `positions` (not ours, or paused) begin anew when they are back. `now_s` is of any clock
        that never goes back.
        """
        since: dict[P, tuple[int, float]] = {}
        for partition, position in positions.items():
            if position >= ends.get(partition, position):
                continue
            before = self._since.get(partition)
            since[partition] = before if before is not None and before[0] == position else (position, now_s)
        self._since = since
        return [partition for partition, (_, since_s) in since.items() if now_s - since_s >= self._patience_s]
