"""A stall is a position that stays behind a log that has more."""

from wire.stalls import StallDetector


def test_a_position_that_stands_still_is_found_once_the_patience_is_over() -> None:
    detector: StallDetector[str] = StallDetector(patience_s=10.0)
    assert detector.stalled(0.0, {"still": 5, "done": 9}, {"still": 9, "done": 9}) == []
    assert detector.stalled(9.9, {"still": 5, "done": 9}, {"still": 9, "done": 9}) == []
    assert detector.stalled(10.0, {"still": 5, "done": 9}, {"still": 9, "done": 9}) == ["still"]


def test_nothing_to_read_is_no_stall_and_the_patience_begins_when_there_is() -> None:
    detector: StallDetector[str] = StallDetector(patience_s=10.0)
    assert detector.stalled(0.0, {"p": 5}, {"p": 5}) == []
    assert detector.stalled(50.0, {"p": 5}, {"p": 5}) == []
    assert detector.stalled(55.0, {"p": 5}, {"p": 7}) == []
    assert detector.stalled(64.9, {"p": 5}, {"p": 7}) == []
    assert detector.stalled(65.0, {"p": 5}, {"p": 7}) == ["p"]


def test_any_progress_begins_anew() -> None:
    detector: StallDetector[str] = StallDetector(patience_s=10.0)
    detector.stalled(0.0, {"p": 5}, {"p": 9})
    detector.stalled(9.0, {"p": 6}, {"p": 9})
    assert detector.stalled(18.0, {"p": 6}, {"p": 9}) == []
    assert detector.stalled(20.0, {"p": 6}, {"p": 9}) == ["p"]


def test_a_partition_that_was_away_begins_anew() -> None:
    detector: StallDetector[str] = StallDetector(patience_s=10.0)
    detector.stalled(0.0, {"p": 5}, {"p": 9})
    detector.stalled(5.0, {}, {})
    assert detector.stalled(11.0, {"p": 5}, {"p": 9}) == []
