"""Reads numbers, times and spans of an explanation's text back, for the checker; knows nothing of how they are written.

Whoever writes may shorten a number to four digits and a span to its two largest units, and nothing else.
"""

import math
import re
from datetime import UTC, datetime, tzinfo
from typing import Any

NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
CLOCK = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d"
SPAN = rf"(?:\d+ (?:d|h|min) )?(?:\d+ (?:d|h|min)|{NUMBER} s)"

DIGITS = 4

_SPAN_PART = re.compile(rf"({NUMBER}) (d|h|min|s)")
_UNIT_S = {"d": 86_400, "h": 3600, "min": 60, "s": 1}


def is_number(said: str, true: float | None) -> bool:
    """Tell whether these digits are that number; whole numbers have all their digits."""
    if true is None:
        return False
    if isinstance(true, int):
        return said == str(true)
    return abs(float(said) - true) <= _half_digit(true)


def is_percent(said: str, true: float | None) -> bool:
    return true is not None and abs(float(said) - true * 100) <= _half_digit(true * 100)


def _half_digit(true: float) -> float:
    """Half of the fourth digit's worth, of a number beyond four digits half of one."""
    if true == 0:
        return 0.0
    fourth = math.floor(math.log10(abs(true))) - DIGITS + 1
    return 0.5 * (1 + 1e-9) * 10.0 ** (min(fourth, 0) if abs(true) < 1e15 else fourth)


def is_span(said: str, true_s: float) -> bool:
    """Tell whether the parts add up to the span, less what is under the smallest unit that is told."""
    parts = _SPAN_PART.findall(said)
    total_s = sum(float(digits) * _UNIT_S[unit] for digits, unit in parts)
    smallest = parts[-1][1]
    if smallest == "s" and len(parts) == 1:
        return abs(total_s - true_s) <= _half_digit(true_s)
    largest_told = {"d": "h", "h": "min", "min": "s"}.get(smallest, smallest) if len(parts) == 1 else smallest
    return -0.5 <= true_s - total_s < _UNIT_S[largest_told]


def is_time(said: str, true_s: float | None, day_s: int, zone: tzinfo | None) -> bool:
    """Tell whether this is that instant, told in `zone` (null: this machine's), without its date on the day `day_s`."""
    if true_s is None:
        return False
    at, day = (datetime.fromtimestamp(second, UTC).astimezone(zone) for second in (true_s, day_s))
    clock = at.strftime("%H:%M:%S")
    return said == (clock if at.date() == day.date() else at.strftime("%Y-%m-%d ") + clock)


def is_full_time(said: str, true_s: int, zone: tzinfo | None) -> bool:
    return said == datetime.fromtimestamp(true_s, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")


def plain(text: Any) -> str:
    """A record's text as one line of a terminal can have it."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


_COUNTED = {
    "inflight_requests": "requests",
    "queue_depth": "requests",
    "throughput_per_replica": "tokens/s",
    "active_sessions": "sessions",
}
_MILLISECONDS = ("ttft", "decoding_speed", "e2e_latency")

AMOUNT = rf"{NUMBER} (?:requests|tokens/s|sessions|ms|%)"


def is_amount(said: str, metric: str, true: float | None) -> bool:
    """Tell whether it is that value of a metric, in the metric's own unit."""
    digits, _, unit = said.partition(" ")
    wanted = _COUNTED.get(metric, "ms" if metric in _MILLISECONDS else "%")
    if unit != wanted or true is None:
        return False
    return is_percent(digits, true) if unit == "%" else is_number(digits, float(true))


def is_counted(metric: str) -> bool:
    """Tell whether the metric's target is that of one replica."""
    return metric in _COUNTED


def metric_words(candidate: dict[str, Any]) -> str:
    """`ttft p95 over 20 s`, of a candidate as its record has it."""
    percentile = candidate.get("percentile")
    name = candidate["metric"] if percentile is None else f"{candidate['metric']} {percentile}"
    return f"{name} over {candidate['window_s']} s"
