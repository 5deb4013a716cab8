"""The files of a replay: plain, gzip by their ending, or `-` for the standard streams."""

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from headrace.exit_codes import CannotRunError, reader_gone

STANDARD = "-"


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """Raises CannotRunError for a file that cannot be read, also in its middle."""
    if name == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        with cast(BinaryIO, gzip.open(name, "rb") if name.endswith(".gz") else Path(name).open("rb")) as opened:
            yield opened
    except (OSError, EOFError) as error:
        raise CannotRunError(f"--telemetry: {name}: {_said(error)}") from error


@contextmanager
def open_output(name: str) -> Iterator[BinaryIO]:
    """A file appears whole, when the block ends without an exception, or not at all.

    gzip gets neither a name nor a time, so that equal contents are equal bytes. Raises CannotRunError.
    """
    if name == STANDARD:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            raise reader_gone() from error
        return
    target = Path(name)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as raw:
            if name.endswith(".gz"):
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield raw
        part.replace(target)
    except OSError as error:
        raise CannotRunError(f"--out: {name}: {_said(error)}") from error
    finally:
        part.unlink(missing_ok=True)


def _said(error: OSError | EOFError) -> str:
    return getattr(error, "strerror", None) or str(error)
