"""How much one endpoint's senders may have kept of them: distinct names, and the bytes of their labels.

Whoever may write telemetry may write any name. Without a limit a million replicas in a minute fill a worker's memory,
and long labels make a record of memory that no message holds. What is refused depends on the endpoint's own records in
log order and on their receipt alone, so neighbours do not matter, nor how the log was cut into polls.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

PERIOD_S = 300
"""Names are counted by periods of receipt, as long as the default window: one that was heard in this period or the one
before keeps its place."""

SERIES_MAX = 10_000
"""Most (replica, epoch, source, reporter) of one endpoint: the largest endpoint a worker is built for, some 1.2 GB."""
SERIES_LABEL_BYTES_MAX = 1024 * 1024
"""Most bytes of their labels together: 100 each of SERIES_MAX. A pod's name and its UID have some 80."""
BOUNDS_MAX = 32
"""Most sets of histogram bounds of one endpoint and field: engines of one version have one, a rollout two."""
REPLICAS_MAX = 10_000
"""Most replicas of one endpoint that ReplicaChanged names; they are remembered until they are gone."""
REPLICA_LABEL_BYTES_MAX = 1024 * 1024
GPUS_MAX = 16_384
"""Most (replica, epoch, GPU) of one endpoint: 2,000 replicas of 8, some 160 MB."""
OFF_SOURCES_MAX = 5_000
"""Most sources of one endpoint that are remembered because their clocks are off, or their samples late."""
CHANGES_MAX = 8
"""Most changes of one source's clock that are remembered, for 420 s: a clock that drifts by 2 % has as many. With these
limits the memory of an endpoint stays below some 13 MB, and below the largest message."""


@dataclass(slots=True)
class RecentNames:
    """Names that were admitted in this period or the one before; `weight` is of both together.

    A name that has its place keeps it as long as it is heard; a new one is refused while there is no room.
    """

    count_max: int
    weight_max: int
    period: int = -1
    _now: dict[Hashable, int] = field(default_factory=dict)
    _before: dict[Hashable, int] = field(default_factory=dict)
    _weight: int = 0
    _count: int = 0

    def knows(self, name: Hashable, period: int) -> bool:
        """Whether it was heard in this period: then it need not be asked for again."""
        return period <= self.period and name in self._now

    def admit(self, name: Hashable, weight: int, period: int) -> bool:
        """Take a name heard in a period; periods that go back count as the newest one."""
        if period > self.period:
            self._begin(period)
        if name in self._now:
            return True
        if name not in self._before:
            if self._count >= self.count_max or self._weight + weight > self.weight_max:
                return False
            self._count += 1
            self._weight += weight
        self._now[name] = weight
        return True

    def __len__(self) -> int:
        return self._count

    def _begin(self, period: int) -> None:
        self._before = self._now if period == self.period + 1 else {}
        self._now = {}
        self.period = period
        self._count, self._weight = len(self._before), sum(self._before.values())


def label_bytes(*labels: str | None) -> int:
    """Of labels, in UTF-8; one that JSON has to escape counts six times its length."""
    return sum(_bytes(label) for label in labels if label)


def _bytes(label: str) -> int:
    return len(label.encode()) if label.isprintable() else 6 * len(label.encode())
