"""Writes docs/contract.md from the records and the topics: `python -m wire.contract_docs > docs/contract.md`."""

import inspect as python_inspect
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

from records.outcomes import DeadLetter
from wire.admin import RETENTION_BYTES
from wire.arrow_columns import value_type
from wire.delta_schemas import DEAD_LETTERS, DELETED, JSON_TEXT, ORIGIN, delta_schema
from wire.frame_schema import frame_columns
from wire.frames import FRAME_BYTES_MAX, FRAME_ROWS_MAX
from wire.topics import DAY_MS, TOPICS, TopicSpec

HEAD = """# The contract on the wire

<!-- Generated: python -m wire.contract_docs > docs/contract.md -->

Every record is one JSON object on Kafka, one row of a Delta table and one line of a replay file. A field that is
absent or `null` is unknown; `0` is a known zero. NaN, infinities and values out of the range below are bad input:
the message, or the row of a frame, becomes a dead letter, and its neighbours are kept. Unknown fields are ignored.
Units end the name: `_s` seconds, `_ms` milliseconds, `_bytes`, `_w` watts, `_per_min`. `at_s` is event time, whole
UNIX seconds, the start of the second that a record covers. `received_s` is when the pipeline got it; where it is
null, the Kafka timestamp, which the broker sets.
"""

FRAMES = f"""## Arrow frames

Header `content-type: application/vnd.apache.arrow.stream`; the value is one Arrow IPC stream with one row a record,
all of one partition; the message's key is any of their keys in that partition. A reader takes any order of columns,
plain or dictionary-encoded text, any width of integers, float32 and float64, list, large list and fixed-size list. A
missing column is unknown in all rows; a missing required one, or one of another kind, is a dead letter for the whole
frame. A bad row is a dead letter of that row alone, with the row as JSON in its `bytes`. A histogram is a list of
counts; its upper bounds are a JSON array in the field's metadata, key `explicit_bounds`, and its sums a column
`FIELD_sum`. Buffers may be compressed with zstd or lz4; at most {FRAME_BYTES_MAX // 1024**2} MiB and
{FRAME_ROWS_MAX:,} rows once decompressed.
"""

TABLES = f"""## Delta tables

Each topic has a table of its name, and what could not be read is in `{DEAD_LETTERS}`. All are partitioned by `date`.
A table has the columns below, then the record's fields under their own names and in their order; nested records are
structs, but text in JSON in {" and ".join(f"`{topic}`" for topic in sorted(JSON_TEXT))}, whose tables also have
`{DELETED}`: true in the row of a tombstone, which has its key alone. `processed_at` and `target_at` are `processed_s`
and `target_at_s` as timestamps.
"""

TOPIC_ID = "kafka_topic_id"
"""The column that the sink adds to those of wire.delta_schemas."""

_ORIGIN_MEANING = {
    "date": "day of `at`, UTC; the partition",
    "at": "event time (`at_s`, `at_ms`); where a record has none, the time of its message",
    "received_at": "the record's `received_s`, else the Kafka timestamp",
    "kafka_topic": "topic on the cluster, with its prefix",
    TOPIC_ID: "identity that Kafka gave the topic: another one once it was deleted and made again",
    "kafka_partition": "of the message",
    "kafka_offset": "of the message",
    "row": "row in its frame, 0 in a message of one record",
}


def render() -> str:
    """The whole of docs/contract.md."""
    parts = [HEAD, _topics(), FRAMES, _frame_columns(), TABLES, _origin(), *_records()]
    return "\n".join(parts).rstrip() + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _topics() -> str:
    rows = [
        [
            f"`{spec.name}`",
            f"`{spec.key}`",
            f"[{spec.record.__name__}](#{spec.record.__name__.lower()})",
            _cleanup(spec),
            f"{spec.message_bytes_max // 1024**2} MiB",
            ", ".join(_traits(spec)),
        ]
        for spec in TOPICS.values()
    ]
    text = (
        "## Topics\n\nAll are compressed with zstd; the key decides the partition (murmur2). A topic that is not "
        f"compacted keeps at most {RETENTION_BYTES // 1024**3} GiB a partition, unless set otherwise. "
        "Where a null deletes, the key counts as much as the record: one under another key than its own is a dead "
        "letter.\n\n"
    )
    return text + _table(["topic", "key", "record", "cleanup, retention", "message up to", ""], rows)


def _cleanup(spec: TopicSpec) -> str:
    if spec.retention_ms is not None:
        return f"{spec.cleanup}, {_days(spec.retention_ms)}"
    return spec.cleanup + (f", with a lag of {_days(spec.compaction_lag_ms)}" if spec.compaction_lag_ms else "")


def _days(duration_ms: int) -> str:
    days = duration_ms // DAY_MS
    return f"{days} day" if days == 1 else f"{days} days"


def _traits(spec: TopicSpec) -> Iterator[str]:
    if spec.co_partitioned:
        yield "co-partitioned"
    if spec.transactional:
        yield "in transactions: read committed"
    if spec.tombstones:
        yield "null deletes"
    yield "JSON or Arrow frames" if spec.frames else "JSON"


def _frame_columns() -> str:
    rows = []
    for topic in (name for name, spec in TOPICS.items() if spec.frames):
        columns = frame_columns(topic)
        for field in columns.schema:
            kind = str(field.type).replace(
                "dictionary<values=string, indices=int32, ordered=0>", "dictionary of string"
            )
            rows.append([f"`{topic}`", f"`{field.name}`", kind, "yes" if field.name in columns.required else ""])
    return _table(["topic", "column", "type as we write it", "required"], rows)


def _origin() -> str:
    types = {field.name: str(field.type) for field in ORIGIN} | {TOPIC_ID: "string"}
    rows = [[f"`{name}`", types[name], meaning] for name, meaning in _ORIGIN_MEANING.items()]
    return _table(["column", "type", "meaning"], rows)


def _records() -> Iterator[str]:
    yield "## Records\n"
    nested: dict[str, type[msgspec.Struct]] = {}
    for spec in TOPICS.values():
        yield _record(spec.record, spec.identity, nested, f"Topic and table `{spec.name}`.")
    dead_letters = f"Table `{DEAD_LETTERS}`, of {len(delta_schema(DEAD_LETTERS)) + 1} columns; no topic."
    yield _record(DeadLetter, ("source_topic", "partition", "offset", "row"), nested, dead_letters)
    done: set[str] = set()
    while waiting := sorted(set(nested) - done):
        for name in waiting:
            done.add(name)
            yield _record(nested[name], (), nested, "")


def _record(
    record: type[msgspec.Struct], identity: tuple[str, ...], nested: dict[str, type[msgspec.Struct]], where: str
) -> str:
    rows = []
    for field in msgspec.structs.fields(record):
        kind = inspect.type_info(field.type)
        rows.append(
            [
                f"`{field.encode_name}`",
                _type(kind, nested),
                _range(value_type(kind)),
                "yes" if isinstance(kind, inspect.UnionType) else "",
                "required" if field.required else _default(field),
                "yes" if field.name in identity else "",
            ]
        )
    words = [where, _prose(record)]
    table = _table(["field", "type", "allowed", "null", "default", "identity"], rows)
    return f"### {record.__name__}\n\n" + "\n\n".join(word for word in words if word) + f"\n\n{table}"


def _prose(record: type[msgspec.Struct]) -> str:
    """The record's docstring, without what msgspec makes up where there is none."""
    text = python_inspect.getdoc(record) if record.__dict__.get("__doc__") else None
    return text or ""


def _type(kind: inspect.Type, nested: dict[str, type[msgspec.Struct]]) -> str:
    match value_type(kind):
        case inspect.IntType():
            return "integer"
        case inspect.FloatType():
            return "number"
        case inspect.BoolType():
            return "boolean"
        case inspect.StrType() | inspect.EnumType() | inspect.LiteralType():
            return "text"
        case inspect.VarTupleType(item_type=item):
            return f"list of {_type(item, nested)}"
        case inspect.DictType(value_type=value):
            return f"map of text to {_type(value, nested)}"
        case inspect.StructType(cls=cls):
            nested[cls.__name__] = cls
            return f"[{cls.__name__}](#{cls.__name__.lower()})" + (", as a list" if _is_array(cls) else "")
    raise TypeError(f"{kind} has no name in the contract")


def _is_array(cls: type[msgspec.Struct]) -> bool:
    return bool(cls.__struct_config__.array_like)


def _range(kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType() | inspect.FloatType():
            return _number_range(kind)
        case inspect.EnumType(cls=members):
            return ", ".join(f"`{member.value}`" for member in members)
        case inspect.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in values)
        case inspect.StrType(pattern=pattern) if pattern is not None:
            return f"`{pattern}`".replace("|", "\\|")
        case inspect.StrType(min_length=least, max_length=most) if most is not None:
            return f"{least or 0} to {most} characters"
        case inspect.VarTupleType(min_length=least, max_length=most) if most is not None:
            return f"{least or 0} to {most} values"
    return ""


def _number_range(kind: inspect.IntType | inspect.FloatType) -> str:
    low = f"from {_number(kind.ge)}" if kind.ge is not None else ""
    above = f"above {_number(kind.gt)}" if kind.gt is not None else ""
    high = f"to {_number(kind.le)}" if kind.le is not None else ""
    return " ".join(word for word in (low, above, high) if word)


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _default(field: msgspec.structs.FieldInfo) -> str:
    """A default as it is spelled in JSON; of a nested record that it has its own defaults."""
    value: Any = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory() if callable(field.default_factory) else None
    if isinstance(value, msgspec.Struct):
        return "its defaults"
    return f"`{msgspec.json.encode(value).decode()}`"


if __name__ == "__main__":
    sys.stdout.write(render())
