"""Named points of a write at which a test may stop, kill or fail the sink; in production they do nothing."""

from enum import StrEnum
from typing import Protocol


class Point(StrEnum):
    """In the order in which one flush passes them."""

    BEFORE_DEAD_LETTERS = "before_dead_letters"
    AFTER_DEAD_LETTERS = "after_dead_letters"
    """Dead letters are committed, the rows of the same messages are not."""
    BEFORE_COMMIT = "before_commit"
    """The table was opened and its progress read; the rows are about to be written."""
    AFTER_COMMIT = "after_commit"
    """Rows and progress are in the Delta log, the Kafka offsets are not committed."""
    AFTER_OFFSETS = "after_offsets"


class Faults(Protocol):
    """Called at every point, with the table's name; may block, raise, or never return."""

    def reached(self, point: Point, table: str) -> None: ...


class NoFaults:
    """What production uses."""

    def reached(self, point: Point, table: str) -> None:
        """Goes on."""
