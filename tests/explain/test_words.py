"""Numbers, spans and times as they are said, and times as users say them."""

from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from headrace.commands.explain import app
from headrace.commands.export import ExportSettings
from headrace.exit_codes import CannotRunError
from headrace.explain.sentences.formatting import Times, number, span
from headrace.explain.time_argument import parse_time
from headrace.settings import load
from records.fields import SECOND_MAX
from tests.explain.checker.words import is_number, is_span

NOW_S = 1_700_000_000.75


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (8.0, "8"),
        (14.2727273, "14.27"),
        (878.87931, "878.9"),
        (19416.7, "19417"),
        (9999.96, "10000"),
        (4_294_967_294, "4294967294"),
        (0.000123456, "0.0001235"),
        (1e-300, "1e-300"),
        (1e300, "1e+300"),
        (-7.25, "-7.25"),
    ],
)
def test_numbers_keep_four_digits(value: float, text: str) -> None:
    assert number(value) == text
    assert is_number(text, float(value))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (4, "4 s"),
        (59.5, "59.5 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (4019, "1 h 6 min"),
        (86_400, "1 d"),
        (187_300, "2 d 4 h"),
    ],
)
def test_spans_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text
    assert is_span(text, seconds)
    assert not is_span(text, seconds + 86_400)


def test_times_are_in_the_zone_and_have_their_date_on_other_days() -> None:
    """On the day on which the clocks of Berlin go back, an hour that comes twice."""
    times = Times(day_s=1_792_886_400, zone=ZoneInfo("Europe/Berlin"))
    assert times.full(1_792_886_400) == "2026-10-25 02:00:00 CEST"
    assert times.full(1_792_886_400 + 3600) == "2026-10-25 02:00:00 CET"
    assert times.short(1_792_886_400 + 7200) == "03:00:00"
    assert times.short(1_792_886_400 - 86_400) == "2026-10-24 02:00:00"
    assert Times(day_s=0, zone=UTC).full(0) == "1970-01-01 00:00:00 UTC"


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        ("1700000000", 1_700_000_000),
        ("1700000000.9", 1_700_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000),
        ("2023-11-14 22:13", 1_699_999_980),
        ("-10m", 1_699_999_400),
        ("-90s", 1_699_999_910),
        ("-90", 1_699_999_910),
        ("-1h30m", 1_699_994_600),
        ("-2d", 1_699_827_200),
    ],
)
def test_a_time_is_read(text: str, at_s: int) -> None:
    assert parse_time(text, NOW_S) == at_s


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "now",
        "10m",
        "-10x",
        "-m",
        "2023-13-01",
        "1e9",
        str(SECOND_MAX + 1),
        "-99999d",
        f"-{'9' * 400}d",
        "\u0661\u0662",
    ],
)
def test_what_is_no_time_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(ValueError, match="UNIX seconds"):
        parse_time(text, NOW_S)


def test_a_time_before_all_times_is_refused_by_the_command(tmp_path: Path) -> None:
    """As `-30000d`, which only a clock tells from one that can be."""
    found = CliRunner().invoke(app, ["chat", "--at=-30000d", f"--tables={tmp_path}"])
    assert isinstance(found.exception, CannotRunError)
    assert found.exception.message.startswith("--at: '-30000d', allowed: 1970 to 9999: UNIX seconds")


def test_an_export_takes_the_same_times(tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    given = {"endpoint": "chat", "bootstrap": "h:1"}
    for line in ("from = 1700000000", "from = 2023-11-14T22:13:20Z", 'from = "2023-11-14T22:13:20"'):
        config.write_text(f"[export]\n{line}\n")
        found = load(ExportSettings, {**given, "to": "-10m"}, config, {})
        assert found.to == "-10m"
        assert found.from_ is not None
        assert parse_time(found.from_, NOW_S) == 1_700_000_000
    with pytest.raises(CannotRunError, match=r"--from: 'yesterday', allowed: UNIX seconds, .*, or so long ago: -90s"):
        load(ExportSettings, {**given, "from_": "yesterday"}, None, {})
