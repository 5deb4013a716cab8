"""The journal as a file, one JSON object a line, so that it can be read after the process has ended."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from headrace.exit_codes import CannotRunError, ExitCode
from simulation.journal import JournalEntry


class JournalFile:
    """Each entry is in the file, for other processes to see, before its call is answered; an old file is added to.

    Where it cannot be written, `failed` is called once and `raise_failed` raises: a journal with holes is none.
    """

    def __init__(self, path: Path, failed: Callable[[], None]) -> None:
        self._path = path
        self._failed = failed
        self._error: OSError | None = None
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._file = self._path.open("ab", buffering=0)
        except OSError as error:
            raise CannotRunError(f"--journal: {self._path} cannot be written: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, entry: JournalEntry) -> None:
        if self._file is None or self._error is not None:
            return
        line = memoryview(msgspec.json.encode(entry) + b"\n")
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            self._error = error
            self._failed()

    def raise_failed(self) -> None:
        """Raises CannotRunError (STORAGE) where an entry could not be written."""
        if self._error is not None:
            message = f"--journal: {self._path} cannot be written: {self._error.strerror}"
            raise CannotRunError(message, ExitCode.STORAGE) from self._error
