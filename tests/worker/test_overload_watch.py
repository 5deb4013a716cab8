"""When a backlog is hopeless, as it is read second by second."""

import pytest

from streams.shell.overload import OverloadWatch


def _hopeless_after_s(behind_s: float, pace: float, seconds: int = 400) -> int | None:
    """Read for so long, starting `behind_s` behind, `pace` seconds of the log in each; null where it stays hopeful."""
    watch = OverloadWatch()
    for second in range(seconds):
        if watch.look(1000.0 + second, 1000.0 - behind_s + second * pace):
            return second
    return None


@pytest.mark.parametrize(
    ("behind_s", "pace", "expected"),
    [
        (0.0, 1.0, None),
        (0.0, 0.5, 131),  # a minute behind after two
        (59.0, 1.0, None),
        (61.0, 1.0, 10),
        (400.0, 20.0, None),
        (3600.0, 90.0, None),
        (3600.0, 20.0, 10),
        (75.0, 1.2, 10),
        (70.0, 1.2, None),
    ],
)
def test_a_backlog_is_left_unread_only_where_reading_does_not_catch_up(
    behind_s: float, pace: float, expected: int | None
) -> None:
    assert _hopeless_after_s(behind_s, pace) == expected


def test_a_time_without_reading_says_nothing_about_the_pace() -> None:
    """The broker was away, or the process asleep, however often."""
    watch = OverloadWatch()
    for minute in range(10):
        began_s = 1000.0 + 600 * minute
        assert not any(watch.look(began_s + second, began_s - 500 + 60 * second) for second in range(9))


def test_after_a_reset_a_new_stretch_is_measured() -> None:
    watch = OverloadWatch()
    assert any(watch.look(1000.0 + second, 900.0) for second in range(12))
    watch.reset()
    assert not watch.is_hopeless
    assert not watch.look(1012.0, 900.0)
