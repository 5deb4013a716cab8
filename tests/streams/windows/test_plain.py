"""Series of many endpoints read at once have the values of each endpoint's own grid."""

import random

import numpy as np
import pytest

from records.telemetry import RequestSample
from streams.windows.columns import SCALAR_FIELDS, SampleColumns
from streams.windows.plain import plain_series
from streams.windows.windows import Windows
from tests.seeds import seeds
from tests.streams.controller.line import sample

START_S = 5_000
SECONDS = 90
SPAN_S = 64


def _samples(rng: random.Random, endpoint: str) -> list[RequestSample]:
    found = []
    for replica in range(rng.randint(1, 4)):
        unknown = rng.random() < 0.3
        for second in range(rng.choice((0, 30)), SECONDS):
            if rng.random() < 0.1:
                continue
            fields = {
                "arrivals": None if unknown else rng.randint(0, 9),
                "waiting": rng.choice((None, rng.random() * 9)),
                "kv_cache_usage": rng.choice((None, rng.random())),
                "streamed_fraction": rng.choice((None, 0.0, 1.0)),
                "output_tokens": rng.randint(0, 4_000_000_000),
            }
            found.append(sample(START_S + second, f"r{replica}", endpoint=endpoint, **fields))
    return found


@pytest.mark.parametrize("seed", seeds(30, quick=5))
def test_plain_seconds_are_those_of_grids(seed: int) -> None:
    rng = random.Random(seed)
    windows, endpoints = Windows(SPAN_S), [f"endpoint-{number}" for number in range(9)]
    records = [record for endpoint in endpoints for record in _samples(rng, endpoint)]
    rng.shuffle(records)
    records.sort(key=lambda record: record.at_s)
    for start in range(0, len(records), 100):
        part = records[start : start + 100]
        windows.add(SampleColumns.from_records(part, np.array([record.at_s + 1.0 for record in part])))
    for endpoint in endpoints[:5]:
        windows.keep_from(endpoint, START_S + SECONDS - rng.randint(5, SPAN_S))
    rng.shuffle(endpoints)
    series = [plain_series(windows.reader(endpoint)) for endpoint in endpoints]
    rows = np.concatenate([one.rows for one in series if one is not None])
    first_s = START_S + SECONDS - rng.randint(1, SPAN_S - 1)
    known = ("arrivals", "completions", "errors", "aborted", "running", "waiting")
    fields = list(dict.fromkeys((*rng.sample(SCALAR_FIELDS, 3), *known)))
    found = windows.plain_reader.seconds(rows, fields, range(first_s, START_S + SECONDS))
    done = 0
    for endpoint, one in zip(endpoints, series, strict=True):
        assert one is not None
        own = slice(done, done + len(one.rows))
        done += len(one.rows)
        grid = windows.grid(endpoint, first_s, START_S + SECONDS)
        heard = found.heard[own].any(axis=1)
        assert tuple(np.array(one.names)[heard]) == grid.replicas
        for name in fields:
            np.testing.assert_array_equal(found.field(name)[own][heard], grid.field(name))
        np.testing.assert_array_equal(found.inflight[own][heard], grid.inflight)
        np.testing.assert_array_equal(found.arrivals[own][heard][:, 1:], grid.arrivals[:, 1:])


def test_an_endpoint_with_a_router_or_two_epochs_is_not_plain() -> None:
    windows = Windows(SPAN_S)
    records = [
        sample(START_S, "r1", endpoint="plain"),
        sample(START_S, "r1", endpoint="routed"),
        sample(START_S, "r1", endpoint="routed", source="router", reporter="gateway"),
        sample(START_S, "r1", endpoint="restarted", epoch="a"),
        sample(START_S + 1, "r1", endpoint="restarted", epoch="b"),
        sample(START_S, "", endpoint="waiting", source="router", reporter="gateway"),
    ]
    windows.add(SampleColumns.from_records(records, np.full(len(records), START_S + 2.0)))
    plain = plain_series(windows.reader("plain"))
    assert plain is not None
    assert plain.names == ("r1",)
    assert [plain_series(windows.reader(name)) for name in ("routed", "restarted", "waiting", "nobody")] == [None] * 4
    windows.add(SampleColumns.from_records([sample(START_S + 2, "r2", endpoint="plain")], np.array([START_S + 3.0])))
    assert not plain.is_current
