"""TIME as a user gives it: UNIX seconds, ISO 8601, or so long ago."""

import re
from datetime import UTC, datetime
from typing import Final

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from headrace.exit_codes import CannotRunError
from records.fields import SECOND_MAX

FORM = "UNIX seconds, 2026-03-29T08:00:00+02:00 (without a zone: UTC), or so long ago: -90s, -10m, -1h30m, -2d"

_AGO = re.compile(r"-(?:(?P<d>\d{1,9})d)?(?:(?P<h>\d{1,9})h)?(?:(?P<m>\d{1,9})m)?(?:(?P<s>\d{1,12})s?)?", re.ASCII)
_UNITS_S = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_SECONDS = re.compile(r"\d+(\.\d*)?", re.ASCII)


def parse_time(text: str, now_s: float) -> int:
    """The whole UNIX second of a TIME; `now_s` is what relative ones start from.

    Raises ValueError, with what is allowed, for anything else, and for a time out of range.
    """
    text = text.strip()
    ago = _AGO.fullmatch(text)
    if _SECONDS.fullmatch(text):
        at_s = float(text)
    elif ago is not None and text != "-":
        at_s = now_s - sum(int(ago[unit] or 0) * unit_s for unit, unit_s in _UNITS_S.items())
    else:
        at_s = _iso(text)
    if not 0 <= at_s <= SECOND_MAX:
        raise ValueError(f"1970 to 9999: {FORM}")
    return int(at_s)


def given_second(flag: str, text: str, now_s: float) -> int:
    """As `parse_time`, of a setting marked with TIME. Raises CannotRunError where so long ago was before 1970."""
    try:
        return parse_time(text, now_s)
    except ValueError as error:
        raise CannotRunError(f"{flag}: {text!r}, allowed: {error}") from error


def _checked(value: object) -> object:
    """Relative times stay as they are: they are made absolute later, from one now."""
    if value is None:
        return None
    try:
        parse_time(str(value), SECOND_MAX)
    except ValueError as error:
        raise PydanticCustomError("time", "{form}", {"form": str(error)}) from None
    return str(value)


TIME: Final = BeforeValidator(_checked)
"""Marks a field: `at: Annotated[str | None, TIME]`. A file may have numbers and times of TOML, too."""


def _iso(text: str) -> float:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(FORM) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
