"""Real Delta tables: appended to once, whatever an exception says, whoever else writes."""

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

import sinks.delta_table
from sinks.delta_table import CHECKPOINT_EVERY, AppendTable
from sinks.errors import StorageError
from sinks.faults import Point
from sinks.progress import PartitionSlice, TableBehindError
from sinks.root import TableRoot
from sinks.rows import IDENTITY, table_spec
from tests.sinks.readers import ask, identities
from wire.delta_schemas import DEAD_LETTERS
from wire.topics import TOPICS

SPEC = table_spec("outcomes")


def table_in(folder: Path, **options: object) -> AppendTable:
    made = AppendTable(TableRoot(address=str(folder)), SPEC, **options)  # type: ignore[arg-type]  # as given
    made.ensure()
    return made


def part(base: int, end: int, app: str = "a", partition: int = 0) -> PartitionSlice:
    """Rows of the offsets `[base, end)`."""
    rows = [
        {
            "date": None,
            "at": 1_790_000_000_000_000 + offset,
            "received_at": 1_790_000_000_000_000,
            "kafka_topic": "outcomes",
            "kafka_topic_id": "id",
            "kafka_partition": partition,
            "kafka_offset": offset,
            "row": 0,
            "endpoint": f"e{offset}",
        }
        for offset in range(base, end)
    ]
    day = pa.array([20_717] * len(rows), pa.int32()).cast(pa.date32())
    table = pa.Table.from_pylist(rows, schema=_all_nullable(SPEC.schema))
    table = table.set_column(0, "date", day).cast(SPEC.schema)
    return PartitionSlice(app_id=app, base_offset=base, next_offset=end, rows=table)


def _all_nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def offsets(folder: Path) -> list[int]:
    counted = identities(folder, SPEC.name)
    assert set(counted.values()) <= {1}
    return sorted(offset for _, offset, _ in counted)


class Once:
    """Does something at the first passing of a point."""

    def __init__(self, point: Point, action: object) -> None:
        self._point = point
        self._action = action

    def reached(self, point: Point, table: str) -> None:
        if point is self._point and self._action is not None:
            action, self._action = self._action, None
            action()  # type: ignore[operator]  # a callable without arguments


@pytest.mark.parametrize("topic", [*TOPICS, DEAD_LETTERS])
def test_tables_are_plain_for_every_reader(tmp_path: Path, topic: str) -> None:
    spec = table_spec(topic)
    AppendTable(TableRoot(address=str(tmp_path)), spec).ensure()
    table = DeltaTable(str(tmp_path / spec.name))
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert table.metadata().partition_columns == ["date"]
    assert pa.schema(table.schema().to_arrow()).names == spec.schema.names
    assert set(IDENTITY) <= set(spec.schema.names)
    assert ask(f"SELECT count(*) FROM delta_scan('{tmp_path / spec.name}')") == [(0,)]


def test_rows_and_progress_are_one_commit(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.append([part(0, 3, "a"), part(0, 2, "b", partition=1)])
    assert DeltaTable(table.uri).version() == 1
    assert table.progress(["a", "b", "c"]) == {"a": 2, "b": 1, "c": None}
    assert len(identities(tmp_path, SPEC.name)) == 5


def test_the_same_rows_again_change_nothing(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.append([part(0, 5)])
    appended = table.append([part(0, 5)])
    assert (appended.rows, DeltaTable(table.uri).version()) == (0, 1)
    table.append([part(3, 8)])
    assert offsets(tmp_path) == list(range(8))


def test_progress_without_rows_is_a_commit_without_files(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    empty = PartitionSlice(app_id="a", base_offset=0, next_offset=50, rows=SPEC.schema.empty_table())
    assert table.append([empty]).rows == 0
    assert table.progress(["a"]) == {"a": 49}
    assert DeltaTable(table.uri).file_uris() == []


def test_a_hole_is_refused(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.append([part(0, 5)])
    with pytest.raises(TableBehindError):
        table.append([part(6, 9)])
    assert offsets(tmp_path) == list(range(5))


def test_an_error_after_the_commit_does_not_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def commit_then_fail(*given: object, **options: object) -> None:
        monkeypatch.setattr(sinks.delta_table, "write_deltalake", write_deltalake)
        write_deltalake(*given, **options)  # type: ignore[call-overload]  # passed on
        raise DeltaError("Generic error: the answer was lost")

    table = table_in(tmp_path)
    monkeypatch.setattr(sinks.delta_table, "write_deltalake", commit_then_fail)
    table.append([part(0, 5)])
    assert offsets(tmp_path) == list(range(5))


def test_an_error_before_the_commit_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **options: object) -> None:
        monkeypatch.setattr(sinks.delta_table, "write_deltalake", write_deltalake)
        raise CommitFailedError("Failed to commit transaction: 15")

    table = table_in(tmp_path)
    monkeypatch.setattr(sinks.delta_table, "write_deltalake", fail)
    assert table.append([part(0, 5)]).rows == 5
    assert offsets(tmp_path) == list(range(5))


@pytest.mark.parametrize("theirs", [part(0, 3), part(0, 5), part(0, 9)])
def test_another_writer_between_reading_and_writing(tmp_path: Path, theirs: PartitionSlice) -> None:
    """A zombie and the new owner of a partition: whoever is second writes only what the first did not."""
    other = table_in(tmp_path)
    table = table_in(tmp_path, faults=Once(Point.BEFORE_COMMIT, lambda: other.append([theirs])))
    table.append([part(0, 5)])
    assert offsets(tmp_path) == list(range(max(5, theirs.next_offset)))


def test_many_writers_of_the_same_rows(tmp_path: Path) -> None:
    tables = [table_in(tmp_path) for _ in range(4)]

    def write(table: AppendTable) -> None:
        for base in range(0, 40, 4):
            table.append([part(base, base + 4)])

    threads = [threading.Thread(target=write, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert offsets(tmp_path) == list(range(40))


def test_progress_outlives_checkpoints(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    for offset in range(CHECKPOINT_EVERY + 2):
        table.append([part(offset, offset + 1)])
    log = tmp_path / SPEC.name / "_delta_log"
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == CHECKPOINT_EVERY
    for entry in log.glob("*.json"):
        if int(entry.stem) <= CHECKPOINT_EVERY:
            entry.unlink()
    assert table.progress(["a"]) == {"a": CHECKPOINT_EVERY + 1}
    assert offsets(tmp_path) == list(range(CHECKPOINT_EVERY + 2))


def test_a_failed_checkpoint_fails_no_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: DeltaTable) -> None:
        raise DeltaError("no checkpoint today")

    table = table_in(tmp_path)
    monkeypatch.setattr(DeltaTable, "create_checkpoint", refuse)
    for offset in range(CHECKPOINT_EVERY):
        table.append([part(offset, offset + 1)])
    assert offsets(tmp_path) == list(range(CHECKPOINT_EVERY))


def test_a_column_of_a_newer_version_is_added(tmp_path: Path) -> None:
    narrow = pa.schema([field for field in SPEC.schema if field.name != "actuator"])
    DeltaTable.create(str(tmp_path / SPEC.name), narrow, partition_by=["date"])
    table_in(tmp_path).append([part(0, 2)])
    assert "actuator" in pa.schema(DeltaTable(str(tmp_path / SPEC.name)).schema().to_arrow()).names
    assert offsets(tmp_path) == [0, 1]


def test_a_table_of_other_types_is_refused(tmp_path: Path) -> None:
    foreign = SPEC.schema.set(SPEC.schema.get_field_index("endpoint"), pa.field("endpoint", pa.int64()))
    DeltaTable.create(str(tmp_path / SPEC.name), foreign, partition_by=["date"])
    with pytest.raises(StorageError, match="endpoint is int64, expected string"):
        table_in(tmp_path)


def test_statistics_are_kept_on_few_columns_and_no_payload(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    table.append([part(0, 3)])
    log = (tmp_path / SPEC.name / "_delta_log" / "00000000000000000001.json").read_text()
    (added,) = [json.loads(line)["add"] for line in log.splitlines() if '"add"' in line]
    statistics = json.loads(added["stats"])
    assert {"at", "kafka_offset", "endpoint"} <= statistics["minValues"].keys() <= set(SPEC.statistics)
    assert "request" not in table_spec("inference.requests").statistics


def test_a_table_that_vanished_stops_at_once(tmp_path: Path) -> None:
    table = table_in(tmp_path)
    (tmp_path / SPEC.name).rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="outcomes cannot be written"):
        table.append([part(0, 3)])
    with pytest.raises(StorageError, match="outcomes cannot be read"):
        table.progress(["any"])
    assert not (tmp_path / SPEC.name).exists()


def test_a_root_that_vanished_is_named(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    table = table_in(root)
    root.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match=f"the tables' folder {root} is not there"):
        table.append([part(0, 3)])
    assert not root.exists()


def test_giving_up_ends_the_trying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **options: object) -> None:
        give_up.set()
        raise DeltaError("the network is down")

    give_up = threading.Event()
    table = table_in(tmp_path, give_up=give_up)
    monkeypatch.setattr(sinks.delta_table, "write_deltalake", fail)
    with pytest.raises(StorageError, match="the network is down"):
        table.append([part(0, 3)])
