"""How a Headrace process ends: one table for every command, and the exception that ends one with a message."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit statuses. 0 to 2 mean the same for every command; the others tell a supervisor what to look at."""

    OK = 0
    INCOMPLETE = 1
    USAGE = 2
    UNAVAILABLE = 3
    PARTITIONS = 4
    STORAGE = 5
    STUCK = 6
    CHILD_ENDED = 7
    REFUSED = 8
    UNREADABLE = 9
    BUG = 70
    INTERRUPTED = 130
    READER_GONE = 141

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "done, or stopped as asked",
    ExitCode.INCOMPLETE: "done, but not all of it was good",
    ExitCode.USAGE: "could not run: a setting, a file or a policy is wrong",
    ExitCode.UNAVAILABLE: "Kafka, Java, Maven or a port is missing or does not answer",
    ExitCode.PARTITIONS: "topics are missing, or their numbers of partitions differ",
    ExitCode.STORAGE: "a disk is full, or a folder is gone or may not be written",
    ExitCode.STUCK: "there was work and no progress; start it again",
    ExitCode.CHILD_ENDED: "a process that this one runs ended unexpectedly",
    ExitCode.REFUSED: "Kafka refuses it: a user, a password, a certificate or a right is wrong",
    ExitCode.UNREADABLE: "what a worker remembers of an endpoint cannot be read; its message says how to go on",
    ExitCode.BUG: "an error that nobody expected; the log has its traceback",
    ExitCode.INTERRUPTED: "interrupted before it was done",
    ExitCode.READER_GONE: "whoever read its output, such as `head`, has ended",
}


_NO_SUCH_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)


def code_of_path(error: OSError) -> ExitCode:
    """Of a path that was given: USAGE where there can be no such place, STORAGE where it is not ours, or is full."""
    return ExitCode.USAGE if error.errno in _NO_SUCH_PLACE else ExitCode.STORAGE


def explain(codes: Iterable[ExitCode]) -> str:
    """`Exit status: 0 done..., 2 could not run...`, for a command's help."""
    return "Exit status: " + "; ".join(f"{code.value} {code.meaning}" for code in sorted(codes)) + "."


class CannotRunError(Exception):
    """Ends a command with a message for its user, without a traceback. `message` may have several lines, or none."""

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def tell(self) -> None:
        """On stderr: the message is the program's answer."""
        if self.message:
            with contextlib.suppress(OSError):  # nowhere is left to say it: the status does
                print(self.message, file=sys.stderr, flush=True)  # noqa: T201  # no log: it is the answer


def reader_gone() -> CannotRunError:
    """What a broken pipe at standard output becomes: as with other Unix tools, a status and no message.

    What is still buffered goes nowhere, or Python would complain about it at its end.
    """
    drop_output()
    return CannotRunError("", ExitCode.READER_GONE)


def drop_output() -> None:
    """Send what is still written to standard output nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
