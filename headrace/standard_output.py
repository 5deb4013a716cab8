"""Standard output that says so when it takes no more, so that a full disk ends a command with a line."""

import io
import sys
from typing import cast

from headrace.exit_codes import CannotRunError, ExitCode, drop_output, reader_gone


class OutputLostError(OSError):
    """Standard output could not be written, of all files."""


class ReaderGoneError(OutputLostError):
    """Whoever read standard output has ended.

    It is no BrokenPipeError, and has no number: Rich and Typer end a process with 1 where they see either.
    """


class Output(io.TextIOWrapper):
    """Raises OutputLostError."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise _lost(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise _lost(error) from error


def watch_output() -> None:
    """Put an Output in the place of Python's own, if that is what there is."""
    if type(sys.stdout) is io.TextIOWrapper:
        old = cast(io.TextIOWrapper, sys.stdout)
        encoding, errors, line_buffering = old.encoding, old.errors, old.line_buffering
        sys.stdout = Output(old.detach(), encoding, errors, line_buffering=line_buffering)


def flush_output() -> None:
    """Write what is left now: at Python's own end a failure would be a traceback. Raises CannotRunError."""
    try:
        sys.stdout.flush()
    except (OutputLostError, BrokenPipeError) as error:
        raise output_lost(error) from error


def output_lost(error: OSError) -> CannotRunError:
    """What a failure of standard output becomes."""
    if isinstance(error, BrokenPipeError | ReaderGoneError):
        return reader_gone()
    drop_output()
    return CannotRunError(f"standard output cannot be written: {error.strerror or error}", ExitCode.STORAGE)


def _lost(error: OSError) -> OutputLostError:
    if isinstance(error, BrokenPipeError):
        return ReaderGoneError("whoever read standard output has ended")
    return OutputLostError(error.errno, error.strerror)
