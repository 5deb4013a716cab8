"""The consumer's thread says nothing untrue after a pause of its process."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mode.threads import ServiceThread

from streams.shell.consumer_thread import ConsumerThread


class PausedOnce:
    """What a keepalive uses of its service, which was last awake long ago, for one round."""

    last_wakeup_at = 0.001

    def __init__(self) -> None:
        self.should_stop = False
        self.woken = 0
        self.errors: list[str] = []
        self.log = self

    def error(self, message: str) -> None:
        self.errors.append(message)

    async def sleep(self, _: float) -> None:
        """At once: the pause is over."""

    async def _wakeup_timer_in_thread(self) -> None:
        self.woken += 1
        self.should_stop = True


@pytest.mark.parametrize(
    ("keepalive", "errors"),
    [(ServiceThread._keepalive2, 1), (ConsumerThread._keepalive2, 0)],
    ids=["mode's", "ours"],
)
async def test_a_pause_is_not_told_as_a_thread_that_does_not_respond(
    keepalive: Callable[[Any], Awaitable[None]], errors: int
) -> None:
    service = PausedOnce()
    await keepalive(service)
    assert (service.woken, len(service.errors)) == (1, errors)
