"""Starting from memory: from where each topic is read again, and what waits until the windows are as they were."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from records.memory import ControllerMemory
from streams.endpoints.ticks import AHEAD_MAX_S, LATENESS_S, TICK_S
from streams.windows.columns import SampleColumns

REQUESTS = "telemetry.requests"
GPUS = "telemetry.gpus"
WINDOW_TOPICS = (REQUESTS, GPUS)
"""Topics whose last minutes are read again; the others go on where the memory's newest tick left them, but for the
records of endpoints that had no tick yet."""
FOLLOWED_TOPICS = ("telemetry.replicas", "telemetry.targets", "outcomes", "policies")

Rows = SampleColumns | Sequence[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """From where each topic is to be read again.

    `times_s`: each of WINDOW_TOPICS from the first record that was received then or later, UNIX s; the other topics
    from there or from `offsets` (that of the next record to read), whichever is earlier: an endpoint whose first tick
    was lost with the process has no memory, and its first records stand before `offsets`. Empty: nothing is
    remembered, so any time will do from which ticks are wanted. `span_s` is how long before a tick its windows, and
    the clocks' offsets, begin.
    """

    times_s: Mapping[str, float]
    span_s: float
    offsets: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rows of one topic in log order: `offsets` int64 (n,), equal for the rows of one message; `received_s` float64
    (n,), UNIX s."""

    topic: str
    rows: Rows
    offsets: NDArray[np.int64]
    received_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, keep: NDArray[np.bool_]) -> "Run":
        """The rows where `keep` is set."""
        if keep.all():
            return self
        chosen = np.flatnonzero(keep)
        rows = self.rows
        taken: Rows = rows.take(chosen) if isinstance(rows, SampleColumns) else [rows[row] for row in chosen.tolist()]
        return Run(self.topic, taken, self.offsets[chosen], self.received_s[chosen])


def plan_rewind(memories: Iterable[ControllerMemory], span_s: int, policies_read_to: int) -> RewindPlan:
    """`span_s` is the longest window of all; `policies` has been read to `policies_read_to`.

    A sample may be received up to AHEAD_MAX_S before its second ends; and the clocks' offsets reach back as far before
    the oldest sample of the window as the windows themselves.
    """
    memories = list(memories)
    span = float(span_s + LATENESS_S + AHEAD_MAX_S + TICK_S)
    offsets = {topic: min(memory.offsets.get(topic, 0) for memory in memories) for topic in FOLLOWED_TOPICS if memories}
    offsets |= {"policies": policies_read_to} if policies_read_to else {}
    if not memories:
        return RewindPlan(times_s={}, span_s=span, offsets=offsets)
    oldest_tick = min(memory.at_s for memory in memories)
    # A first tick is due ten seconds after its first record at the latest, and was not made when the oldest tick was.
    times_s = dict.fromkeys(WINDOW_TOPICS, max(0.0, oldest_tick - span))
    times_s |= {topic: max(0.0, float(oldest_tick - AHEAD_MAX_S)) for topic in FOLLOWED_TOPICS if topic != "policies"}
    return RewindPlan(times_s=times_s, span_s=span, offsets=offsets)


def furthest_read(memories: Iterable[ControllerMemory]) -> dict[str, int]:
    """By topic the offset up to which it had been read when the newest of these ticks was made.

    Ticks are committed in the order in which they are made, so whichever comes next, of an endpoint without a memory
    too, comes after all of them.
    """
    furthest: dict[str, int] = {}
    for memory in memories:
        for topic, offset in memory.offsets.items():
            furthest[topic] = max(offset, furthest.get(topic, 0))
    return furthest


def first_read(memories: Iterable[ControllerMemory]) -> dict[str, int]:
    """By topic the first offset that was read of the partition, as far as somebody remembers."""
    first: dict[str, int] = {}
    for memory in memories:
        for topic, offset in memory.first_offsets.items():
            first[topic] = min(offset, first.get(topic, offset))
    return first


@dataclass(slots=True)
class Rebuild:
    """What is fed before the windows are complete waits here, in the order it came.

    `goals` has, for each topic of WINDOW_TOPICS, the offset up to which some endpoint had read it; `least` the lowest
    offset that any endpoint with a memory has yet to read of each topic.
    """

    goals: dict[str, int]
    least: dict[str, int]
    waiting: list[Run] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)

    @classmethod
    def after(cls, memories: Iterable[ControllerMemory]) -> "Rebuild | None":
        """Null where nothing has to be read again."""
        memories = list(memories)
        if not memories:
            return None
        topics = {topic for memory in memories for topic in memory.offsets}
        goals = {topic: max(memory.offsets.get(topic, 0) for memory in memories) for topic in WINDOW_TOPICS}
        least = {topic: min(memory.offsets.get(topic, 0) for memory in memories) for topic in topics}
        rebuild = cls(goals, least)
        return None if rebuild.is_complete else rebuild

    @property
    def is_complete(self) -> bool:
        return all(self.positions.get(topic, 0) >= goal for topic, goal in self.goals.items())

    def hold(self, run: Run, wanted: NDArray[np.bool_]) -> None:
        """Keep what is to be read after the rebuild: the `wanted` rows, and all that let time pass for somebody."""
        later = wanted | (run.offsets >= self.least.get(run.topic, 0))
        if later.any():
            self.waiting.append(run.take(later))
        self.positions[run.topic] = int(run.offsets[-1]) + 1
