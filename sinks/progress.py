"""How far each table has each partition, and what of a batch is still to be written. Pure.

Progress is an application transaction of the Delta log: one id for a topic's incarnation, partition and table, its
version the last offset that the table has (rows, dead letters, or nothing to keep: control records and gaps).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

OFFSET_COLUMN = "kafka_offset"


def app_id(topic_id: str, partition: int) -> str:
    """The id of a table's progress. `topic_id` is Kafka's own: a topic that is deleted and made again begins anew."""
    return f"headrace/{topic_id}/{partition}"


@dataclass(frozen=True, kw_only=True)
class PartitionSlice:
    """All that one table gets of the offsets `[base_offset, next_offset)` of one partition.

    `rows` may be empty: then only progress is made. They have a column `kafka_offset`.
    """

    app_id: str
    base_offset: int
    next_offset: int
    rows: pa.Table

    @property
    def version(self) -> int:
        return self.next_offset - 1


class TableBehindError(Exception):
    """A table has less of a partition than the batch continues from: it was replaced or rolled back.

    Nothing was written. `app_ids` must be read again from what the table has.
    """

    def __init__(self, app_ids: Sequence[str]) -> None:
        super().__init__(f"the table lacks offsets before this batch: {', '.join(app_ids)}")
        self.app_ids = tuple(app_ids)


def remaining(slices: Sequence[PartitionSlice], versions: Mapping[str, int | None]) -> list[PartitionSlice]:
    """What is not in the table yet, given the versions read from it (None: nothing yet).

    Raises TableBehindError where a slice does not continue what the table has.
    """
    behind = [part.app_id for part in slices if part.base_offset > next_offset(versions[part.app_id])]
    if behind:
        raise TableBehindError(behind)
    kept = []
    for part in slices:
        start = next_offset(versions[part.app_id])
        if part.next_offset <= start:
            continue
        if part.base_offset < start and part.rows.num_rows:
            fresh = part.rows.filter(pc.greater_equal(part.rows[OFFSET_COLUMN], start))
            kept.append(replace(part, rows=fresh))
        else:
            kept.append(part)
    return kept


def next_offset(version: int | None) -> int:
    """The first offset that a table of this progress lacks (None: it has nothing)."""
    return 0 if version is None else version + 1
