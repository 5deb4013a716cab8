"""What is in the tables: lists, SQL, and a check that no record is there twice. Reads only."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from sinks.errors import StorageError
from sinks.root import TableRoot, table_name
from sinks.rows import IDENTITY
from wire.delta_schemas import DEAD_LETTERS
from wire.topics import TOPICS

LOG_FOLDER = "_delta_log"
_NOT_THE_SQL = ("External error", "Object Store error", "IO error", "Parquet error")
"""How DataFusion's errors begin that come from files and not from what was asked."""
QUERIES = ("SELECT", "WITH", "VALUES", "DESCRIBE", "SHOW")
"""How SQL begins that only reads; DataFusion would also write files (COPY)."""
_FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*(\w*)", re.DOTALL)
_BACKTRACE = re.compile(r"\x1b\[[0-9;]*m|^ *\d+: .*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class TableSummary:
    """One table as its log describes it. `bytes` are those of its files; `newest` is the latest event time in it."""

    name: str
    rows: int
    files: int
    version: int
    bytes: int
    newest: datetime | None


@dataclass(frozen=True, kw_only=True)
class RepeatedRow:
    """A message's row that a table has `count` times."""

    topic: str
    partition: int
    offset: int
    row: int
    count: int


@dataclass(frozen=True, kw_only=True)
class TableCheck:
    """`doubled` counts rows beyond the first of their identity; `examples` names up to ten of these identities."""

    name: str
    rows: int
    doubled: int
    examples: tuple[RepeatedRow, ...]


def list_tables(root: TableRoot) -> list[TableSummary]:
    """All tables that are there, by name. Raises StorageError where the root cannot be read."""
    return [_summary(name, table) for name, table in open_tables(root).items()]


def check_tables(root: TableRoot) -> list[TableCheck]:
    """Counts, in each table, the rows that are there more than once. Reads four columns of every file.

    Raises StorageError where one cannot be read.
    """
    return [_check(name, table) for name, table in open_tables(root).items()]


def query(root: TableRoot, sql: str) -> pa.Table:
    """The answer of DataFusion's SQL over the tables, each under its name.

    Raises ValueError with DataFusion's message for bad SQL (and the tables' names where one is unknown) and for what is
    none of QUERIES, StorageError where the root, or a file of a table, cannot be read.
    """
    found = _FIRST_WORD.match(sql)
    if found is None or found.group(1).upper() not in QUERIES:
        raise ValueError(f"{sql!r}, allowed: a query: {', '.join(QUERIES)}")
    builder = QueryBuilder()
    tables = open_tables(root)
    for name, table in tables.items():
        builder.register(name, table)
    try:
        answer = _answer(builder, sql)
    except StorageError:
        raise
    except Exception as error:  # DataFusion's errors arrive as plain Exceptions
        raise ValueError(_told(str(error), tables)) from error
    return answer.cast(pa.schema([_in_microseconds(field) for field in answer.schema]), safe=False)


def _answer(builder: QueryBuilder, sql: str) -> pa.Table:
    try:
        return pa.table(builder.execute(sql).read_all())
    except Exception as error:
        if str(error).startswith(_NOT_THE_SQL):
            raise StorageError(f"a table's file cannot be read: {_plain(error)}") from error
        raise


def _told(message: str, names: Iterable[str]) -> str:
    """DataFusion's message; where it misses a table, with those there are."""
    missing = re.search(r"table '[^']*' not found", message)
    return f"{message}; tables: {', '.join(names) or 'none'}" if missing else message


def _in_microseconds(field: pa.Field) -> pa.Field:
    """DataFusion's own times (`now()`) have nanoseconds, which Python's have not."""
    kind = field.type
    return field.with_type(pa.timestamp("us", kind.tz)) if pa.types.is_timestamp(kind) else field


def open_tables(root: TableRoot) -> dict[str, DeltaTable]:
    """The tables below a root, by name; in an object store those of our topics. Raises StorageError."""
    tables = {}
    for name in _names(root):
        try:
            tables[name] = DeltaTable(root.uri(name), storage_options=root.options())
        except TableNotFoundError:
            continue
        except (DeltaError, OSError) as error:
            raise StorageError(f"table {root.uri(name)} cannot be read: {_plain(error)}") from error
    return tables


def _plain(error: Exception) -> str:
    """Delta's message on one line, without its colours and the frames of its own program."""
    return " ".join(_BACKTRACE.sub("", str(error)).split())


def _names(root: TableRoot) -> list[str]:
    folder = root.folder
    if folder is None:
        return sorted(table_name(topic) for topic in (*TOPICS, DEAD_LETTERS))
    try:
        return sorted(entry.name for entry in folder.iterdir() if (entry / LOG_FOLDER).is_dir())
    except OSError as error:
        raise StorageError(f"the tables' folder {folder} cannot be read: {error.strerror}") from error


def _summary(name: str, table: DeltaTable) -> TableSummary:
    files = pa.table(table.get_add_actions(flatten=True))
    newest = pc.max(files["max.at"]).as_py() if "max.at" in files.column_names else None
    return TableSummary(
        name=name,
        rows=pc.sum(files["num_records"]).as_py() or 0,
        files=files.num_rows,
        version=table.version(),
        bytes=pc.sum(files["size_bytes"]).as_py() or 0,
        newest=newest,
    )


def _check(name: str, table: DeltaTable) -> TableCheck:
    builder = QueryBuilder().register("t", table)
    identity = ", ".join((*IDENTITY, "kafka_topic"))
    groups = f"SELECT {identity}, count(*) AS n FROM t GROUP BY {identity}"  # names of ours only
    totals = _answer(builder, f"SELECT sum(n) AS rows, sum(n - 1) AS doubled FROM ({groups})")
    found = totals.to_pylist()[0]
    examples = _answer(builder, f"{groups} HAVING count(*) > 1 ORDER BY {identity} LIMIT 10")
    return TableCheck(
        name=name, rows=found["rows"] or 0, doubled=found["doubled"] or 0, examples=_repeated(examples.to_pylist())
    )


def _repeated(found: Sequence[dict[str, object]]) -> tuple[RepeatedRow, ...]:
    return tuple(
        RepeatedRow(
            topic=str(group["kafka_topic"]),
            partition=int(str(group["kafka_partition"])),
            offset=int(str(group["kafka_offset"])),
            row=int(str(group["row"])),
            count=int(str(group["n"])),
        )
        for group in found
    )
