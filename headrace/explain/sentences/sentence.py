"""A sentence of an explanation: its kind, its text, and the numbers that the text says."""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What a sentence is about; explanations have their kinds in this order."""

    DECIDED = "decided"
    REASON = "reason"
    VICTIM = "victim"
    DETAIL = "detail"
    OUTCOME = "outcome"
    LAST = "last"
    SEEN = "seen"
    SUPPLY = "supply"
    TARGET = "target"
    SOURCE = "source"
    BLOCKER = "blocker"
    PROPOSED = "proposed"
    BOUND = "bound"
    FLOOR = "floor"
    NOT_UP = "not_up"
    NOT_DOWN = "not_down"
    OTHERWISE = "otherwise"
    EARLIEST = "earliest"


Numbers = dict[str, float | int]
Said = tuple[str, Numbers]
"""Words, and the numbers in them."""


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """`numbers` has what the text says in digits, unshortened, by name; times are UNIX seconds there."""

    kind: Kind
    text: str
    numbers: Numbers = {}


def say(kind: Kind, text: str, **numbers: float | int | None) -> Sentence:
    """A sentence; numbers that are null are not in its text."""
    return Sentence(kind=kind, text=text, numbers={name: it for name, it in numbers.items() if it is not None})
