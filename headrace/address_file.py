"""A file that gets the address of a server once that is served, for whoever started the process."""

import os
from pathlib import Path

from headrace.exit_codes import CannotRunError


def write_address(path: Path | None, address: str, flag: str) -> None:
    """Write under another name first: a reader sees all of it or nothing. Nothing happens where `path` is None.

    Raises CannotRunError, which names the flag, where it cannot be written.
    """
    if path is None:
        return
    try:
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_text(f"{address}\n")
        unfinished.rename(path)
    except OSError as error:
        raise CannotRunError(f"{flag}: {path} cannot be written: {error.strerror}") from error
