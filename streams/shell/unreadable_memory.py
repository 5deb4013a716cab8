"""Says where a memory that cannot be read is, what is wrong with it, and how to go on.

Why it ends the worker is in docs/adr/0011-an-unreadable-memory-stops.md.
"""

from collections.abc import Mapping

import msgspec

from records.memory import ControllerMemory
from records.scaling_memory import ScalingMemory
from records.supply_memory import SupplyMemory
from streams.shell.remembered import Rejected
from wire.codec import UNREADABLE

NAMES_TOLD = 3
NAME_CHARS_MAX = 100
PAGE = "docs/cluster.md#a-memory-that-cannot-be-read"
_PARTS: Mapping[str, type[msgspec.Struct]] = {"scaling": ScalingMemory, "supply": SupplyMemory}


class UnreadableMemoryError(Exception):
    """What is remembered of endpoints that are to be decided cannot be read. Its text is one line for an operator."""

    def __init__(self, lost: Mapping[str, Rejected]) -> None:
        endpoint, first = min(lost.items(), key=lambda it: (it[1].message.offset, it[0]))
        others = sorted(lost.keys() - {endpoint})
        super().__init__(_printable(f"{_place(endpoint, first)}: {_reason(first)}{_too(others)}; {_remedy(endpoint)}"))


def _place(endpoint: str, rejected: Rejected) -> str:
    message = rejected.message
    key = "without a key" if message.key is None else f"key {_short(endpoint)}"
    return f"{message.topic}, partition {message.partition}, offset {message.offset}, {key}"


def _reason(rejected: Rejected) -> str:
    unknown = unknown_fields(rejected.message.value)
    if unknown:
        told = _listed(unknown)
        newer = f"; a newer version has written it, with fields that this one does not know ({told}): run that version"
        return f"{rejected.error}{newer}"
    return str(rejected.error)


def _too(others: list[str]) -> str:
    return f"; the same of {_listed(others)}" if others else ""


def _remedy(endpoint: str) -> str:
    name = _short(endpoint)
    return (
        f"without what is remembered of {name} its ticks would be decided again: write its last good record under its "
        f"key, or forget it (headrace policy apply --delete {name}) and begin anew (hint: {PAGE})"
    )


def unknown_fields(value: bytes | None) -> list[str]:
    """Fields that no memory of this version has, where the value is shaped like one at all."""
    try:
        found = msgspec.json.decode(value or b"")
    except UNREADABLE:
        return []
    if not isinstance(found, dict) or not found.keys() >= {"endpoint", "at_s", "offsets", *_PARTS}:
        return []
    unknown = sorted(found.keys() - set(ControllerMemory.__struct_fields__))
    for part, kind in _PARTS.items():
        if isinstance(found[part], dict):
            unknown += [f"{part}.{name}" for name in sorted(found[part].keys() - set(kind.__struct_fields__))]
    return unknown


def _listed(names: list[str]) -> str:
    told = [_short(name) for name in names[:NAMES_TOLD]]
    return ", ".join([*told, f"{len(names) - NAMES_TOLD} more"] if len(names) > NAMES_TOLD else told)


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARS_MAX else f"{name[:NAME_CHARS_MAX]}…"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
