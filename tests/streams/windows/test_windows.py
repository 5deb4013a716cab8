"""The rules of the windows, one by one, on samples that can be counted by hand."""

from typing import Any

import numpy as np
import pytest

from records.histogram import Histogram
from records.telemetry import RequestSample
from streams.windows.columns import SampleColumns
from streams.windows.windows import AddReport, Windows

SPAN_S = 64


def sample(at_s: int, replica: str = "a", **fields: Any) -> RequestSample:
    return RequestSample(**{"endpoint": "chat", "replica": replica, "at_s": at_s, "source": "engine", **fields})


def routed(at_s: int, reporter: str, replica: str = "a", **fields: Any) -> RequestSample:
    return sample(at_s, replica, source="router", reporter=reporter, **fields)


def histogram(*counts: int, bounds: tuple[float, ...] = (10.0, 20.0), total: float | None = None) -> Histogram:
    return Histogram(explicit_bounds=bounds, bucket_counts=counts, sum=total)


def add(windows: Windows, *batch: RequestSample) -> AddReport:
    return windows.add(SampleColumns.from_records(batch, np.array([one.at_s + 1.0 for one in batch])))


def field(windows: Windows, name: str, first_s: int, end_s: int) -> list[list[float | None]]:
    matrix = windows.grid("chat", first_s, end_s).field(name)
    return [[None if np.isnan(value) else value for value in row] for row in matrix.tolist()]


def counts(windows: Windows, name: str = "e2e_ms", first_s: int = 100, end_s: int = 110) -> list[float]:
    found: list[float] = windows.grid("chat", first_s, end_s).histogram(name).counts.tolist()
    return found


def test_unknown_is_not_zero() -> None:
    windows = Windows(SPAN_S)
    add(windows, sample(100, completions=0, running=0.0, cpu=0.0), sample(101))
    for name in ("completions", "running", "cpu"):
        assert field(windows, name, 100, 103) == [[0.0, None, None]]
    assert windows.grid("chat", 100, 103).heard.tolist() == [[True, True, False]]


def test_the_engine_counts_where_it_is_known_else_the_routers() -> None:
    windows = Windows(SPAN_S)
    add(
        windows,
        sample(100, running=3.0),
        routed(100, "r1", running=1.0, completions=4),
        routed(100, "r2", running=1.0, completions=5),
        routed(101, "r1", running=1.5),
        routed(101, "r2"),
    )
    assert field(windows, "running", 100, 102) == [[3.0, 1.5]]
    assert field(windows, "completions", 100, 102) == [[9.0, None]]


def test_the_engine_s_histogram_counts_else_the_routers() -> None:
    windows = Windows(SPAN_S)
    add(
        windows,
        sample(100, e2e_ms=histogram(1, 0, 0)),
        routed(100, "r1", e2e_ms=histogram(0, 7, 0)),
        routed(101, "r1", e2e_ms=histogram(0, 0, 2)),
        routed(101, "r2", e2e_ms=histogram(0, 0, 3)),
    )
    assert counts(windows) == [1, 0, 5]


def test_a_quarantined_source_is_read_as_silent() -> None:
    windows = Windows(SPAN_S)
    add(windows, sample(100, running=3.0), routed(100, "r1", running=1.0), sample(100, "b", running=9.0))
    quarantined = frozenset([("a", "engine", "a"), ("b", "engine", "b")])
    grid = windows.grid("chat", 100, 101, quarantined)
    assert grid.replicas == ("a",)
    assert grid.field("running").tolist() == [[1.0]]
    assert grid.quarantined == ("a", "b")


def test_fractions_of_several_reporters_are_averaged() -> None:
    windows = Windows(SPAN_S)
    add(windows, routed(100, "r1", kv_cache_usage=0.5), routed(100, "r2", kv_cache_usage=0.7))
    assert field(windows, "kv_cache_usage", 100, 101) == [[pytest.approx(0.6)]]


def test_requests_without_a_replica_stand_apart() -> None:
    windows = Windows(SPAN_S)
    report = add(
        windows, routed(100, "r1", "", waiting=2.0), routed(100, "r2", "", waiting=3.0), sample(100, "", running=8.0)
    )
    grid = windows.grid("chat", 100, 102)
    assert grid.replicas == ()
    assert grid.field("waiting").shape == (0, 2)
    assert grid.gateway("waiting")[0] == 5.0
    assert grid.gateway_heard.tolist() == [True, False]
    assert np.isnan(grid.gateway("running")[0])
    assert report.unattributed == 1


@pytest.mark.parametrize(
    ("seqs", "kept", "accepted", "replaced", "duplicate"),
    [
        ((0, 0), 1, 1, 0, 1),
        ((0, 1), 2, 1, 1, 0),
        ((2, 1), 1, 1, 0, 1),
        ((0, 1, 1), 2, 1, 1, 1),
        ((1, 3, 2), 2, 1, 1, 1),
    ],
)
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("waiting", [True, False])
def test_the_first_of_the_latest_seq_stays(
    seqs: tuple[int, ...], kept: int, accepted: int, replaced: int, duplicate: int, together: bool, waiting: bool
) -> None:
    windows = Windows(SPAN_S)
    windows.keep_from("chat", 0 if waiting else 50)
    batch = [sample(100, seq=seq, completions=place + 1) for place, seq in enumerate(seqs)]
    reports = [add(windows, *batch)] if together else [add(windows, one) for one in batch]
    if waiting:
        assert field(windows, "completions", 100, 101) == []
        windows.keep_from("chat", 50)
    assert field(windows, "completions", 100, 101) == [[kept]]
    found = [sum(getattr(report, name) for report in reports) for name in ("accepted", "replaced", "duplicate")]
    assert found == [accepted, replaced, duplicate]


def test_nothing_of_a_replaced_sample_stays() -> None:
    windows = Windows(SPAN_S)
    add(windows, sample(100, running=3.0, e2e_ms=histogram(1, 1, 1), ttft_ms=histogram(1, 1, 1)))
    add(
        windows,
        sample(100, "b", ttft_ms=histogram(0, 0, 1)),
        sample(100, seq=1, waiting=2.0, ttft_ms=histogram(5, bounds=())),
    )
    assert field(windows, "running", 100, 101) == [[None], [None]]
    assert windows.grid("chat", 100, 101).histogram("e2e_ms").total == 0
    assert windows.grid("chat", 100, 101).histogram("ttft_ms").total == 6
    add(windows, sample(100, seq=2, ttft_ms=histogram(0, 2, 0)))
    assert counts(windows, "ttft_ms") == [0, 2, 1]
    add(windows, sample(100, seq=3))
    assert counts(windows, "ttft_ms") == [0, 0, 1]


def test_a_second_of_the_next_round_leaves_nothing_of_the_last() -> None:
    windows = Windows(SPAN_S)
    odd = histogram(4, bounds=())
    add(windows, sample(100, running=1.0, e2e_ms=histogram(1, 1, 1)), sample(101, e2e_ms=odd), sample(102, e2e_ms=odd))
    add(
        windows,
        sample(100 + SPAN_S, waiting=1.0),
        sample(101 + SPAN_S),
        sample(102 + SPAN_S, e2e_ms=histogram(0, 1, 0)),
    )
    assert field(windows, "running", 100 + SPAN_S, 101 + SPAN_S) == [[None]]
    assert windows.grid("chat", 0, 1000).histogram("e2e_ms").counts.tolist() == [0, 1, 0]


@pytest.mark.parametrize("largest", [1, 254, 255, 256, 65_534, 65_535, 65_536, 2**32 - 2])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_counts_of_any_size_are_kept(largest: int, place: int) -> None:
    windows = Windows(SPAN_S)
    large = [0, 0, 0]
    large[place] = largest
    add(windows, sample(100, e2e_ms=histogram(1, 2, 3, total=1.5)))
    add(windows, sample(101, e2e_ms=histogram(*large, total=2.0)), sample(102, e2e_ms=histogram(1, 1, 1)))
    expected = [2, 3, 4]
    expected[place] += largest
    assert counts(windows) == expected
    merged = windows.grid("chat", 100, 110).histogram("e2e_ms")
    assert (merged.sum, merged.summed_count) == (3.5, 6 + largest)


def test_late_samples_correct_the_span_and_older_ones_are_counted() -> None:
    windows = Windows(SPAN_S)
    add(windows, sample(200, running=1.0))
    report = add(windows, sample(200 - SPAN_S + 1, running=2.0), sample(200 - SPAN_S, running=3.0))
    assert (report.accepted, report.late, report.late_rows.tolist()) == (1, 1, [1])
    assert field(windows, "running", 136, 138) == [[None, 2.0]]


def test_the_floor_is_the_caller_s_once_it_was_moved() -> None:
    windows = Windows(SPAN_S)
    windows.keep_from("chat", 100)
    report = add(windows, sample(99), sample(100, running=1.0), sample(500, running=5.0), sample(101, running=2.0))
    assert (report.accepted, report.late) == (3, 1)
    assert field(windows, "running", 99, 103) == [[None, 1.0, 2.0, None]]
    windows.keep_from("chat", 450)
    assert field(windows, "running", 499, 501) == [[None, 5.0]]
    windows.keep_from("chat", 400)
    assert add(windows, sample(449)).late == 1


def test_what_waited_too_long_pushes_out_nothing() -> None:
    windows = Windows(SPAN_S)
    windows.keep_from("chat", 100)
    add(windows, sample(170 + SPAN_S, running=2.0), sample(170, running=1.0))
    windows.keep_from("chat", 171)
    assert field(windows, "running", 170, 171 + SPAN_S)[0] == [None] * SPAN_S + [2.0]


def test_what_waited_keeps_its_replica() -> None:
    windows = Windows(SPAN_S)
    windows.keep_from("chat", 100)
    add(windows, sample(300, running=1.0), sample(300, "b", running=2.0), sample(300, seq=1, running=3.0))
    windows.keep_from("chat", 280)
    assert field(windows, "running", 300, 301) == [[3.0], [2.0]]


def test_only_a_known_zero_is_nothing_streamed() -> None:
    windows = Windows(SPAN_S)
    add(
        windows, *[sample(100 + place, streamed_fraction=value) for place, value in enumerate((0.0, 1e-60, 0.25, None))]
    )
    (values,) = field(windows, "streamed_fraction", 100, 104)
    assert (values[0], values[2], values[3]) == (0.0, 0.25, None)
    assert values[1] is not None
    assert 0 < values[1] < 1e-30


@pytest.mark.parametrize("reporter", [None, "a"])
def test_a_series_that_comes_back_does_not_find_another_s_row(reporter: str | None) -> None:
    windows = Windows(SPAN_S)
    add(windows, sample(100, reporter=reporter, running=1.0))
    windows.keep_from("chat", 120)
    add(windows, sample(130, "b", running=2.0))
    add(windows, sample(131, reporter=reporter, running=3.0))
    assert windows.grid("chat", 130, 132).replicas == ("a", "b")
    assert field(windows, "running", 130, 132) == [[None, 3.0], [2.0, None]]


def test_a_batch_wider_than_the_span_is_taken_in_its_order() -> None:
    windows = Windows(SPAN_S)
    report = add(
        windows, sample(100, running=1.0), sample(100, running=2.0), sample(100 + SPAN_S, running=3.0), sample(100)
    )
    assert (report.accepted, report.duplicate, report.late, report.late_rows.tolist()) == (2, 1, 1, [3])
    assert field(windows, "running", 100, 101 + SPAN_S)[0][-1] == 3.0
    assert field(windows, "running", 100, 101) == []


def test_a_restart_is_listed_with_its_second() -> None:
    windows = Windows(SPAN_S)
    report = add(
        windows,
        sample(100, epoch="1", running=1.0),
        sample(101, epoch="1", running=1.0),
        sample(102, epoch="2", running=4.0),
        routed(103, "r1", epoch="2", running=5.0),
    )
    grid = windows.grid("chat", 100, 104)
    assert [tuple(restart) for restart in grid.restarts] == [("a", None, "2", 102)]
    assert [seen.epoch for seen in report.new_epochs] == ["2"]
    assert grid.epochs == ("2",)
    assert grid.field("running").tolist() == [[1.0, 1.0, 4.0, 5.0]]
    assert not grid.suspect.any()
    assert grid.since(103).restarts == ()


def test_two_processes_under_one_name_are_never_added() -> None:
    windows = Windows(SPAN_S)
    add(windows, sample(100, epoch="1", running=1.0), sample(101, epoch="2", running=2.0))
    add(windows, sample(101, epoch="1", running=1.0))
    assert not windows.grid("chat", 100, 103).suspect.any()
    add(windows, sample(102, epoch="1", running=1.0), sample(102, epoch="2", running=2.0))
    grid = windows.grid("chat", 100, 103)
    assert grid.suspect.tolist() == [True]
    assert [tuple(pair) for pair in grid.two_processes] == [("a", None, "1", "2", 102)]
    assert grid.field("running").tolist() == [[1.0, 2.0, 2.0]]
    assert windows.grid("chat", 103, 110).two_processes == ()


def test_routers_have_epochs_of_their_own_where_there_is_no_replica() -> None:
    windows = Windows(SPAN_S)
    add(windows, routed(100, "r1", "", epoch="x", waiting=1.0), routed(100, "r2", "", epoch="y", waiting=2.0))
    add(windows, routed(101, "r1", "", epoch="x", waiting=1.0), routed(101, "r2", "", epoch="z", waiting=4.0))
    grid = windows.grid("chat", 100, 102)
    assert grid.gateway("waiting").tolist() == [3.0, 5.0]
    assert [tuple(restart) for restart in grid.restarts] == [("", "r2", "z", 101)]
    assert grid.two_processes == ()


def test_arrivals_that_nobody_counts_follow_from_the_rest() -> None:
    windows = Windows(SPAN_S)
    left: dict[str, Any] = {"completions": 2, "errors": 1, "aborted": 0, "waiting": 0.0}
    add(
        windows,
        sample(100, running=1.0, **left),
        sample(101, running=4.0, **left),
        sample(102, running=3.0, arrivals=9, **left),
        sample(103, running=3.0, **left | {"aborted": None}),
        sample(104, running=3.0, epoch="2", **left),
        sample(105, running=1.0, epoch="2", **left),
    )
    arrivals = windows.grid("chat", 100, 106).arrivals
    assert arrivals[0, 1:3].tolist() == [6.0, 9.0]
    assert np.isnan(arrivals[0, [0, 3, 4]]).all()
    assert arrivals[0, 5] == 1.0
    assert windows.grid("chat", 101, 102).arrivals.tolist() == [[6.0]]


def test_a_change_of_epoch_is_no_change_of_inflight() -> None:
    windows = Windows(SPAN_S)
    left: dict[str, Any] = {"completions": 0, "errors": 0, "aborted": 0, "waiting": 0.0}
    add(windows, sample(100, epoch="1", running=9.0, **left), sample(101, epoch="2", running=0.0, **left))
    assert np.isnan(windows.grid("chat", 100, 102).arrivals).all()


def test_forgetting_frees_rows_for_others() -> None:
    windows = Windows(SPAN_S)
    batch = [sample(100, f"replica-{number}", running=1.0, e2e_ms=histogram(1, 2, 300)) for number in range(50)]
    add(windows, *batch)
    full = windows.nbytes
    windows.forget("chat")
    assert windows.endpoints == ()
    assert windows.grid("chat", 100, 101).replicas == ()
    add(windows, *[sample(100, f"other-{number}", e2e_ms=histogram(0, 0, 0)) for number in range(50)])
    assert windows.grid("chat", 100, 101).histogram("e2e_ms").total == 0
    assert field(windows, "running", 100, 101) == [[None]] * 50
    assert windows.nbytes <= full * 1.4


def test_a_ring_that_is_used_again_is_empty() -> None:
    windows = Windows(SPAN_S)
    add(windows, *[sample(at_s, e2e_ms=histogram(1, 1, 1)) for at_s in range(100, 110)])
    windows.forget("chat")
    add(windows, *[sample(at_s, "b") for at_s in range(100, 110)])
    add(windows, sample(110, "b", e2e_ms=histogram(0, 0, 1)))
    assert counts(windows, first_s=100, end_s=111) == [0, 0, 1]


def test_a_fleet_that_is_replaced_again_and_again_costs_the_memory_of_two() -> None:
    windows = Windows(SPAN_S)
    sizes = []
    for generation in range(10):
        start_s = 1000 + generation * SPAN_S
        for at_s in range(start_s, start_s + SPAN_S, 8):
            names = [f"{generation}-{number}" for number in range(20)]
            add(windows, *[sample(at_s, name, e2e_ms=histogram(1, 2, 3)) for name in names])
            windows.keep_from("chat", at_s - SPAN_S + 2)
        sizes.append(windows.nbytes)
    assert sizes[-1] == sizes[2]
    assert len(windows.grid("chat", start_s, start_s + SPAN_S).replicas) == 20


def test_bounds_that_change_for_good_take_over_the_ring() -> None:
    """For a span they wait beside it; then no histogram of the old bounds is left, and memory is as before."""
    windows = Windows(SPAN_S)
    for at_s in range(100, 100 + SPAN_S):
        add(windows, sample(at_s, e2e_ms=histogram(1, 0, 0)))
    settled = windows.nbytes
    for at_s in range(100 + SPAN_S, 100 + 3 * SPAN_S):
        add(windows, sample(at_s, e2e_ms=histogram(0, 1, bounds=(5.0,))))
        merged = windows.grid("chat", at_s - SPAN_S + 1, at_s + 1).histogram("e2e_ms")
        assert merged.total == SPAN_S
    assert merged.bounds == (5.0,)
    assert windows.nbytes < settled * 1.5


def test_the_span_has_a_least_length() -> None:
    with pytest.raises(ValueError, match="span_s must be at least 64, got 63"):
        Windows(63)


def test_seconds_of_any_year_are_kept_apart() -> None:
    windows = Windows(SPAN_S)
    for at_s in (0, 5, 2**31, 2**32 + 7, 253_402_300_799):
        add(windows, sample(at_s, running=1.0))
        assert field(windows, "running", at_s, at_s + 1) == [[1.0]]
