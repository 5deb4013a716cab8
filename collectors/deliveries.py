"""Where samples go: into a replay file, or to Kafka."""

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from typing import BinaryIO, Protocol

import msgspec

from records.telemetry import RequestSample
from wire.gzip_files import packing
from wire.producer import TelemetryProducer
from wire.topics import TOPIC_OF

_REQUESTS = TOPIC_OF[RequestSample]


class Delivery(Protocol):
    """A place for samples."""

    def deliver(self, samples: Iterable[RequestSample], received_s: float) -> None:
        """`received_s` is when the answer that gave the samples was there, UNIX seconds."""


class KafkaDelivery:
    """Kafka, by a producer that somebody else starts and stops. Samples keep no `received_s`: Kafka's own time says it,
    so that a collector with a wrong clock shows."""

    def __init__(self, producer: TelemetryProducer) -> None:
        self._producer = producer

    def deliver(self, samples: Iterable[RequestSample], received_s: float) -> None:
        for sample in samples:
            self._producer.send(sample)


class ReplayFile:
    """A replay file: a record a line with its topic and `received_s`; fields that are unknown are left out.

    `path` may be `-` (standard output), and is gzip by its ending. The same samples give the same bytes. An existing
    file is replaced. Raises OSError where it cannot be written; use it as a context.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._stack = ExitStack()

    def __enter__(self) -> "ReplayFile":
        self._file = self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def deliver(self, samples: Iterable[RequestSample], received_s: float) -> None:
        for sample in samples:
            known = {name: value for name in sample.__struct_fields__ if (value := getattr(sample, name)) is not None}
            line = {"topic": _REQUESTS, "received_s": received_s, **known}
            self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    def _open(self) -> BinaryIO:
        if self._path == "-":
            return sys.stdout.buffer
        raw = self._stack.enter_context(open(self._path, "wb"))  # noqa: SIM115  # the stack closes it
        return self._stack.enter_context(packing(raw, self._path))
