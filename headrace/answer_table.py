"""An answer of the tables as rows and columns of a terminal."""

from typing import Literal

import pyarrow as pa
from rich.table import Column, Table
from rich.text import Text


def answer_table(answer: pa.Table, numbers: Literal["left", "right"] = "left") -> Table:
    """A row a row, null as an empty cell; `numbers` says at which side of their column they stand.

    What the tables hold is shown as it is, also where it looks like markup.
    """
    columns = [
        Column(Text(field.name), justify=numbers if _is_number(field.type) else "left") for field in answer.schema
    ]
    table = Table(*columns, box=None, pad_edge=False)
    for row in answer.to_pylist():
        table.add_row(*(Text("" if value is None else str(value)) for value in row.values()))
    return table


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
