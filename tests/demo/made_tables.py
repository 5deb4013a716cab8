"""Delta tables of records that a test makes, without Kafka: for what reads them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from sinks.root import TableRoot, table_name
from wire.batches import DecodedBatch, JsonRun
from wire.delta_schemas import DEAD_LETTERS, delta_schema, to_table
from wire.topics import TOPICS, topic_of


def write_tables(folder: Path, records: Iterable[msgspec.Struct]) -> TableRoot:
    """One table for each topic, those without records empty."""
    by_topic: defaultdict[str, list[msgspec.Struct]] = defaultdict(list)
    for record in records:
        by_topic[topic_of(record)].append(record)
    for topic in (*TOPICS, DEAD_LETTERS):
        path = folder / table_name(topic)
        path.mkdir(parents=True)
        found = by_topic[topic]
        write_deltalake(str(path), table_of(topic, found) if found else delta_schema(topic).empty_table())
    return TableRoot(address=str(folder))


def table_of(topic: str, records: Sequence[msgspec.Struct]) -> pa.Table:
    """Records of one topic as the rows of its table."""
    count = len(records)
    run = JsonRun(records=list(records), offsets=np.arange(count), received_s=np.full(count, 1.8e9))
    batch = DecodedBatch(topic=topic, kafka_topic=topic, partition=0, runs=[run], errors=[], next_offset=count)
    return to_table(batch)
