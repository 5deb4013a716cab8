"""Recordings of engines: a JSON object a line, `.gz` by the ending; contract.md "Recordings of engines"."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, BinaryIO, cast

import msgspec
from msgspec import Meta

from collectors.answers import Answer, Path

LINE_BYTES_MAX = 16 * 1024 * 1024
"""Longest line that is read: an answer of the live collector's limit, escaped, fits; a hostile one fills no memory."""


class _Kind(msgspec.Struct):
    kind: str


_kind_decoder = msgspec.json.Decoder(_Kind)
_PATHS = {path.value: path for path in Path}
_UNREADABLE = (OSError, EOFError, zlib.error)


class RecordedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `t` is in seconds since the start; `err` is there instead of `code` where the connection failed."""

    t: Annotated[float, Meta(ge=0, le=1e9)]
    kind: str
    code: Annotated[int, Meta(ge=0, le=999)] | None = None
    err: str | None = None
    body: str | None = None


_decoder = msgspec.json.Decoder(RecordedAnswer)


@dataclass(frozen=True, kw_only=True)
class BrokenLine:
    """A line that is no answer: its number, counted from 1, and why."""

    number: int
    reason: str


def read_recording(path: FilePath) -> Iterator[RecordedAnswer | BrokenLine]:
    """The answers to `/metrics` and `/health` in order; other kinds are left out.

    A file that breaks off (or a broken gzip stream) ends in a BrokenLine. Raises OSError where it cannot be opened.
    """
    with _open(path) as file:
        number = 0
        while True:
            number += 1
            try:
                line = file.readline(LINE_BYTES_MAX + 1)
                if len(line) > LINE_BYTES_MAX:
                    _skip_line(file)
            except _UNREADABLE as error:
                yield BrokenLine(number=number, reason=f"the file cannot be read further: {error}")
                return
            if not line:
                return
            if found := _decode(number, line):
                yield found


def answer_of(recorded: RecordedAnswer, start_s: float) -> Answer:
    """The answer in event time; `start_s` is the UNIX time of `t = 0`."""
    return Answer(
        # microseconds, so that the sum of a UNIX time and a recorded one has no more digits than they
        at_s=round(start_s + recorded.t, 6),
        path=_PATHS[recorded.kind],
        code=recorded.code if recorded.err is None else None,
        failure=recorded.err,
        body=recorded.body or "",
    )


def length_of(path: FilePath) -> float:
    """Seconds from the start to the last answer; 0.0 without any. Raises OSError where it cannot be opened."""
    return max((found.t for found in read_recording(path) if isinstance(found, RecordedAnswer)), default=0.0)


def _open(path: FilePath) -> BinaryIO:
    opener = cast("Callable[[FilePath, str], BinaryIO]", gzip.open if path.suffix == ".gz" else open)
    return opener(path, "rb")


def _decode(number: int, line: bytes) -> RecordedAnswer | BrokenLine | None:
    """None for a kind that is not ours, and for an empty line."""
    if len(line) > LINE_BYTES_MAX:
        return BrokenLine(number=number, reason=f"longer than {LINE_BYTES_MAX} bytes")
    if not line.strip():
        return None
    try:
        if _kind_decoder.decode(line).kind not in _PATHS:
            return None
        found = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return BrokenLine(number=number, reason=str(error))
    if found.code is None and found.err is None:
        return BrokenLine(number=number, reason="neither code nor err")
    return found


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
        pass
