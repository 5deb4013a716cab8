"""Ticks read matrices of whole windows: none of them may wait in memory until Python looks for circles."""

import gc

from streams.signals.readings import TickReading, WindowReading
from streams.windows.grid import Grid
from tests.streams.controller.line import run
from tests.streams.controller.random_line import POLICIES, random_line


def test_what_a_tick_has_read_is_freed_with_it() -> None:
    line = random_line(3, 60)
    gc.collect()
    gc.disable()
    try:
        made = run(line, *POLICIES)
        left = [one for one in gc.get_objects() if isinstance(one, TickReading | WindowReading | Grid)]
    finally:
        gc.enable()
    assert len(made) > 20
    assert left == []
