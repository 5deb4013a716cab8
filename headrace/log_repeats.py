"""Keeps libraries that repeat themselves from filling the log: one line of a kind in ten seconds, with a count."""

import logging
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


class RepeatsFilter(logging.Filter):
    """For a handler: of the loggers below `name` it lets through one record of a kind in EVERY_S seconds.

    A kind is a logger, a level and a message before its arguments. The record that is let through has `repeated`, the
    number of those that were left out since the one before it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._kinds: dict[tuple[str, int, str, bool], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not super().filter(record):
            return True
        is_expected = any(word in record.getMessage() for word in EXPECTED)
        kind = self._kind((record.name, record.levelno, str(record.msg), is_expected), record.created)
        if record.created - kind.told_s < EVERY_S:
            kind.left_out += 1
            return False
        if kind.left_out:
            record.repeated = kind.left_out
        kind.told_s, kind.left_out = record.created, 0
        return True

    def _kind(self, key: tuple[str, int, str, bool], now_s: float) -> _Kind:
        kind = self._kinds.get(key)
        if kind is None or now_s - kind.seen_s > FORGOTTEN_S:
            if len(self._kinds) >= KINDS_MAX:
                self._kinds.clear()
            is_expected = key[-1]
            kind = self._kinds[key] = _Kind(told_s=now_s if is_expected else now_s - EVERY_S, seen_s=now_s)
        kind.seen_s = now_s
        return kind
