"""The tables as others read them: DuckDB's delta_scan (delta-kernel) and Polars (delta-rs)."""

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import polars
from deltalake import DeltaTable
from duckdb_extensions import import_extension

Identity = tuple[int, int, int]
"""Partition, offset, row."""


@lru_cache(maxsize=1)
def _duck() -> duckdb.DuckDBPyConnection:
    import_extension("delta")
    connection = duckdb.connect()
    connection.load_extension("delta")
    return connection


def ask(sql: str) -> list[tuple[Any, ...]]:
    """The answer of DuckDB; tables are `delta_scan('FOLDER')`."""
    return _duck().sql(sql).fetchall()


def identities(folder: Path, table: str) -> Counter[Identity]:
    """How often each message's row is in a table; by DuckDB, whose count Polars must share."""
    rows = ask(f"SELECT kafka_partition, kafka_offset, row FROM delta_scan('{folder / table}')")
    assert polars.scan_delta(str(folder / table)).select(polars.len()).collect().item() == len(rows)
    return Counter((int(partition), int(offset), int(row)) for partition, offset, row in rows)


def rows(folder: Path, table: str, columns: str = "*", order: str = "kafka_partition, kafka_offset, row") -> list[Any]:
    """Rows of a table as DuckDB gives them, each a tuple."""
    return ask(f"SELECT {columns} FROM delta_scan('{folder / table}') ORDER BY {order}")


def count(folder: Path, table: str) -> int:
    """Rows of a table that grows, by delta-rs; 0 where it is not there yet."""
    uri = str(folder / table)
    return DeltaTable(uri).count() if DeltaTable.is_deltatable(uri) else 0
