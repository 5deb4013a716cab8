"""The columns of an Arrow frame, derived from the records: one row a sample."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import nextafter
from sys import float_info
from types import MappingProxyType

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import inspect
from numpy.typing import NDArray

from records.histogram import BOUNDS_KEY, Histogram, parse_bounds
from wire.arrow_columns import value_type
from wire.topics import TOPICS

DICTIONARY = pa.dictionary(pa.int32(), pa.string())
COUNTS = pa.list_(pa.uint32())

REPEATING = frozenset(
    [
        "endpoint",
        "replica",
        "epoch",
        "source",
        "reporter",
        "gpu",
        "node",
        "state",
        "hardware",
        "role",
        "model_version",
        "workload",
        "requester",
        "finish_reason",
    ]
)
"""Text columns whose values repeat from row to row: dictionaries in the decoded batch, so that readers look at each
value once."""


@dataclass(frozen=True, kw_only=True)
class TextLimit:
    """Least and most characters of a text column (None: any number), or its closed set of values."""

    chars_min: int = 0
    chars_max: int | None = None
    allowed: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class FrameColumns:
    """Columns of one topic's frames. `record_fields` are the record's own, in its order.

    `required` ones must be there; a missing other one is unknown in all rows. `defaults` are the values of the
    columns that are never null: a null there is one. `limits` has, for each numeric column, the least and the largest
    value (`low` and `high` are the same as arrays, in the same order); `repeating` are dictionaries; `histograms` are
    lists of counts, each followed by its `FIELD_sum`.
    """

    schema: pa.Schema
    record_fields: tuple[str, ...]
    required: tuple[str, ...]
    defaults: Mapping[str, str | int]
    limits: Mapping[str, tuple[float, float]]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    repeating: tuple[str, ...]
    texts: Mapping[str, TextLimit]
    histograms: tuple[str, ...]


@lru_cache(maxsize=32)
def frame_columns(topic: str) -> FrameColumns:
    """The columns of a logical topic's frames. Raises KeyError for a topic without them."""
    if not TOPICS[topic].frames:
        raise KeyError(topic)
    fields: list[pa.Field] = []
    limits: dict[str, tuple[float, float]] = {}
    texts: dict[str, TextLimit] = {}
    histograms: list[str] = []
    required: list[str] = []
    defaults: dict[str, str | int] = {}
    for field in msgspec.structs.fields(TOPICS[topic].record):
        kind = value_type(inspect.type_info(field.type))
        if field.required:
            required.append(field.name)
        elif field.default is not None:
            defaults[field.name] = field.default
        if isinstance(kind, inspect.CustomType | inspect.StructType) and kind.cls is Histogram:
            histograms.append(field.name)
            fields += [pa.field(field.name, COUNTS), pa.field(f"{field.name}_sum", pa.float64())]
            limits[f"{field.name}_sum"] = (0.0, 1e15)
            continue
        fields.append(pa.field(field.name, _arrow_type(field.name, kind)))
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            limits[field.name] = _limits(kind)
        elif isinstance(kind, inspect.StrType | inspect.EnumType):
            texts[field.name] = _text_limit(kind)
    return FrameColumns(
        schema=pa.schema(fields),
        record_fields=TOPICS[topic].record.__struct_fields__,
        required=tuple(required),
        defaults=MappingProxyType(defaults),
        limits=MappingProxyType(limits),
        low=np.array([low for low, _ in limits.values()]),
        high=np.array([high for _, high in limits.values()]),
        repeating=tuple(field.name for field in fields if field.type == DICTIONARY),
        texts=MappingProxyType(texts),
        histograms=tuple(histograms),
    )


def _arrow_type(name: str, kind: inspect.Type) -> pa.DataType:
    match kind:
        case inspect.IntType():
            return pa.int64()
        case inspect.FloatType():
            return pa.float64()
        case inspect.BoolType():
            return pa.bool_()
        case inspect.StrType() | inspect.EnumType():
            return DICTIONARY if name in REPEATING else pa.string()
        case inspect.VarTupleType(item_type=inspect.StrType()):
            return pa.list_(pa.string())
    raise TypeError(f"{name}: {kind} has no place in a frame")


def _limits(kind: inspect.IntType | inspect.FloatType) -> tuple[float, float]:
    """As finite floats, never wider than the type: 2**63 - 1 is no float, and the next one up would let 2**63 pass."""
    low = -float_info.max if kind.ge is None else float(kind.ge)
    high = float_info.max if kind.le is None else float(kind.le)
    if kind.le is not None and high > kind.le:
        high = nextafter(high, 0.0)
    return low, high


def _text_limit(kind: inspect.StrType | inspect.EnumType) -> TextLimit:
    if isinstance(kind, inspect.EnumType):
        return TextLimit(allowed=tuple(member.value for member in kind.cls))
    return TextLimit(chars_min=kind.min_length or 0, chars_max=kind.max_length)


def bounds_of(field: pa.Field) -> tuple[float, ...] | None:
    """Upper bounds of a histogram column, from its metadata; None where it has none. Raises ValueError for bad ones."""
    text = (field.metadata or {}).get(BOUNDS_KEY)
    return None if text is None else parse_bounds(text)
