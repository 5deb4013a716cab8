"""Turns what was read of one topic into commits: first its dead letters, then its rows. Blocking.

Dead letters are a table of their own with its own progress. They are committed before the rows, so wherever a sink
ends, the messages are read again, and the dead letters that are there already are left out. Every dead letter below
the offset that the topic's table has is therefore in the dead letters' table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from records.outcomes import DeadLetter
from sinks.buffers import PartitionBatch
from sinks.delta_table import Appended, AppendTable
from sinks.faults import Faults, NoFaults, Point
from sinks.progress import PartitionSlice, app_id, next_offset
from sinks.rows import dead_letter_rows, record_rows
from wire.batches import decode_batch

MESSAGES_PER_DECODE = 5_000
"""Messages that are Python objects at one time; what was decoded before is Arrow already, a fifth of the size."""


@dataclass(frozen=True, kw_only=True)
class _Decoded:
    batch: PartitionBatch
    rows: pa.Table
    letters: list[DeadLetter]


class TopicWriter:
    """Writes one logical topic into `table`, and what cannot be read into `dead_letters`."""

    def __init__(self, topic: str, table: AppendTable, dead_letters: AppendTable, faults: Faults | None = None) -> None:
        self.topic = topic
        self.table = table
        self._dead_letters = dead_letters
        self._faults = faults or NoFaults()

    def next_offsets(self, topic_id: str, partitions: Sequence[int]) -> dict[int, int]:
        """For each partition the first offset that is not in the table yet. Raises StorageError."""
        ids = {partition: app_id(topic_id, partition) for partition in partitions}
        versions = self.table.progress(list(ids.values()))
        return {partition: next_offset(versions[ids[partition]]) for partition in partitions}

    def write(self, topic_id: str, batches: Sequence[PartitionBatch]) -> Appended:
        """Commits the batches, at most one of each partition. Raises StorageError, TableBehindError.

        What is in the tables already is left out, so the same batches may be written again after any error.
        """
        decoded = [self._decode(topic_id, batch) for batch in batches]
        letters = [part for part in decoded if part.letters]
        if letters:
            self._write_letters(topic_id, letters)
        appended = self.table.append(
            [
                PartitionSlice(
                    app_id=app_id(topic_id, part.batch.partition),
                    base_offset=part.batch.base_offset,
                    next_offset=part.batch.next_offset,
                    rows=part.rows,
                )
                for part in decoded
            ]
        )
        self._faults.reached(Point.AFTER_COMMIT, self.table.spec.name)
        return appended

    def _decode(self, topic_id: str, batch: PartitionBatch) -> _Decoded:
        tables = [self.table.spec.schema.empty_table()]
        letters: list[DeadLetter] = []
        for start in range(0, len(batch.messages), MESSAGES_PER_DECODE):
            messages = batch.messages[start : start + MESSAGES_PER_DECODE]
            decoded = decode_batch(self.topic, batch.partition, messages)
            tables.append(record_rows(decoded, topic_id))
            letters.extend(decoded.errors)
        return _Decoded(batch=batch, rows=pa.concat_tables(tables), letters=letters)

    def _write_letters(self, topic_id: str, parts: Sequence[_Decoded]) -> None:
        self._faults.reached(Point.BEFORE_DEAD_LETTERS, self.table.spec.name)
        written = self.next_offsets(topic_id, [part.batch.partition for part in parts])
        slices = []
        for part in parts:
            letters = [letter for letter in part.letters if letter.offset >= written[part.batch.partition]]
            if letters:
                slices.append(
                    PartitionSlice(
                        app_id=app_id(topic_id, part.batch.partition),
                        base_offset=0,  # dead letters are rare: their table follows no unbroken run of offsets
                        next_offset=max(letter.offset for letter in letters) + 1,
                        rows=dead_letter_rows(letters, topic_id),
                    )
                )
        if slices:
            self._dead_letters.append(slices)
        self._faults.reached(Point.AFTER_DEAD_LETTERS, self.table.spec.name)
