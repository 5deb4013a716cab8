"""A worker that reads the log again has the same last bit in every value."""

from random import Random

import numpy as np
import pytest

from records.enums import Source
from records.histogram import Histogram
from records.telemetry import RequestSample
from streams.windows.columns import SampleColumns
from streams.windows.grid import Grid
from streams.windows.windows import Windows

SPAN_S = 302
END_S = 1_700_000_000
FIELDS = ("running", "waiting", "kv_cache_usage", "completions", "streamed_fraction")


def some_log(random: Random, seconds: int) -> list[RequestSample]:
    """Replicas that come and go, and routers that see shares of them; values with all their digits."""
    log = []
    for at_s in range(END_S - seconds, END_S):
        for place in range(6):
            replica = f"r{place + (at_s // 200 if place < 2 else 0)}"
            for source, reporter in ((Source.ENGINE, None), (Source.ROUTER, "x"), (Source.ROUTER, "y")):
                if source is Source.ENGINE and random.random() < 0.3:
                    continue
                counts = tuple(random.randrange(300) for _ in range(3))
                histogram = Histogram(explicit_bounds=(1.0, 3.0), bucket_counts=counts, sum=random.random() * 1e3)
                log.append(
                    RequestSample(
                        endpoint="chat",
                        replica=replica,
                        at_s=at_s,
                        source=source,
                        reporter=reporter,
                        running=random.random() * 100,
                        waiting=random.choice((None, random.random())),
                        kv_cache_usage=random.random(),
                        completions=random.choice((None, random.randrange(9))),
                        streamed_fraction=random.choice((None, random.random(), 0.0)),
                        e2e_ms=random.choice((None, histogram)),
                    )
                )
    return log


def read(log: list[RequestSample], batch: int) -> Windows:
    windows = Windows(SPAN_S)
    windows.keep_from("chat", 0)
    for start in range(0, len(log), batch):
        part = log[start : start + batch]
        windows.keep_from("chat", max(sample.at_s for sample in part) - SPAN_S)
        windows.add(SampleColumns.from_records(part, np.zeros(len(part))))
    windows.keep_from("chat", END_S - 300)
    return windows


def bits(grid: Grid) -> list[object]:
    merged = grid.histogram("e2e_ms")
    values = [grid.field(name).tobytes() for name in FIELDS]
    return [
        grid.replicas,
        grid.heard.tobytes(),
        *values,
        merged.sum.hex(),
        merged.counts.tobytes(),
        merged.summed_count,
    ]


@pytest.mark.parametrize("seed", range(3))
def test_neither_the_log_s_beginning_nor_its_cut_nor_its_order_is_seen(seed: int) -> None:
    random = Random(seed)
    log = some_log(random, 420)
    first = read(log, 500)
    again = [sample for sample in log if sample.at_s >= END_S - SPAN_S]
    jittered = sorted(again, key=lambda sample: sample.at_s + random.random() * 5)
    for other, batch in ((again, 37), (jittered, 501), (jittered, 1000)):
        rebuilt = read(other, batch)
        for window_s in (300, 20):
            here = first.grid("chat", END_S - window_s, END_S)
            there = rebuilt.grid("chat", END_S - window_s, END_S)
            assert bits(here) == bits(there)
        assert bits(first.grid("chat", END_S - 300, END_S).since(END_S - 20)) == bits(
            rebuilt.grid("chat", END_S - 300, END_S).since(END_S - 20)
        )
