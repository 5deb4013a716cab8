"""Checks plain values against a msgspec struct: all that does not fit, and a repaired copy."""

import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect

from headrace.nearest import nearest
from headrace.policies.documents import Document
from headrace.policies.problems import KeyPath, Problem, value_text
from headrace.setting_ranges import choices_text

LIST_MAX = 1_000
"""Longest list of a policy where its type sets no limit."""

_FILLING_TEXT = {"^([01][0-9]|2[0-3]):[0-5][0-9]$": "00:00"}


@dataclass(frozen=True)
class Fitted:
    """`problems` and the `paths` they are at; `value` is a copy in which each wrong value has its default, or any."""

    problems: tuple[Problem, ...]
    paths: tuple[KeyPath, ...]
    value: dict[str, Any]


def fit(document: Document, model: type[msgspec.Struct], keys: str = "the keys of the contract") -> Fitted:
    """Check the document's root against `model`; `value` of the answer can always be converted to it.

    `keys` says of an unknown key what is allowed.
    """
    walk = _Walk(document, keys)
    kind = inspect.type_info(model)
    assert isinstance(kind, inspect.StructType)
    value = walk.struct(kind, document.root, ())
    return Fitted(tuple(walk.problems), tuple(walk.paths), value)


@dataclass(frozen=True)
class _Expected:
    """A value's type as msgspec knows it and as it was written, and whether its key may be left out."""

    kind: inspect.Type
    annotation: Any
    required: bool


class _Walk:
    def __init__(self, document: Document, keys: str) -> None:
        self._document = document
        self._keys = keys
        self.problems: list[Problem] = []
        self.paths: list[KeyPath] = []

    def struct(self, kind: inspect.StructType, value: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
        fields = {field.encode_name: field for field in kind.fields}
        annotations = typing.get_type_hints(kind.cls, include_extras=True)
        repaired: dict[str, Any] = {}
        for key, item in value.items():
            if key not in fields:
                self._unknown((*path, key), list(fields))
                continue
            field = fields[key]
            expected = _Expected(field.type, annotations[field.name], field.required)
            fitted = self._value(item, expected, (*path, key))
            if fitted is not msgspec.UNSET:
                repaired[key] = fitted
        for key, field in fields.items():
            if field.required and key not in value:
                self._wrong((*path, key), "missing", range_text(field.type))
                repaired[key] = _filling(field.type)
        return repaired

    def _value(self, value: Any, expected: _Expected, path: KeyPath) -> Any:
        """The value, repaired; UNSET where it is wrong and the default does."""
        kind = _without_null(expected.kind)
        if value is None and kind is not expected.kind:
            return None
        if isinstance(kind, inspect.StructType) and isinstance(value, dict):
            return self.struct(kind, value, path)
        if isinstance(kind, inspect.VarTupleType) and isinstance(value, list):
            low, high = kind.min_length or 0, kind.max_length or LIST_MAX
            if low <= len(value) <= high:
                item = _Expected(kind.item_type, _item_annotation(expected.annotation), True)
                return [self._value(part, item, (*path, index)) for index, part in enumerate(value)]
        elif not isinstance(kind, inspect.StructType) and _fits(value, expected.annotation):
            return value
        self._wrong(path, value_text(value), range_text(kind), _value_hint(kind, value, expected.required))
        return _filling(kind) if expected.required else msgspec.UNSET

    def _unknown(self, path: KeyPath, known: list[str]) -> None:
        near = nearest(str(path[-1]), known)
        if near is None:
            self._wrong(path, "unknown key", ", ".join(known))
        else:
            self._wrong(path, "unknown key", self._keys, f"did you mean {near}?")

    def _wrong(self, path: KeyPath, value: str, allowed: str, hint: str = "") -> None:
        self.problems.append(self._document.problem(path, value, allowed, hint))
        self.paths.append(path)


def range_text(kind: inspect.Type) -> str:
    """What a type accepts, in words."""
    match _without_null(kind):
        case inspect.IntType() as number:
            return f"a whole number, {_limits_text(number)}"
        case inspect.FloatType() as number:
            return f"a number, {_limits_text(number)}"
        case inspect.StrType(pattern=str()):
            return "HH:MM, 00:00 to 23:59"
        case inspect.StrType(min_length=low, max_length=high):
            return f"text of {low or 0} to {high} characters" if high else "text"
        case inspect.EnumType(cls=choices):
            return choices_text([str(choice.value) for choice in choices])
        case inspect.LiteralType(values=values):
            return choices_text([str(value) for value in values])
        case inspect.BoolType():
            return "true or false"
        case inspect.StructType(fields=fields):
            return "a mapping with " + ", ".join(field.encode_name for field in fields)
        case inspect.VarTupleType(min_length=low, max_length=high):
            return f"a list of {low or 0} to {high or LIST_MAX}"
        case other:
            raise TypeError(f"a policy has no field of {other}")


def _filling(kind: inspect.Type) -> Any:
    """Any value that fits, to stand for a required one that does not."""
    match _without_null(kind):
        case inspect.IntType(ge=low):
            return int(low or 0)
        case inspect.FloatType(ge=low, le=high):
            return float(high if high is not None else low or 0)
        case inspect.StrType(pattern=pattern):
            return _FILLING_TEXT[pattern] if pattern else "?"
        case inspect.EnumType(cls=choices):
            return next(iter(choices)).value
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.BoolType():
            return False
        case inspect.StructType(fields=fields):
            return {field.encode_name: _filling(field.type) for field in fields if field.required}
        case inspect.VarTupleType(item_type=item, min_length=low):
            return [_filling(item) for _ in range(low or 0)]
        case other:
            raise TypeError(f"a policy has no field of {other}")


def _fits(value: Any, annotation: Any) -> bool:
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError:
        return False
    return not isinstance(value, float) or math.isfinite(value)


def _without_null(kind: inspect.Type) -> inspect.Type:
    if isinstance(kind, inspect.UnionType):
        return next(part for part in kind.types if not isinstance(part, inspect.NoneType))
    return kind


def _item_annotation(annotation: Any) -> Any:
    """What the items of a tuple are annotated with: `float` of `Annotated[tuple[float, ...], ...] | None`."""
    if typing.get_origin(annotation) is tuple:
        return typing.get_args(annotation)[0]
    inner = (_item_annotation(part) for part in typing.get_args(annotation))
    return next((found for found in inner if found is not None), None)


def _value_hint(kind: inspect.Type, value: Any, required: bool) -> str:
    if value is None:
        return "" if required else "leave the key out for its default"
    if isinstance(kind, inspect.EnumType) and isinstance(value, str):
        near = nearest(value, [str(choice.value) for choice in kind.cls])
        return f"did you mean {near}?" if near else ""
    if isinstance(kind, (inspect.IntType, inspect.FloatType)) and isinstance(value, str):
        return "numbers stand without quotes" if value.replace(".", "", 1).isdecimal() else ""
    if isinstance(kind, inspect.StrType) and isinstance(value, (int, float)):
        return "put it in quotes"
    return ""


def _limits_text(number: inspect.IntType | inspect.FloatType) -> str:
    low = f"{number.ge:.15g}" if number.ge is not None else f"above {number.gt:.15g}" if number.gt is not None else ""
    high = f"{number.le:.15g}" if number.le is not None else ""
    return f"{low} to {high}" if high else f"{low} or more" if low else "finite"
