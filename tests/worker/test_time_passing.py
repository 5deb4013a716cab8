"""A long time passes in steps, with the same decisions as at once."""

from typing import cast

from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from streams.shell.tick_source import TickSource
from streams.shell.time_passing import STEP_S, passing
from tests.streams.controller.line import Line, feed_all, policy, sample, started

BEGIN_S = 1000
PASSED_S = 400.0


def _fed() -> PartitionController:
    line = Line()
    line.samples(sample(BEGIN_S + second) for second in range(100))
    controller = started(policy())
    feed_all(controller, line.arrivals)
    return controller


class _Advanced:
    """A controller as a source of ticks, as far as time is concerned."""

    def __init__(self) -> None:
        self._controller = _fed()

    @property
    def processed_s(self) -> float | None:
        return self._controller.processed_s

    def advance(self, now_s: float) -> list[TickEffects]:
        return list(self._controller.advance(now_s))


def test_ticks_come_in_steps_and_are_decided_as_at_once() -> None:
    until_s = BEGIN_S + 100 + PASSED_S
    at_once = list(_fed().advance(until_s))
    steps = list(passing(cast(TickSource, _Advanced()), until_s))
    assert max(len(step) for step in steps) <= STEP_S / 5
    in_steps = [one for step in steps for one in step]
    assert [one.decisions for one in in_steps] == [one.decisions for one in at_once]
    assert [one.signal.windows for one in in_steps] == [one.signal.windows for one in at_once]


def test_who_stops_in_between_goes_on_where_time_stands() -> None:
    source = _Advanced()
    until_s = BEGIN_S + 100 + PASSED_S
    first = next(passing(cast(TickSource, source), until_s))
    rest = [one for step in passing(cast(TickSource, source), until_s) for one in step]
    assert [one.signal.at_s for one in [*first, *rest]] == list(range(BEGIN_S + 100, int(until_s) - 4, 5))


def test_back_in_time_nothing_happens() -> None:
    source = cast(TickSource, _Advanced())
    assert [list(step) for step in passing(source, 5.0)] == [[]]
