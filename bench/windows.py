"""The window kernel alone: Arrow frames of 500 samples, read by the worker's own reader, become columns and go into the
buckets.

CPU time of the process is measured, since the machine is shared. Every second has other values; floors move every 5 s
as ticks move them. A ratio is the median of interleaved pairs.
"""

import time
from random import Random
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from bench.registry import Result
from records.enums import Source
from records.histogram import Histogram
from records.telemetry import RequestSample
from simulation.vllm_bounds import VLLM_BOUNDS_MS
from streams.endpoints.ticks import TICK_S
from streams.shell.sample_frames import SampleFrames
from streams.windows.columns import COUNT_FIELDS, GAUGE_FIELDS
from streams.windows.windows import SPAN_S, Windows
from wire.frames import decode_frame, encode_frames

REPLICAS = 500
ENDPOINTS = 50
TEMPLATES = 20
START_S = 1_700_000_000
SHORT_SPAN_S = 64
LONG_SPAN_S = 3602
SEED = 7


def some_sample(random: Random, replica: int, *, full: bool) -> RequestSample:
    """All scalars, and with `full` the four histograms, of some three requests a second."""
    values: dict[str, Any] = {name: random.randrange(2000) for name in COUNT_FIELDS}
    values |= {name: random.random() for name in GAUGE_FIELDS}
    for name, bounds in VLLM_BOUNDS_MS.items() if full else ():
        counts = [0] * (len(bounds) + 1)
        for _ in range(3):
            counts[random.randrange(len(counts))] += 1
        values[name] = Histogram(explicit_bounds=bounds, bucket_counts=tuple(counts), sum=random.random() * 1e4)
    return RequestSample(
        endpoint=f"endpoint-{replica % ENDPOINTS}",
        replica=f"replica-{replica}",
        epoch="1700000000000",
        source=Source.ENGINE,
        at_s=START_S,
        streamed_fraction=random.random(),
        **values,
    )


def make_templates(*, full: bool) -> list[pa.RecordBatch]:
    """Decoded frames of one second of all replicas, each with other values."""
    random = Random(SEED)
    frames = []
    for _ in range(TEMPLATES):
        (frame,) = encode_frames([some_sample(random, replica, full=full) for replica in range(REPLICAS)])
        frames.append(decode_frame("telemetry.requests", frame.value).batch)
    return frames


class Feed:
    """Windows that are fed second by second; what is not the kernel's work is done between the measurements."""

    def __init__(self, templates: list[pa.RecordBatch], span_s: int) -> None:
        self._templates = templates
        self._windows = Windows(span_s)
        self._span_s = span_s
        self._at_s = START_S
        self._frames = SampleFrames()

    def run(self, seconds: int) -> float:
        """Feed so many seconds of all replicas; CPU seconds a sample."""
        spent = 0.0
        for start_s in range(self._at_s, self._at_s + seconds, TICK_S):
            frames = [self._frames.read(self._dated(start_s + offset)) for offset in range(TICK_S)]
            begun = time.process_time()
            for offset, frame in enumerate(frames):
                self._windows.add(self._frames.columns(frame, frame.received_s(start_s + offset + 1.0)))
            for endpoint in self._windows.endpoints:
                self._windows.keep_from(endpoint, start_s + 2 * TICK_S - self._span_s)
            spent += time.process_time() - begun
        self._at_s += seconds
        return spent / (seconds * REPLICAS)

    def _dated(self, at_s: int) -> bytes:
        batch = self._templates[at_s % TEMPLATES]
        index = batch.schema.get_field_index("at_s")
        dated = batch.set_column(index, batch.schema.field(index), pa.array(np.full(REPLICAS, at_s)))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, dated.schema) as writer:
            writer.write_batch(dated)
        return bytes(sink.getvalue())


def run(*, short: bool) -> Result:
    """`samples_per_s` with the default span, of CPU time; the ratio once both rings went round."""
    pairs, seconds = (3, 100) if short else (9, 400)
    lean, full = make_templates(full=False), make_templates(full=True)
    lean_feed, full_feed = Feed(lean, SPAN_S), Feed(full, SPAN_S)
    for feed in (lean_feed, full_feed):
        feed.run(SPAN_S // TICK_S * TICK_S + TICK_S)
    lean_s = median(lean_feed.run(seconds) for _ in range(pairs))
    full_s = median(full_feed.run(seconds) for _ in range(pairs))
    del full_feed
    short_feed, long_feed = Feed(lean, SHORT_SPAN_S), Feed(lean, LONG_SPAN_S)
    short_feed.run(SHORT_SPAN_S // TICK_S * TICK_S + TICK_S)
    long_feed.run(LONG_SPAN_S // TICK_S * TICK_S + TICK_S)
    ratios = []
    for _ in range(pairs):
        shorter = short_feed.run(seconds)
        ratios.append(long_feed.run(seconds) / shorter)
    return Result(
        figures={"samples_per_s": 1 / lean_s, "samples_per_s_full": 1 / full_s, "ratio_3600_to_20": median(ratios)},
        context={
            "replicas": REPLICAS,
            "endpoints": ENDPOINTS,
            "frame_rows": REPLICAS,
            "spans_s": [SHORT_SPAN_S, SPAN_S, LONG_SPAN_S],
            "note": "the shortest span a ring can have, 64 s, stands for the window of 20 s",
            "pairs": pairs,
            "seconds_a_pair": seconds,
            "seed": SEED,
        },
    )
