"""One Delta table, appended to exactly once.

A commit holds the rows and, for each partition in it, the last offset (see sinks.progress). Opening, reading the
progress, leaving out what is there already and writing use one handle: Delta refuses the commit when another writer
committed the same progress after the handle was opened. An exception from a commit does not say whether it happened,
so after any of them the table is opened again and asked.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

import pyarrow as pa
import structlog
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError, DeltaProtocolError, SchemaMismatchError, TableNotFoundError
from deltalake.transaction import PostCommitHookProperties
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    sleep_using_event,
    stop_after_delay,
    stop_any,
    stop_when_event_set,
    wait_random_exponential,
)

from sinks.errors import StorageError
from sinks.faults import Faults, NoFaults, Point
from sinks.metrics import retries
from sinks.progress import PartitionSlice, remaining
from sinks.root import TableRoot

CHECKPOINT_EVERY = 20
"""Commits between checkpoints. Opening reads the log since the last one: 3 to 5 ms at 20; each checkpoint writes
some 500 bytes for every file of the table."""

PATIENCE_S = 60.0
"""How long a commit is tried again before the sink gives up. Full disks and missing folders are not waited for."""

_TABLE_PROPERTIES: Mapping[str, str] = {
    "delta.checkpointInterval": str(CHECKPOINT_EVERY),
    "delta.logRetentionDuration": "interval 1 days",
}
"""A day of log: at a commit each ten seconds the default of 30 days is a folder of 260,000 files. Progress outlives
the log, in its checkpoints; `delta.setTransactionRetentionDuration` must stay unset, it would forget progress."""

_PARQUET = WriterProperties(compression="ZSTD", compression_level=1)
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_LASTING_OS_ERRORS = {1, 2, 13, 17, 20, 21, 27, 28, 30, 122}
"""EPERM, ENOENT, EACCES, EEXIST, ENOTDIR, EISDIR, EFBIG, ENOSPC, EROFS, EDQUOT: waiting does not mend these."""
_LASTING_STORE_ERROR = re.compile(
    r"NoSuchBucket|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|40[13] (?:Unauthorized|Forbidden)"
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ERROR_CHARS_MAX = 500
_OS_ERROR = re.compile(r"\(os error (\d+)\)|Os \{ code: (\d+)")

T = TypeVar("T")

_log = structlog.get_logger("headrace.sinks")


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """A table's name, its columns (partitioned by `date`), and those whose statistics readers skip files by."""

    name: str
    schema: pa.Schema
    statistics: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Appended:
    """`rows` were written by this call; `version` is that of its commit, None where there was nothing to commit."""

    rows: int
    version: int | None


class AppendTable:
    """Appends to the table `spec` below `root`. Blocking: call it in a thread. One thread at a time.

    `patience_s` bounds how long a commit that failed is tried again; `give_up`, once set, ends the trying at once.
    """

    def __init__(
        self,
        root: TableRoot,
        spec: TableSpec,
        faults: Faults | None = None,
        *,
        patience_s: float = PATIENCE_S,
        give_up: Event | None = None,
    ) -> None:
        self.spec = spec
        self.uri = root.uri(spec.name)
        self._root = root
        self._faults = faults or NoFaults()
        self._patience_s = patience_s
        self._give_up = give_up or Event()

    def ensure(self) -> None:
        """Makes the table where there is none. Raises StorageError, also for one whose columns have other types."""
        self._root.check()
        self._retrying(self._ensure)

    def progress(self, app_ids: Sequence[str]) -> dict[str, int | None]:
        """The last offset that the table has of each id, None where it has nothing. Raises StorageError."""
        return self._retrying(lambda: self._versions(self._open(), app_ids), aim="read")

    def append(self, slices: Sequence[PartitionSlice]) -> Appended:
        """Writes in one commit what the table does not have yet; nothing at all where it has everything.

        Raises TableBehindError where a slice does not continue what the table has, StorageError where it cannot be
        written. In both cases it may be called again with the same slices, or others.
        """
        appended = self._retrying(lambda: self._append(slices))
        if appended.version is not None and appended.version % CHECKPOINT_EVERY == 0:
            self._checkpoint()
        return appended

    def _ensure(self) -> None:
        try:
            handle = self._open()
        except TableNotFoundError:
            self._create()
            handle = self._open()
        self._check_types(pa.schema(handle.schema().to_arrow()))

    def _create(self) -> None:
        statistics = {"delta.dataSkippingStatsColumns": ",".join(self.spec.statistics)}
        try:
            DeltaTable.create(
                self.uri,
                schema=self.spec.schema,
                name=self.spec.name,
                partition_by=["date"],
                configuration={**_TABLE_PROPERTIES, **statistics},
                storage_options=self._root.options(),
            )
        except DeltaError:
            # Another sink may have made it in the meantime, and not every such error says so.
            if not DeltaTable.is_deltatable(self.uri, self._root.options()):
                raise
        else:
            _log.info("table_created", table=self.spec.name, uri=self.uri)

    def _check_types(self, found: pa.Schema) -> None:
        ours = self.spec.schema
        wrong = [
            f"{name} is {found.field(name).type}, expected {ours.field(name).type}"
            for name in ours.names
            if name in found.names and found.field(name).type != ours.field(name).type
        ]
        if wrong:
            raise StorageError(f"table {self.uri} has other columns than this version writes: {'; '.join(wrong)}")

    def _open(self) -> DeltaTable:
        # Without the list of files opening and appending cost the same however many files there are.
        return DeltaTable(self.uri, storage_options=self._root.options(), without_files=True)

    @staticmethod
    def _versions(handle: DeltaTable, app_ids: Sequence[str]) -> dict[str, int | None]:
        return {app_id: handle.transaction_version(app_id) for app_id in app_ids}

    def _append(self, slices: Sequence[PartitionSlice]) -> Appended:
        handle = self._open()
        parts = remaining(slices, self._versions(handle, [part.app_id for part in slices]))
        if not parts:
            return Appended(rows=0, version=None)
        rows = pa.concat_tables(part.rows for part in parts)
        self._faults.reached(Point.BEFORE_COMMIT, self.spec.name)
        write_deltalake(
            handle,
            rows,
            mode="append",
            schema_mode="merge",  # adds columns that a newer version brings; without new ones it commits no metadata
            writer_properties=_PARQUET,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(part.app_id, part.version) for part in parts]
            ),
            post_commithook_properties=_NO_HOOKS,
        )
        return Appended(rows=rows.num_rows, version=handle.version())

    def _checkpoint(self) -> None:
        """Apart from the commit, since a failure here must not look like one there; the next one makes up for it."""
        try:
            handle = DeltaTable(self.uri, storage_options=self._root.options())
            handle.create_checkpoint()
            handle.cleanup_metadata()
        except Exception as error:
            _log.warning("checkpoint_failed", table=self.spec.name, error=str(error))

    def _retrying(self, attempt: Callable[[], T], aim: str = "written") -> T:
        retrying = Retrying(
            stop=stop_any(stop_after_delay(self._patience_s), stop_when_event_set(self._give_up)),
            wait=wait_random_exponential(multiplier=0.05, max=5.0),
            sleep=sleep_using_event(self._give_up),
            retry=retry_if_exception(_may_pass),
            before_sleep=self._note_retry,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except Exception as error:
            if not _is_of_storage(error):
                raise
            self._root.check()
            raise StorageError(f"table {self.uri} cannot be {aim}: {_one_line(error)}") from error

    def _note_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        retries.add(1, {"table": self.spec.name})
        _log.warning("commit_tried_again", table=self.spec.name, attempt=state.attempt_number, error=_one_line(error))


def _is_of_storage(error: BaseException) -> bool:
    """Whether delta-rs raised it: a few of its errors are plain Exceptions. All others are bugs of ours."""
    return isinstance(error, DeltaError | OSError) or type(error) is Exception


def _may_pass(error: BaseException) -> bool:
    if not _is_of_storage(error) or isinstance(error, TableNotFoundError | SchemaMismatchError | DeltaProtocolError):
        return False
    found = _OS_ERROR.search(str(error))
    if found is not None:
        return int(found[1] or found[2]) not in _LASTING_OS_ERRORS
    return _LASTING_STORE_ERROR.search(str(error)) is None


def _one_line(error: BaseException | None) -> str:
    """delta-rs tells the cause of the cause in further lines."""
    return " ".join(_COLOURS.sub("", str(error)).split())[:_ERROR_CHARS_MAX]
