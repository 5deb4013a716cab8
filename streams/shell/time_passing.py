"""Lets a long time pass in steps: a tick falls due for each endpoint in each five seconds of it."""

from collections.abc import Iterator, Sequence

from streams.shell.tick_source import Effects, TickSource

STEP_S = 60.0
"""A dozen ticks of each endpoint: they are written before many more are made."""


def passing(source: TickSource, until_s: float) -> Iterator[Sequence[Effects]]:
    """The ticks of each step up to `until_s`, UNIX s; whoever stops in between goes on later from where time stands."""
    passed_s = source.processed_s
    while passed_s is not None and passed_s + STEP_S < until_s:
        passed_s += STEP_S
        yield source.advance(passed_s)
    yield source.advance(until_s)
