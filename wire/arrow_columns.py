"""Records to Arrow, column by column: the types that stand for a record's fields, and the arrays of their values."""

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import inspect

Build = Callable[[Sequence[Any]], pa.Array]
"""Makes the array of one field from its values in all records."""


def arrow_type(kind: inspect.Type) -> pa.DataType:
    """The Arrow type of a field's type. Raises TypeError for one that has none."""
    match kind:
        case inspect.UnionType():
            return arrow_type(value_type(kind))
        case inspect.IntType():
            return pa.int64()
        case inspect.FloatType():
            return pa.float64()
        case inspect.BoolType():
            return pa.bool_()
        case inspect.StrType() | inspect.EnumType() | inspect.LiteralType():
            return pa.string()
        case inspect.VarTupleType(item_type=item):
            return pa.list_(arrow_type(item))
        case inspect.DictType(value_type=value):
            return pa.map_(pa.string(), arrow_type(value))
        case inspect.StructType(fields=fields):
            return pa.struct([pa.field(field.encode_name, arrow_type(field.type)) for field in fields])
    raise TypeError(f"{kind} has no Arrow type")


def value_type(kind: inspect.Type) -> inspect.Type:
    """The type of a value that is not null. Raises ValueError for a union of more than one type and null."""
    if not isinstance(kind, inspect.UnionType):
        return kind
    (member,) = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
    return member


def builder(kind: inspect.Type) -> Build:
    """What makes arrays of `arrow_type(kind)`; made once, it costs some 50 ns a value and leaf."""
    kind = value_type(kind)
    match kind:
        case inspect.StructType(fields=fields):
            return _struct_builder(kind, fields)
        case inspect.VarTupleType(item_type=item) if isinstance(value_type(item), inspect.StructType):
            return _list_builder(item)
        case inspect.DictType(value_type=value):
            return _map_builder(value)
    arrow = arrow_type(kind)
    return lambda values: pa.array(values, arrow)


def json_builder(_: inspect.Type) -> Build:
    """What makes text arrays of JSON, for values whose inner shape is nobody's business."""
    encode = msgspec.json.Encoder().encode
    return lambda values: pa.array([None if value is None else encode(value).decode() for value in values], pa.string())


def _mask(values: Sequence[Any]) -> pa.Array | None:
    absent = np.array([value is None for value in values], np.bool_)
    return pa.array(absent) if absent.any() else None


def _struct_builder(kind: inspect.StructType, fields: Sequence[inspect.Field]) -> Build:
    parts = [(attrgetter(field.name), builder(field.type), arrow_type(field.type)) for field in fields]
    arrow = list(arrow_type(kind))

    def build(values: Sequence[Any]) -> pa.Array:
        mask = _mask(values)
        if mask is None:
            children = [make(list(map(get, values))) for get, make, _ in parts]
        else:
            children = [make([None if value is None else get(value) for value in values]) for get, make, _ in parts]
        return pa.StructArray.from_arrays(children, fields=arrow, mask=mask)

    return build


def _offsets(values: Sequence[Any]) -> pa.Array:
    return pa.array(list(accumulate((len(value or ()) for value in values), initial=0)), pa.int32())


def _list_builder(item: inspect.Type) -> Build:
    make = builder(item)

    def build(values: Sequence[Any]) -> pa.Array:
        items = list(chain.from_iterable(value or () for value in values))
        return pa.ListArray.from_arrays(_offsets(values), make(items), mask=_mask(values))

    return build


def _map_builder(value: inspect.Type) -> Build:
    make = builder(value)

    def build(values: Sequence[Any]) -> pa.Array:
        keys = pa.array(list(chain.from_iterable(value or () for value in values)), pa.string())
        items = make(list(chain.from_iterable((value or {}).values() for value in values)))
        return pa.MapArray.from_arrays(_offsets(values), keys, items, mask=_mask(values))

    return build
