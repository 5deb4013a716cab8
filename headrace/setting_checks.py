"""Contradictions among settings: each check names the fields it reads, so that one wrong field hides no other check."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

C = TypeVar("C", bound=Callable[[Any], Iterable[str]])
M = TypeVar("M")

_READS = "reads_fields"


def check(*fields: str) -> Callable[[C], C]:
    """Mark a method of a settings class as a check that reads these fields; it gives one line for each problem.

    A subclass that overrides the method marks its own with all that it reads.
    """

    def mark(method: C) -> C:
        setattr(method, _READS, frozenset(fields))
        return method

    return mark


def contradictions(settings: object, unknown: frozenset[str]) -> list[str]:
    """What the checks of an object's class find, base classes first, without those that read an `unknown` field."""
    methods = {name: method for base in reversed(type(settings).__mro__) for name, method in vars(base).items()}
    found: list[str] = []
    for method in methods.values():
        reads = getattr(method, _READS, None)
        if reads is not None and not reads & unknown:
            found += method(settings)
    return found


def without(model: type[M], fields: frozenset[str]) -> type[M]:
    """The model with these fields unknown: they are neither required nor checked, and no check that reads them runs."""
    unknown = {**dict.fromkeys(fields), "__annotations__": dict.fromkeys(fields, Any), "unknown": fields}
    body = {"__module__": model.__module__, "section": "unknown", **unknown}
    return cast(type[M], cast(Any, type(model))(model.__name__, (model,), body))
