"""Named moments of carrying out a decision, so that tests can kill or stop an actuator exactly there."""

from enum import StrEnum
from typing import Protocol


class FaultPoint(StrEnum):
    """In the order in which one attempt passes them."""

    GOT = "got"
    """The target was read; the log's end was not looked at since."""
    CONFIRMED = "confirmed"
    """The newest decision at the log's end is known."""
    CALLING = "calling"
    """Victims are marked; the compare-and-set is about to be sent."""
    CALLED = "called"
    """The compare-and-set was answered, and nothing was done with the answer yet."""
    OUTCOME_DUE = "outcome_due"
    """What became of the decision is known, and the outcome is not sent yet."""
    OUTCOME_WRITTEN = "outcome_written"
    """The outcome is in the log, the offset is not committed."""


class FaultPoints(Protocol):
    """Called at every point; may wait, raise, or never return."""

    async def reached(self, point: FaultPoint, endpoint: str) -> None: ...


class NoFaults:
    """What production uses."""

    async def reached(self, point: FaultPoint, endpoint: str) -> None:
        """Nothing happens."""
