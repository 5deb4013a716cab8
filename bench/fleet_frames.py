"""Arrow frames of a fleet, each with other values, made without making each sample.

The first frames are encoded from samples as a pod's producer does it. The frames of any second are those again, with
their own times and the values dealt to other replicas.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa

from bench.worker_line import ENDPOINTS, PARTITIONS, SEED, Fleet
from streams.windows.columns import IDENTITY_FIELDS
from wire.frames import ROWS_DEFAULT, encode_frames
from wire.kafka import partition_of

TEMPLATES = 8
"""Frames of other values for each group of replicas."""
_OWN_COLUMNS = (*IDENTITY_FIELDS, "at_s", "seq", "received_s")

Replica = tuple[str, str]
"""Endpoint and name."""


class FleetFrames:
    """Samples of `replicas` replicas of each endpoint, once a second, in frames of one partition's replicas. `full`:
    with four histograms each."""

    def __init__(self, replicas: int, *, full: bool) -> None:
        fleet = Fleet()
        self._shift = np.random.default_rng(SEED)
        self._templates: dict[int, list[list[pa.RecordBatch]]] = {}
        for partition in range(PARTITIONS):
            endpoints = [endpoint for endpoint in ENDPOINTS if partition_of(endpoint, PARTITIONS) == partition]
            names = ((endpoint, f"{endpoint}-{number:03d}") for endpoint in endpoints for number in range(replicas))
            self._templates[partition] = [
                [_template(group, fleet, full=full) for _ in range(TEMPLATES)] for group in _groups(names, ROWS_DEFAULT)
            ]

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(self._templates)

    def of_second(self, partition: int, at_s: int) -> Iterator[tuple[str, bytes]]:
        """(key, value) of the messages of one second of a partition."""
        for templates in self._templates[partition]:
            batch = templates[at_s % TEMPLATES]
            shifted = np.roll(np.arange(batch.num_rows), int(self._shift.integers(batch.num_rows)))
            dealt = batch.take(pa.array(shifted))
            received_s = at_s + 1 + self._shift.random(batch.num_rows) / 2
            own = {"at_s": np.full(batch.num_rows, at_s), "received_s": received_s}
            own["seq"] = own["at_s"]
            columns = [
                dealt.column(name) if name not in _OWN_COLUMNS else _own_column(batch, name, own)
                for name in batch.schema.names
            ]
            yield batch.column("endpoint")[0].as_py(), _stream(pa.record_batch(columns, schema=batch.schema))


def _groups(names: Iterator[Replica], size: int) -> Iterator[list[Replica]]:
    while group := list(islice(names, size)):
        yield group


def _template(group: list[Replica], fleet: Fleet, *, full: bool) -> pa.RecordBatch:
    (frame,) = encode_frames([fleet.sample(endpoint, name, 0, full=full) for endpoint, name in group])
    return pa.ipc.open_stream(frame.value).read_next_batch()


def _own_column(batch: pa.RecordBatch, name: str, own: dict[str, np.ndarray]) -> pa.Array:
    return pa.array(own[name], batch.schema.field(name).type) if name in own else batch.column(name)


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
