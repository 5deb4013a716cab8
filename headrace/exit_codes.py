"""How a Headrace process ends: one table for every command, and the exception that ends one with a message."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit statuses. 0 to 2 mean the same for every command; the others tell a supervisor what to look at."""

    OK = 0
    """Everything was done; a server was asked to stop and did."""
    INCOMPLETE = 1
    """Done, but not all of it was good: dead letters in a replay, a check that found something."""
    USAGE = 2
    """Could not run: a setting, a file or a policy is wrong. The message names it, and nothing was written."""
    UNAVAILABLE = 3
    """Something outside is missing or does not answer: Kafka, Java, Maven, a port."""
    PARTITIONS = 4
    """Topics are missing, or those that belong together have different numbers of partitions."""
    STORAGE = 5
    """A disk is full, or a table's folder is gone or may not be written."""
    STUCK = 6
    """There was work, and no progress for too long; a restart moves the work elsewhere."""
    CHILD_ENDED = 7
    """`up` and `demo`: one of the processes that they run ended unexpectedly."""
    BUG = 70
    """An exception that nobody expected; the log has its traceback."""
    INTERRUPTED = 130
    """Ended by Ctrl-C before it was ready or done."""


class CannotRunError(Exception):
    """Ends a command with a message for its user, without a traceback. `message` may have several lines."""

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
