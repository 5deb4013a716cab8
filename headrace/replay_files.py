"""The files of a replay: plain, gzip by their ending, or `-` for the standard streams."""

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from headrace.exit_codes import CannotRunError, ExitCode, code_of_path, reader_gone
from wire.gzip_files import is_packed, packing

STANDARD = "-"
CHECKED_BYTES = 1 << 20
"""Bytes that are unpacked at a time where a gzip file is checked."""

_UNREADABLE = (OSError, EOFError, zlib.error)


@contextmanager
def open_input(name: str) -> Iterator[Iterator[bytes]]:
    """The lines of a file with their ends; those of standard input as soon as each is there.

    A gzip file is read to its end before its first line is given, so that one that is torn gives none. Raises
    CannotRunError for a file that cannot be read, also in its middle.
    """
    if name == STANDARD:
        if sys.stdin is None:
            raise CannotRunError("--telemetry: -: standard input is closed")
        yield _lines(iter(sys.stdin.buffer.readline, b""), name)
        return
    try:
        # A pipe can be read only once.
        if is_packed(name) and Path(name).is_file():
            _check(name)
        with cast(BinaryIO, gzip.open(name, "rb") if is_packed(name) else Path(name).open("rb")) as opened:
            yield _lines(opened, name)
    except _UNREADABLE as error:
        raise _unreadable(name, error) from error


def _lines(lines: Iterator[bytes], name: str) -> Iterator[bytes]:
    """What fails here is the input's fault, and not that of the output which is open at the same time."""
    try:
        yield from lines
    except _UNREADABLE as error:
        raise _unreadable(name, error) from error


def _check(name: str) -> None:
    with gzip.open(name, "rb") as packed:
        while packed.read(CHECKED_BYTES):
            pass


def _unreadable(name: str, error: Exception) -> CannotRunError:
    if isinstance(error, OSError) and error.errno is not None:
        return CannotRunError(f"--telemetry: {name}: {_said(error)}")
    return CannotRunError(f"--telemetry: {name}: not a sound gzip file ({error})")


@contextmanager
def open_output(name: str) -> Iterator[BinaryIO]:
    """A file appears whole, when the block ends without an exception, or not at all; a symbolic link stays, and what
    it points to is replaced. Devices and pipes are written as they are.

    gzip gets neither a name nor a time, so that equal contents are equal bytes. Raises CannotRunError: STORAGE for a
    disk that is full or may not be written, USAGE for a place that cannot be.
    """
    if name == STANDARD:
        with _standard_output() as out:
            yield out
        return
    try:
        if Path(name).exists() and not Path(name).is_file():
            with Path(name).open("wb") as raw, packing(raw, name) as out:
                yield out
        else:
            with _whole_file(Path(os.path.realpath(name)), name) as out:
                yield out
    except BrokenPipeError as error:
        raise CannotRunError("", ExitCode.READER_GONE) from error
    except OSError as error:
        raise CannotRunError(f"--out: {name}: {_said(error)}", code_of_path(error)) from error


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    if sys.stdout is None:
        raise CannotRunError("--out: -: standard output is closed")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except OSError as error:
        # This also drops what is still buffered, or Python would try to write it once more at its end.
        gone = reader_gone()
        if isinstance(error, BrokenPipeError):
            raise gone from error
        raise CannotRunError(f"--out: -: {_said(error)}", code_of_path(error)) from error


@contextmanager
def _whole_file(target: Path, name: str) -> Iterator[BinaryIO]:
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as raw, packing(raw, name) as out:
            yield out
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _said(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
