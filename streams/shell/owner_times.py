"""How long a partition's owner takes: for rebuilding windows, and from ticks falling due to their commit."""

from collections.abc import Callable, Sequence

from streams.shell.tick_source import Effects
from streams.shell.worker_metrics import TransactionTimes, WorkerMetrics


class OwnerTimes:
    """`clock` gives UNIX seconds. Told what happens, in order; measured durations go to `metrics`."""

    def __init__(self, metrics: WorkerMetrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._taking_since_s: float | None = None
        self._due_since_s: float | None = None
        self._began_s = 0.0

    def take_over(self) -> float:
        """Taking over begins; when that is."""
        self._taking_since_s = self._clock()
        self._due_since_s = None
        return self._taking_since_s

    def fed(self, effects: Sequence[Effects], *, is_rebuilding: bool) -> None:
        """Something was read, or time passed, and these ticks fell due."""
        if effects and self._due_since_s is None:
            self._due_since_s = self._clock()
        if self._taking_since_s is not None and not is_rebuilding:
            self._metrics.rebuild_s.record(self._clock() - self._taking_since_s)
            self._taking_since_s = None

    def begin(self) -> None:
        """A transaction with the oldest ticks begins."""
        self._began_s = self._clock()

    def written(self, effects: Sequence[Effects], left: int) -> None:
        """It was committed, and so many ticks are still to be written."""
        due_s = self._began_s if self._due_since_s is None else self._due_since_s
        self._due_since_s = self._began_s if left else None
        event_s = min(one.signal.at_s for one in effects)
        self._metrics.transaction_written(
            TransactionTimes(
                ticks=len(effects), event_s=event_s, due_s=due_s, began_s=self._began_s, ended_s=self._clock()
            )
        )
