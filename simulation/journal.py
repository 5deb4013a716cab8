"""Every call that reached the fleet, in the order in which the calls took effect."""

from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec

ENTRIES_MAX = 100_000
"""Entries that are kept; older ones fall out, which `first_number` shows."""
ANSWER_MAX = 10_000
"""Most entries of one answer."""


NAMES_MAX = 20


def listed(names: Sequence[str]) -> str:
    """The first NAMES_MAX of some names: what calls are told is kept, and a caller may name a thousand each time."""
    return ", ".join(names[:NAMES_MAX]) + (f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else "")


class Call(StrEnum):
    """What was asked of a target."""

    GET = "get"
    SCALE = "scale"
    DRAIN = "drain"
    FAULT = "fault"


class CallResult(StrEnum):
    """How a call ended: carried out, made from an old version, not allowed, or about nothing that there is."""

    OK = "ok"
    CONFLICT = "conflict"
    REFUSED = "refused"
    NOT_FOUND = "not_found"


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One call. `at_s` is the clock's time, in event seconds; `number` rises by one from 1 on.

    `resource_version` is the one that a scale call gave, of any other call the one it saw; `version_after` is the
    target's own after the call. `requested` is what was asked for: a number of replicas, or the body of a drain or a
    fault. `endpoint` is null where a call was about all targets, the specs where it was about none.
    """

    number: int
    at_s: float
    call: Call
    endpoint: str | None
    actuator: str | None
    decision_id: str | None
    resource_version: str | None
    version_after: str | None
    requested: Any
    result: CallResult
    spec_before: int | None
    spec_after: int | None
    detail: str = ""


class Journal:
    """Keeps the newest entries. `written` is called with each one before its call is answered."""

    def __init__(self, entries_max: int = ENTRIES_MAX, written: Callable[[JournalEntry], None] | None = None) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=entries_max)
        self._written = written
        self.last_number = 0

    @property
    def first_number(self) -> int:
        """The number of the oldest entry kept; one above the last while there is none."""
        return self.last_number - len(self._entries) + 1

    def add(self, entry: JournalEntry) -> JournalEntry:
        """Number an entry and keep it; whatever number it has is replaced."""
        self.last_number += 1
        numbered = msgspec.structs.replace(entry, number=self.last_number)
        self._entries.append(numbered)
        if self._written is not None:
            self._written(numbered)
        return numbered

    def after(self, number: int, limit: int = ANSWER_MAX) -> list[JournalEntry]:
        """Entries with numbers above `number`, oldest first, at most `limit`."""
        begin = max(0, number - self.first_number + 1)
        return list(islice(self._entries, begin, begin + limit))
