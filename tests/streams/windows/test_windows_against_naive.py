"""The windows and the naive ones are given the same samples, and must agree on everything that can be read."""

from collections.abc import Iterable, Sequence
from math import isclose, isnan

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from records.epoch_memory import EpochSeen
from records.telemetry import RequestSample
from streams.windows.columns import SampleColumns
from streams.windows.grid import Grid
from streams.windows.windows import AddReport, Windows
from tests.streams.windows.naive_windows import NaiveEndpoint, NaiveGrid, SourceName, below
from tests.streams.windows.sample_strategies import CROWDED_NAMES, FIELDS, HISTOGRAMS, START_S, samples

SPAN_S = 64
ENDPOINTS = ("chat", "code")
QUICK = settings(deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink))


def columns_of(batch: Sequence[RequestSample]) -> SampleColumns:
    return SampleColumns.from_records(batch, np.array([sample.at_s + 1.0 for sample in batch]))


def assert_value(found: float, expected: object) -> None:
    if expected is None:
        assert isnan(found)
    else:
        assert found == expected


def assert_histogram(grid: Grid, naive: NaiveGrid, name: str) -> None:
    merged, expected = grid.histogram(name), naive.histograms(name)
    values = sum(sum(histogram.bucket_counts) for histogram in expected)
    assert merged.total == values if merged.widths is None else isclose(merged.total, values, rel_tol=1e-12)
    known = [histogram for histogram in expected if histogram.sum is not None]
    assert merged.summed_count == sum(sum(histogram.bucket_counts) for histogram in known)
    counted = [histogram for histogram in expected if any(histogram.bucket_counts)]
    if merged.total:
        assert merged.bounds == tuple(sorted({bound for part in counted for bound in part.explicit_bounds}))
    cumulative = np.cumsum(merged.counts)
    for edge, inside in zip(merged.bounds, cumulative.tolist(), strict=False):
        assert isclose(inside, below(counted, edge), rel_tol=1e-12, abs_tol=1e-6)


def assert_same(grid: Grid, naive: NaiveGrid, fields: Iterable[str] = FIELDS) -> None:
    """`grid` may be the end of a longer one, and name replicas that were heard earlier alone."""
    seconds = range(grid.first_s, grid.end_s)
    assert set(naive.replicas) <= set(grid.replicas)
    assert list(grid.replicas) == sorted(grid.replicas)
    assert grid.epochs == tuple(naive.current_epoch(replica) for replica in grid.replicas)
    for name in fields:
        matrix, gateway = grid.field(name), grid.gateway(name)
        for column, at_s in enumerate(seconds):
            assert_value(gateway[column], naive.value("", name, at_s))
            for row, replica in enumerate(grid.replicas):
                assert_value(matrix[row, column], naive.value(replica, name, at_s))
    for column, at_s in enumerate(seconds):
        assert grid.gateway_heard[column] == naive.heard("", at_s)
        for row, replica in enumerate(grid.replicas):
            assert grid.heard[row, column] == naive.heard(replica, at_s)
            assert_value(grid.arrivals[row, column], naive.arrivals(replica, at_s))
    assert set(grid.restarts) == naive.restarts()
    assert set(grid.two_processes) == naive.two_processes()
    suspects = {name for name, *_ in naive.two_processes()}
    assert [bool(flag) for flag in grid.suspect] == [replica in suspects for replica in grid.replicas]
    for name in HISTOGRAMS:
        assert_histogram(grid, naive, name)


class Pair:
    """The windows and the naive ones, side by side."""

    def __init__(self) -> None:
        self.windows = Windows(SPAN_S)
        self.naive = {name: NaiveEndpoint(SPAN_S) for name in ENDPOINTS}
        self.reports: list[AddReport] = []

    def add(self, batch: Sequence[RequestSample], rows: Sequence[int] | None = None) -> None:
        selected = range(len(batch)) if rows is None else rows
        report = self.windows.add(columns_of(batch), None if rows is None else np.array(rows, np.int64))
        self.reports.append(report)
        lates = []
        for row in selected:
            counts = self.naive[batch[row].endpoint].counts
            before = counts.late
            self.naive[batch[row].endpoint].add(batch[row])
            if counts.late != before:
                lates.append(row)
        assert report.late_rows.tolist() == lates

    def keep_from(self, endpoint: str, first_s: int) -> None:
        self.windows.keep_from(endpoint, first_s)
        self.naive[endpoint].keep_from(first_s)

    def check(self, first_s: int, end_s: int, quarantined: frozenset[SourceName] = frozenset()) -> None:
        for endpoint, naive in self.naive.items():
            grid = self.windows.grid(endpoint, first_s, end_s, quarantined)
            assert list(grid.replicas) == NaiveGrid(naive, first_s, end_s, quarantined).replicas
            assert_same(grid, NaiveGrid(naive, first_s, end_s, quarantined))
            tail_s = max(first_s, end_s - 5)
            assert_same(grid.since(tail_s), NaiveGrid(naive, tail_s, end_s, quarantined), ("running", "completions"))

    def check_counts(self) -> None:
        for name in ("accepted", "replaced", "duplicate", "late", "unattributed"):
            expected = sum(getattr(naive.counts, name) for naive in self.naive.values())
            assert sum(getattr(report, name) for report in self.reports) == expected


sources = st.frozensets(
    st.sampled_from((("a", "engine", "a"), ("a", "router", "r1"), ("b", "engine", "r2"), ("", "router", "r1"))),
    max_size=2,
)
cuts = st.lists(st.integers(1, 12), min_size=1, max_size=10)


def batches_of(log: Sequence[RequestSample], sizes: Sequence[int]) -> list[Sequence[RequestSample]]:
    """The log cut into batches, the sizes taken in turn."""
    found, start, turn = [], 0, 0
    while start < len(log):
        found.append(log[start : start + sizes[turn % len(sizes)]])
        start, turn = start + sizes[turn % len(sizes)], turn + 1
    return found


@given(log=st.lists(samples(spread_s=90), max_size=40), sizes=cuts, quarantined=sources, begin=st.integers(-5, 60))
@settings(QUICK, max_examples=150)
def test_agrees_while_the_floor_follows(
    log: list[RequestSample], sizes: list[int], quarantined: frozenset[SourceName], begin: int
) -> None:
    pair = Pair()
    for batch in batches_of(log, sizes):
        pair.add(batch)
    pair.check(START_S + begin, START_S + begin + 40, quarantined)
    pair.check(START_S, START_S + 91)
    pair.check_counts()


@given(
    log=st.lists(samples(spread_s=3, names=CROWDED_NAMES), max_size=40),
    sizes=cuts,
    quarantined=sources,
)
@settings(QUICK, max_examples=150)
def test_agrees_where_samples_collide(
    log: list[RequestSample], sizes: list[int], quarantined: frozenset[SourceName]
) -> None:
    pair = Pair()
    for batch in batches_of(log, sizes):
        pair.add(batch)
    pair.check(START_S, START_S + 4)
    pair.check(START_S + 1, START_S + 4, quarantined)
    pair.check_counts()


moves = st.tuples(st.sampled_from(ENDPOINTS), st.integers(-70, 60).map(lambda offset: START_S + offset))


@given(
    steps=st.lists(moves | st.lists(samples(spread_s=120) | samples(120, CROWDED_NAMES[:2]), max_size=8), max_size=12),
    tail=st.integers(0, 60),
)
@settings(QUICK, max_examples=150)
def test_agrees_while_the_caller_moves_the_floor(steps: list[tuple[str, int] | list[RequestSample]], tail: int) -> None:
    """Samples beyond the span wait; what ended is freed, and neither is seen in what is read."""
    pair = Pair()
    for step in steps:
        if isinstance(step, tuple):
            pair.keep_from(*step)
        else:
            pair.add(step)
    pair.check(START_S + tail, START_S + tail + 30)
    pair.check_counts()


@given(log=st.lists(samples(spread_s=30), min_size=1, max_size=30), rows=st.sets(st.integers(0, 29)))
@settings(QUICK, max_examples=60)
def test_takes_the_chosen_rows_alone(log: list[RequestSample], rows: set[int]) -> None:
    pair = Pair()
    pair.add(log, sorted(row for row in rows if row < len(log)))
    pair.check(START_S, START_S + 31)
    pair.check_counts()


def epochs_of(naive: NaiveEndpoint) -> dict[tuple[str, str | None], list[tuple[str, int]]]:
    return {speaker: list(firsts.items()) for speaker, firsts in naive.epochs.items()}


@given(log=st.lists(samples(spread_s=40), min_size=2, max_size=30), split=st.integers(1, 29))
@settings(QUICK, max_examples=60)
def test_a_restarted_worker_knows_the_epochs_again(log: list[RequestSample], split: int) -> None:
    """Its log begins in the middle; what was remembered tells it which epochs are the older ones."""
    pair = Pair()
    pair.add(log[:split])
    remembered: dict[str, tuple[EpochSeen, ...]] = {name: pair.windows.epochs(name) for name in ENDPOINTS}
    restarted = Windows(SPAN_S)
    for name, seen in remembered.items():
        restarted.restore_epochs(name, seen)
    pair.add(log[split:])
    restarted.add(columns_of(log[split // 2 :]))
    for name in ENDPOINTS:
        by_speaker: dict[tuple[str, str | None], list[tuple[str, int]]] = {}
        for known in restarted.epochs(name):
            by_speaker.setdefault((known.replica, known.reporter), []).append((known.epoch, known.first_s))
        assert by_speaker == epochs_of(pair.naive[name])
