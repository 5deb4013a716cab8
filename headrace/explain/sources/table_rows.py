"""Rows of the tables as the records that they were written from."""

from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from msgspec import inspect

from records.policy import EndpointPolicy
from wire.arrow_columns import arrow_type

R = TypeVar("R", bound=msgspec.Struct)


def as_record(kind: type[R], row: dict[str, Any]) -> R:
    """A row as its record: columns that are no fields left out, nulls where the field has a default as if absent."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    known = {name: row[name] for name in fields if name in row}
    given = {name: value for name, value in known.items() if value is not None or fields[name].required}
    return msgspec.convert(given, kind, strict=False)


def policy_of(row: dict[str, Any]) -> EndpointPolicy:
    """Nested fields of a policy are JSON text in its table."""
    given = {}
    for field in msgspec.structs.fields(EndpointPolicy):
        value = row.get(field.encode_name)
        if value is not None:
            is_nested = pa.types.is_nested(arrow_type(inspect.type_info(field.type)))
            given[field.encode_name] = msgspec.json.decode(value) if is_nested else value
    return msgspec.convert(given, EndpointPolicy)


def sql_text(value: str) -> str:
    """An SQL string."""
    return "'" + value.replace("'", "''") + "'"
