"""Lines of which a worker leaves a piece unread, as under a load beyond capacity."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from records.signals import SkippedRecords
from streams.controller.controller import PartitionController
from streams.controller.rebuild import WINDOW_TOPICS
from streams.endpoints.effects import TickEffects
from tests.streams.controller.line import Arrival, feed_all


@dataclass(frozen=True)
class Gap:
    """Samples that are received up to `until_s` are left unread, from `first` on."""

    skipped: tuple[SkippedRecords, ...]
    first: Arrival
    until_s: float

    @classmethod
    def of(cls, arrivals: Sequence[Arrival], first: int, end: int) -> "Gap":
        found = []
        for topic in WINDOW_TOPICS:
            inside = [arrival.offset for arrival in arrivals[first:end] if arrival.topic == topic]
            if inside:
                until_s = arrivals[end - 1].received_s
                found.append(
                    SkippedRecords(topic=topic, first_offset=inside[0], end_offset=inside[-1] + 1, until_s=until_s)
                )
        return cls(tuple(found), arrivals[first], arrivals[end - 1].received_s)

    @classmethod
    def anywhere(cls, arrivals: Sequence[Arrival], rng: random.Random) -> "Gap":
        """Somewhere in the middle, a third of all arrivals at most."""
        first = rng.randint(len(arrivals) // 4, len(arrivals) // 2)
        return cls.of(arrivals, first, first + rng.randint(1, len(arrivals) // 3))

    def holds(self, arrival: Arrival) -> bool:
        return any(
            one.topic == arrival.topic and one.first_offset <= arrival.offset < one.end_offset for one in self.skipped
        )

    def feed(
        self, controller: PartitionController, arrivals: Sequence[Arrival], cut: random.Random
    ) -> list[TickEffects]:
        """Feed arrivals to a controller that skips at the gap's beginning, unless one before it already has."""
        made: list[TickEffects] = []
        rest = arrivals
        if set(self.skipped) <= set(controller.skipped_records):
            controller.mark_behind(self.until_s)
        elif self.first in arrivals:
            at = arrivals.index(self.first)
            made += feed_all(controller, arrivals[:at], cut)
            for one in self.skipped:
                controller.skip(one)
            controller.mark_behind(self.until_s)
            rest = arrivals[at:]
        return made + feed_all(controller, [arrival for arrival in rest if not self.holds(arrival)], cut)
