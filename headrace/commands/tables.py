"""`headrace tables`: list, query and check the Delta tables."""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
import pyarrow as pa
import typer
from pydantic import Field
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperGroup

from headrace import setting_checks
from headrace.answer_table import answer_table
from headrace.commands.table_settings import TablesSettings, missing_folder
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import POSITIONAL, new_app, settings_command
from sinks.catalog import TableCheck, TableSummary, check_tables, list_tables, query
from sinks.errors import StorageError

R = TypeVar("R")

ROWS_SHOWN = 1_000
"""Rows of an answer that `--format table` prints."""
PIPE_WIDTH = 100_000
"""Columns where there is no terminal to ask: whoever reads it there wants whole rows."""


class _ListByDefault(TyperGroup):
    """`headrace tables --tables DIR` is `headrace tables list --tables DIR`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


app = new_app(
    r"""List, query or check the Delta tables.

    Any reader of Delta tables reads them as well, while the sink writes. DuckDB and Polars, for example:

        duckdb -c "SELECT endpoint, count(*) \
            FROM delta_scan('tables/telemetry_requests') GROUP BY ALL"

        python -c "import polars; \
        decisions = polars.scan_delta('tables/decisions_scaling'); \
        print(decisions.sort('at').tail(5).collect())"

    Each table is partitioned by `date` (UTC, of the event time `at`); a filter on it leaves whole folders unread.
    """
)
app.info.cls = _ListByDefault


class ListSettings(TablesSettings):
    section: ClassVar[str] = "tables"

    @setting_checks.check("tables")
    def _tables_are_there(self) -> list[str]:
        return missing_folder(self.tables)


class QuerySettings(ListSettings):
    section: ClassVar[str] = "tables"

    sql: Annotated[str, POSITIONAL] = Field(description="A SELECT over the tables' names, in DataFusion's SQL.")
    format: Literal["table", "json"] = Field("table", description="json prints one object a line, without a limit.")


@settings_command(app, ListSettings, name="list", exits=[ExitCode.STORAGE])
def show(settings: ListSettings) -> ExitCode:
    """Show each table: rows, files, versions, bytes, and the newest event time.

    Example:
        headrace tables --tables tables
    """
    table = Table(
        "table", *(Column(name, justify="right") for name in ("rows", "files", "version", "MB")), "newest", box=None
    )
    for summary in _told(lambda: list_tables(settings.root)):
        table.add_row(*map(Text, _row(summary)))
    _console().print(table)
    return ExitCode.OK


@settings_command(app, QuerySettings, name="query", exits=[ExitCode.STORAGE])
def run_query(settings: QuerySettings) -> ExitCode:
    r"""Answer a SELECT over the tables.

    Example:
        headrace tables query --tables tables \
            "SELECT endpoint, count(*) AS n FROM telemetry_requests GROUP BY ALL"
    """
    try:
        answer = _told(lambda: query(settings.root, settings.sql))
    except ValueError as error:
        raise CannotRunError(str(error)) from error
    _print(answer, settings.format)
    return ExitCode.OK


@settings_command(app, ListSettings, name="check", exits=[ExitCode.INCOMPLETE, ExitCode.STORAGE])
def check(settings: ListSettings) -> ExitCode:
    """Count, in each table, the rows that are there more than once; there should be none.

    A row is known by its message (topic and its id, partition, offset) and its number in the message.

    Example:
        headrace tables check --tables tables
    """
    checks = _told(lambda: check_tables(settings.root))
    for found in checks:
        _tell_check(found)
    return ExitCode.INCOMPLETE if any(found.doubled for found in checks) else ExitCode.OK


def _told(read: Callable[[], R]) -> R:
    try:
        return read()
    except StorageError as error:
        raise CannotRunError(error.message, ExitCode.STORAGE) from error


def _row(summary: TableSummary) -> tuple[str, ...]:
    newest = "" if summary.newest is None else f"{summary.newest:%Y-%m-%d %H:%M:%S} UTC"
    counts = (summary.rows, summary.files, summary.version)
    return summary.name, *(f"{count:,}" for count in counts), f"{summary.bytes / 1e6:,.1f}", newest


def _tell_check(found: TableCheck) -> None:
    typer.echo(f"{found.name}: {found.rows:,} rows, {found.doubled or 'none'} doubled")
    for row in found.examples:
        where = f"{row.topic} partition {row.partition} offset {row.offset} row {row.row}"
        typer.echo(f"  {where}: {row.count} times", err=True)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)


def _print(answer: pa.Table, form: str) -> None:
    if form == "json":
        for row in answer.to_pylist(maps_as_pydicts="strict"):
            typer.echo(msgspec.json.encode(row).decode())
        return
    _console().print(answer_table(answer.slice(0, ROWS_SHOWN)))
    if answer.num_rows > ROWS_SHOWN:
        typer.echo(f"{ROWS_SHOWN:,} of {answer.num_rows:,} rows; --format json prints all", err=True)
