"""Keeps whoever repeats himself from filling the log: one line of a kind in ten seconds, with a count."""

import logging
from collections.abc import Hashable
from dataclasses import dataclass

EVERY_S = 10.0
FORGOTTEN_S = 60.0
"""A kind that was silent for this long begins anew."""
KINDS_MAX = 256
EXPECTED = ("GroupCoordinatorNotAvailableError",)
"""What a broker that has just started answers for a moment: told only if it goes on for EVERY_S."""


@dataclass(slots=True)
class _Kind:
    told_s: float
    seen_s: float
    left_out: int = 0


class _Kinds:
    """What was told when."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def left_out(self, key: Hashable, now_s: float, *, is_expected: bool = False) -> int | None:
        """How many of this kind were left out before this one; null if this one is to be left out, too."""
        kind = self._kinds.get(key)
        if kind is None or now_s - kind.seen_s > FORGOTTEN_S:
            if len(self._kinds) >= KINDS_MAX:
                self._kinds.clear()
            kind = self._kinds[key] = _Kind(told_s=now_s if is_expected else now_s - EVERY_S, seen_s=now_s)
        kind.seen_s = now_s
        if now_s - kind.told_s < EVERY_S:
            kind.left_out += 1
            return None
        found, kind.told_s, kind.left_out = kind.left_out, now_s, 0
        return found


class RepeatsFilter(logging.Filter):
    """For a handler: of the loggers below `name` it lets through one record of a kind in EVERY_S seconds.

    A kind is a logger, a level and a message before its arguments. The record that is let through has `repeated`, the
    number of those that were left out since the one before it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._kinds = _Kinds()

    def filter(self, record: logging.LogRecord) -> bool:
        if not super().filter(record):
            return True
        is_expected = any(word in record.getMessage() for word in EXPECTED)
        key = (record.name, record.levelno, str(record.msg), is_expected)
        left_out = self._kinds.left_out(key, record.created, is_expected=is_expected)
        if left_out:
            record.repeated = left_out
        return left_out is not None


class SameEventsFilter(logging.Filter):
    """For a handler: of structlog's warnings and errors it lets through one of the same event and fields in EVERY_S
    seconds, with `repeated` as above: whatever tries again twice a second says the same each time."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds = _Kinds()

    def filter(self, record: logging.LogRecord) -> bool:
        event: object = record.msg
        if not isinstance(event, dict) or record.levelno < logging.WARNING:
            return True
        said = frozenset((name, repr(value)) for name, value in event.items() if name != "timestamp")
        left_out = self._kinds.left_out((record.name, record.levelno, said), record.created)
        if left_out:
            event["repeated"] = left_out
        return left_out is not None
