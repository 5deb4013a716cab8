"""Standing still while there is more is stuck; at the end it is not."""

from sinks.watch import ProgressWatch


def test_stuck_only_below_the_end_and_after_the_patience() -> None:
    watch: ProgressWatch[str] = ProgressWatch(patience_s=10.0)
    assert watch.stuck(0.0, {"still": 5, "done": 9}, {"still": 9, "done": 9}) == []
    assert watch.stuck(10.0, {"still": 5, "done": 9}, {"still": 9, "done": 9}) == []
    assert watch.stuck(10.1, {"still": 5, "done": 9}, {"still": 9, "done": 9}) == ["still"]


def test_any_progress_begins_anew() -> None:
    watch: ProgressWatch[str] = ProgressWatch(patience_s=10.0)
    watch.stuck(0.0, {"p": 5}, {"p": 9})
    watch.stuck(9.0, {"p": 6}, {"p": 9})
    assert watch.stuck(18.0, {"p": 6}, {"p": 9}) == []
    assert watch.stuck(20.0, {"p": 6}, {"p": 9}) == ["p"]


def test_a_partition_that_was_away_begins_anew() -> None:
    watch: ProgressWatch[str] = ProgressWatch(patience_s=10.0)
    watch.stuck(0.0, {"p": 5}, {"p": 9})
    watch.stuck(5.0, {}, {})
    assert watch.stuck(11.0, {"p": 5}, {"p": 9}) == []
