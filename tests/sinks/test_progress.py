"""What is still to be written, from what a table has: `.` is in the table, `#` in the batch."""

import pyarrow as pa
import pytest

from sinks.progress import PartitionSlice, TableBehindError, app_id, remaining


def part(base: int, end: int, *offsets: int, name: str = "a") -> PartitionSlice:
    rows = pa.table({"kafka_offset": pa.array(offsets, pa.int64())})
    return PartitionSlice(app_id=name, base_offset=base, next_offset=end, rows=rows)


def offsets_of(found: PartitionSlice) -> list[int]:
    return [int(offset) for offset in found.rows["kafka_offset"].to_pylist()]


@pytest.mark.parametrize(
    ("version", "batch", "kept"),
    [
        # ..........  nothing in the table yet
        (None, part(0, 3, 0, 1, 2), [0, 1, 2]),
        # ....###     the batch follows the table
        (3, part(4, 7, 4, 5, 6), [4, 5, 6]),
        # ...##       a batch that was cut otherwise before: its first half is there
        (4, part(3, 7, 3, 4, 5, 6), [5, 6]),
        # a frame has several rows of one offset: all of it is there or none
        (4, part(3, 6, 3, 4, 4, 5, 5), [5, 5]),
        # offsets that held nothing to keep are progress too
        (4, part(3, 9, 3, 4), []),
        (None, part(0, 5), []),
    ],
)
def test_rows_that_are_there_are_left_out(version: int | None, batch: PartitionSlice, kept: list[int]) -> None:
    (found,) = remaining([batch], {"a": version})
    assert offsets_of(found) == kept
    assert found.version == batch.next_offset - 1


@pytest.mark.parametrize("version", [6, 7, 100])
def test_a_batch_that_is_there_whole_is_no_progress(version: int) -> None:
    assert remaining([part(4, 7, 4, 5, 6)], {"a": version}) == []


@pytest.mark.parametrize("version", [None, 0, 2])
def test_a_hole_is_never_written(version: int | None) -> None:
    with pytest.raises(TableBehindError) as raised:
        remaining([part(0, 9, name="whole"), part(4, 7, 4, 5, 6)], {"a": version, "whole": None})
    assert raised.value.app_ids == ("a",)


def test_partitions_and_incarnations_have_ids_of_their_own() -> None:
    ids = {app_id(topic, partition) for topic in ("x", "y") for partition in (1, 11)}
    assert len(ids) == 4
