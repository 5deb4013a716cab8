"""What a holder of a producer's key sends to fill a worker's memory, beside one honest replica and an honest neighbour.

Run as a process of its own with a cap on its memory: `python -m tests.security.flood REPLICAS CAP_MB LABEL_CHARS`. It
prints one JSON object.
"""

import json
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from records.enums import Source
from records.telemetry import GpuSample, ReplicaChanged, RequestSample
from streams.controller.controller import PartitionController
from streams.windows.columns import SampleColumns
from tests.streams.controller.line import policy, sample
from wire.batches import FrameRun, JsonRun, decode_messages
from wire.codec import encode
from wire.frame_schema import DICTIONARY, frame_columns
from wire.frames import FRAME_ROWS_MAX, encode_frames

REQUESTS = "telemetry.requests"
START_S = 1_700_000_000
LABEL = "x" * int(sys.argv[3])
BUCKETS = 200


@dataclass
class Message:
    offset: int
    timestamp: int
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    key: bytes | None = b"flooded"


class Line:
    """A partition's controller, fed with messages as they lie in the log."""

    def __init__(self) -> None:
        self.controller = PartitionController(0, lambda endpoint: True)
        metrics = [{"name": "gpu_utilization", "target": 0.5}, {"name": "inflight_requests", "target": 8}]
        self.controller.restore([], [policy("flooded", metrics=metrics), policy("neighbour")])
        self.ticks = 0
        self.last: dict[str, object] = {}
        self.memory_bytes_max = 0
        self._offsets: dict[str, int] = {}

    def send(self, topic: str, value: bytes, received_s: float, framed: bool = False) -> None:
        offset = self._offsets[topic] = self._offsets.get(topic, -1) + 1
        headers = (("content-type", b"application/vnd.apache.arrow.stream"),) if framed else ()
        message = Message(offset, int(received_s * 1000), value, headers)
        for run in decode_messages(topic, topic, 0, [message]).runs:
            match run:
                case JsonRun():
                    effects = self.controller.feed(topic, run.records, run.offsets, run.received_s)
                case FrameRun():
                    columns = SampleColumns.from_arrow(run.batch, run.received_s)
                    offsets = np.full(len(columns), offset, np.int64)
                    effects = self.controller.feed(topic, columns, offsets, run.received_s)
            for effect in effects:
                self.ticks += 1
                self.last[effect.endpoint] = msgspec.to_builtins(effect.signal.windows)
                self.memory_bytes_max = max(self.memory_bytes_max, len(encode(effect.memory)))

    def has_honest_replica(self) -> bool:
        """Whether the windows still have the replica that was there before the flood."""
        sources = self.controller._registry.windows.of("flooded").requests.sources("flooded")
        return any(replica == "r1" for replica, _, _ in sources)


def distinct_replicas(first: int, count: int, at_s: int) -> bytes:
    """A frame of so many replicas, each with a name, an epoch and a reporter of its own."""
    (template,) = encode_frames([RequestSample(endpoint="flooded", replica="r", at_s=at_s, source=Source.ENGINE)])
    schema = frame_columns(REQUESTS).schema
    one = pa.ipc.open_stream(template.value).read_next_batch()
    names = [f"{LABEL}{number:010d}" for number in range(first, first + count)]
    own = pa.DictionaryArray.from_arrays(pa.array(range(count), pa.int32()), pa.array(names)).cast(DICTIONARY)
    arrays = [
        own
        if field.name in ("replica", "epoch", "reporter") and pa.types.is_dictionary(field.type)
        else pa.array(names)
        if field.name in ("replica", "epoch", "reporter")
        else one.column(field.name).take(pa.array(np.zeros(count, np.int64)))
        for field in schema
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return bytes(sink.getvalue())


def flood(line: Line, replicas: int) -> None:
    """One minute of it; each second the honest replica and the neighbour speak first."""
    for second in range(60):
        at_s = START_S + second
        received_s = at_s + 1.0
        for endpoint in ("flooded", "neighbour"):
            line.send(REQUESTS, encode(sample(at_s, endpoint=endpoint)), received_s)
        for first, count in _shares(replicas, second):
            line.send(REQUESTS, distinct_replicas(first, count, at_s), received_s, framed=True)
        for value in _odd_histograms(at_s, second):
            line.send(REQUESTS, value, received_s)
        for number in range(replicas // 600):
            name = f"{LABEL}{second * 10_000 + number:010d}"
            changed = ReplicaChanged(endpoint="flooded", replica=name, at_s=at_s, state="ready", epoch=name)  # type: ignore[arg-type]  # as decoded
            line.send("telemetry.replicas", encode(changed), received_s)
            gpu = GpuSample(endpoint="flooded", replica=name, at_s=at_s, gpu=name, epoch=name)
            line.send("telemetry.gpus", encode(gpu), received_s)


def _shares(replicas: int, second: int) -> Iterator[tuple[int, int]]:
    per_second = replicas // 60
    for start in range(0, per_second, FRAME_ROWS_MAX):
        yield second * per_second + start, min(FRAME_ROWS_MAX, per_second - start)


def _odd_histograms(at_s: int, second: int) -> Iterator[bytes]:
    """The same replica under ever new bounds, as many of them as a histogram may have."""
    for number in range(20):
        bounds = [second * 1000 + number * 10 + place / 1000 for place in range(BUCKETS)]
        histogram = {"explicit_bounds": bounds, "bucket_counts": [1] * (BUCKETS + 1)}
        fields = dict.fromkeys(("ttft_ms", "tpot_ms", "e2e_ms", "queue_ms"), histogram)
        yield encode(sample(at_s, replica=f"odd-{number}", endpoint="flooded", **fields))


def main() -> None:
    replicas, cap_mb = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (cap_mb * 2**20, cap_mb * 2**20))
    line = Line()
    flood(line, replicas)
    told = {
        "ticks": line.ticks,
        "neighbour": line.last["neighbour"],
        "honest": line.has_honest_replica(),
        "counts": {kind.value: count for kind, count in line.controller.counts.by_kind.items()},
        "memory_bytes_max": line.memory_bytes_max,
        "window_bytes": line.controller.window_bytes,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
