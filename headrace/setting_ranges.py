"""What a setting's field accepts, in words: for messages and for `--help`."""

import types
import typing
from pathlib import Path
from typing import Any, Literal

import annotated_types
from pydantic import SecretStr
from pydantic.fields import FieldInfo

_KINDS = {int: "a whole number", float: "a number", Path: "a path", SecretStr: "text", str: "text"}


def allowed_text(field: FieldInfo) -> str:
    """For example `0 to 65535`, `true or false`, `a, b or c`; empty where the type says nothing."""
    annotation = without_none(field.annotation)
    if typing.get_origin(annotation) is Literal:
        return choices_text([str(choice) for choice in typing.get_args(annotation)])
    if annotation is bool:
        return "true or false"
    if annotation is str:
        patterns = [f"text like {m.pattern}" for m in field.metadata if getattr(m, "pattern", None)]
        return patterns[0] if patterns else _length_text(field.metadata)
    limits = _limits_text(field.metadata)
    return limits if limits else _KINDS.get(annotation, "")


def choices_text(choices: list[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]


def without_none(annotation: Any) -> Any:
    """The type inside `X | None`; any other as it is."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [part for part in typing.get_args(annotation) if part is not type(None)]
        return inner[0] if len(inner) == 1 else annotation
    return annotation


def is_secret(field: FieldInfo) -> bool:
    """Whether its value must not be shown, nor stand on a command line."""
    return without_none(field.annotation) is SecretStr


def _length_text(metadata: list[Any]) -> str:
    """For example `text of 1 to 200 characters`; empty where any length will do."""
    low, high = 0, 0
    for rule in metadata:
        match rule:
            case annotated_types.MinLen(min_length=length):
                low = length
            case annotated_types.MaxLen(max_length=length):
                high = length
    if high:
        return f"text of {low} to {high} characters"
    return f"text of at least {low} character{'s' if low > 1 else ''}" if low else ""


def _limits_text(metadata: list[Any]) -> str:
    low = high = ""
    for rule in metadata:
        match rule:
            case annotated_types.Ge(ge=bound):
                low = f"{bound}"
            case annotated_types.Gt(gt=bound):
                low = f"above {bound}"
            case annotated_types.Le(le=bound):
                high = f"{bound}"
            case annotated_types.Lt(lt=bound):
                high = f"below {bound}"
    if low and high:
        return f"{low} to {high}"
    if low:
        return low if low.startswith("above") else f"{low} or more"
    return high if high.startswith("below") else f"up to {high}" if high else ""
