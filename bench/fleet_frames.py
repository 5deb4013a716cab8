"""Arrow frames of a fleet, each second with other values, made by array operations and not sample by sample.

Requests are conserved, as in bench.worker_line.Fleet: what is inside a replica is what was there, and what came, less
what left. Values would all be suspect otherwise, and nothing be decided on them.
"""

import json
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa
from aiokafka import AIOKafkaProducer
from numpy.typing import NDArray

from bench.fleet_columns import EPOCH, FleetNumbers
from bench.worker_line import ENDPOINTS, NAMES, PARTITIONS, SEED
from records.enums import Source
from records.histogram import BOUNDS_KEY
from simulation.vllm_bounds import VLLM_BOUNDS_MS
from wire.frame_schema import DICTIONARY, frame_columns
from wire.frames import ARROW_CONTENT_TYPE, CONTENT_TYPE_HEADER, ROWS_DEFAULT
from wire.kafka import partition_of

TOPIC = "telemetry.requests"
_HEADERS = [(CONTENT_TYPE_HEADER, ARROW_CONTENT_TYPE)]

HISTOGRAMS = 4096
"""So many different ones of each field are dealt out anew each second."""
ZEROS = ("errors", "rejections", "aborted", "images", "preemptions", "deferred")
REQUESTS = 8
"""In each histogram."""

Replica = tuple[str, str]
"""Endpoint and name."""


class FleetFrames:
    """Samples of `replicas` replicas of each endpoint, once a second, in frames of one partition's replicas; `full`:
    with four histograms. Ask for the seconds of a partition in their order."""

    def __init__(self, replicas: int, *, full: bool, partitions: int = PARTITIONS) -> None:
        self._groups: dict[int, list[_Group]] = {}
        for partition in range(partitions):
            endpoints = [endpoint for endpoint in ENDPOINTS if partition_of(endpoint, partitions) == partition]
            names = ((endpoint, f"{endpoint}-{number:03d}") for endpoint in endpoints for number in range(replicas))
            self._groups[partition] = [
                _Group(group, [SEED, partition, place], full=full)
                for place, group in enumerate(_grouped(names, ROWS_DEFAULT))
            ]

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(self._groups)

    async def send(self, producer: AIOKafkaProducer, at_s: int, stamp_ms: int) -> tuple[int, int]:
        """Write the next second of all partitions, stamped as told; how many messages, and the bytes of their
        values."""
        count = size = 0
        for partition in self.partitions:
            for key, value in self.of_second(partition, at_s):
                await producer.send(NAMES.real(TOPIC), value, key.encode(), partition, stamp_ms, _HEADERS)
                count, size = count + 1, size + len(value)
        return count, size

    def of_second(self, partition: int, at_s: int) -> Iterator[tuple[str, bytes]]:
        """(key, value) of the messages of the next second of a partition."""
        for group in self._groups[partition]:
            yield group.key, group.frame(at_s)


class _Group:
    """The replicas of one frame."""

    def __init__(self, names: list[Replica], seed: list[int], *, full: bool) -> None:
        self.key = names[0][0]
        self._size = len(names)
        self._chance = np.random.default_rng(seed)
        self._numbers = FleetNumbers(self._chance, self._size)
        self._schema = _schema(full=full)
        self._texts = {
            "endpoint": _encoded([endpoint for endpoint, _ in names]),
            "replica": _encoded([replica for _, replica in names]),
            "epoch": _encoded([EPOCH] * self._size),
            "source": _encoded([Source.ENGINE.value] * self._size),
            "reporter": pa.nulls(self._size, DICTIONARY),
        }
        self._histograms = {name: _Histograms(name, self._chance) for name in VLLM_BOUNDS_MS if full}

    def frame(self, at_s: int) -> bytes:
        columns = dict(self._texts)
        numbers = self._numbers.of_next_second()
        numbers |= {name: np.zeros(self._size) for name in ZEROS}
        numbers |= {name: np.full(self._size, at_s) for name in ("at_s", "seq")}
        numbers["received_s"] = at_s + 1 + self._chance.random(self._size) / 2
        for name, histograms in self._histograms.items():
            columns[name], columns[f"{name}_sum"] = histograms.deal(self._size)
        for field in self._schema:
            if field.name in numbers:
                columns[field.name] = pa.array(numbers[field.name].astype(field.type.to_pandas_dtype()))
            elif field.name not in columns:
                columns[field.name] = pa.nulls(self._size, field.type)
        batch = pa.record_batch([columns[field.name] for field in self._schema], schema=self._schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())


class _Histograms:
    """Histograms of one field, of some requests each."""

    def __init__(self, name: str, chance: np.random.Generator) -> None:
        buckets = len(VLLM_BOUNDS_MS[name]) + 1
        places = chance.integers(4, 14, (HISTOGRAMS, REQUESTS)) + buckets * np.arange(HISTOGRAMS)[:, None]
        counts = np.bincount(places.ravel(), minlength=HISTOGRAMS * buckets)
        self._counts: NDArray[np.uint32] = counts.reshape(HISTOGRAMS, buckets).astype(np.uint32)
        self._chance = chance

    def deal(self, size: int) -> tuple[pa.Array, pa.Array]:
        """Counts and sums of so many samples."""
        chosen = self._counts[self._chance.integers(0, HISTOGRAMS, size)]
        offsets = np.arange(size + 1, dtype=np.int32) * chosen.shape[1]
        sums = np.round(self._chance.random(size) * 3000, 1)
        return pa.ListArray.from_arrays(offsets, chosen.ravel()), pa.array(sums)


def _schema(*, full: bool) -> pa.Schema:
    """As the frames that our producers write: the bounds in the fields' metadata."""
    fields = []
    for field in frame_columns("telemetry.requests").schema:
        if full and field.name in VLLM_BOUNDS_MS:
            field = field.with_metadata({BOUNDS_KEY: json.dumps(VLLM_BOUNDS_MS[field.name]).encode()})
        fields.append(field)
    return pa.schema(fields)


def _encoded(texts: list[str]) -> pa.Array:
    return pa.array(texts).dictionary_encode()


def _grouped(names: Iterator[Replica], size: int) -> Iterator[list[Replica]]:
    while group := list(islice(names, size)):
        yield group
