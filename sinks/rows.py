"""The tables' columns and rows: those of wire.delta_schemas and, behind `kafka_topic`, the topic's incarnation.

With it `(kafka_topic_id, kafka_partition, kafka_offset, row)` names a row for good: the offsets of a topic that was
deleted and made again begin at 0 again.
"""

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from records.outcomes import DeadLetter
from sinks.delta_table import TableSpec
from sinks.root import table_name
from wire.batches import DecodedBatch
from wire.delta_schemas import dead_letters_table, delta_schema, to_table

TOPIC_ID_COLUMN = "kafka_topic_id"
_TOPIC_ID = pa.field(TOPIC_ID_COLUMN, pa.string(), nullable=False)

IDENTITY = (TOPIC_ID_COLUMN, "kafka_partition", "kafka_offset", "row")
"""The columns that no two rows of a table share."""

STATISTICS = (
    "at",
    "at_s",
    "received_at",
    "kafka_partition",
    "kafka_offset",
    "endpoint",
    "replica",
    "request_id",
    "decision_id",
)
"""Columns by which readers can leave files out. Each costs some 60 bytes a file in the log, which every open reads;
text in it is in the clear, so payloads must not be among them."""


@lru_cache(maxsize=32)
def table_spec(topic: str) -> TableSpec:
    """The table of a logical topic, or of `deadletters`."""
    schema = delta_schema(topic)
    schema = schema.insert(_place(schema), _TOPIC_ID)
    statistics = tuple(name for name in STATISTICS if name in schema.names)
    return TableSpec(name=table_name(topic), schema=schema, statistics=statistics)


def record_rows(decoded: DecodedBatch, topic_id: str) -> pa.Table:
    """One row a record, good row of a frame, and tombstone."""
    return _with_topic_id(to_table(decoded), topic_id)


def dead_letter_rows(letters: Sequence[DeadLetter], topic_id: str) -> pa.Table:
    """One row a dead letter of one topic."""
    return _with_topic_id(dead_letters_table(letters), topic_id)


def _with_topic_id(rows: pa.Table, topic_id: str) -> pa.Table:
    return rows.add_column(_place(rows.schema), _TOPIC_ID, pa.repeat(topic_id, rows.num_rows))


def _place(schema: pa.Schema) -> int:
    return int(schema.get_field_index("kafka_topic")) + 1
