"""Numbers, units and times as people read them. Whoever shortens a number keeps four digits of it."""

from datetime import UTC, datetime, tzinfo

import msgspec

from decisions.metrics import METRICS, MetricKind
from records.decisions import Candidate
from records.enums import MetricName, Percentile

DIGITS = 4
ID_DIGITS = 12
"""Digits of a decision's id that are shown: `--decision` finds it by them."""

_WHOLE_BELOW = 1e15
_SMALL = 1e-4


def number(value: float) -> str:
    """`14.27`, `878.9`, `19417`, `1e+300`: four digits, all of a large number's whole part, no trailing zeros."""
    size = abs(value)
    if size == 0:
        return "0"
    if not _SMALL <= size < _WHOLE_BELOW:
        return f"{value:.{DIGITS}g}"
    text = f"{value:.{DIGITS}g}" if size < 10**DIGITS else f"{value:.0f}"
    return f"{float(text):.10f}".rstrip("0").rstrip(".")


def count(amount: int, one: str, many: str | None = None) -> str:
    """`1 replica`, `3 replicas`."""
    return f"{amount} {one if amount == 1 else many or one + 's'}"


def span(seconds: float) -> str:
    """`4 s`, `2 min 5 s`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 60:
        return f"{number(seconds)} s"
    whole = round(seconds)
    for above, unit_s, unit, part_s, part in ((86_400, 86_400, "d", 3600, "h"), (3600, 3600, "h", 60, "min")):
        if whole >= above:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Says event times in `zone` (null: the machine's own), without the date where it is the day of `day_s`."""

    day_s: int
    zone: tzinfo | None = None

    def full(self, at_s: float) -> str:
        """`2026-11-29 19:33:55 CET`."""
        return f"{self._at(at_s):%Y-%m-%d %H:%M:%S %Z}"

    def short(self, at_s: float) -> str:
        """`19:33:55`, on another day `2026-11-28 23:59:55`."""
        at = self._at(at_s)
        return f"{at:%H:%M:%S}" if at.date() == self._at(self.day_s).date() else f"{at:%Y-%m-%d %H:%M:%S}"

    def _at(self, at_s: float) -> datetime:
        return datetime.fromtimestamp(at_s, UTC).astimezone(self.zone)


def metric_name(metric: MetricName, percentile: Percentile | None) -> str:
    """`inflight_requests`, `ttft p95`."""
    return metric.value if percentile is None else f"{metric.value} {percentile.value}"


def measured(candidate: Candidate) -> str:
    """`inflight_requests over 20 s`: what a candidate read, and over what."""
    return f"{metric_name(candidate.metric, candidate.percentile)} over {candidate.window_s} s"


def amount(metric: MetricName, value: float) -> str:
    """A metric's value with its unit: `14.27 requests`, `82.3 %`, `878.9 ms`."""
    spec = METRICS[metric]
    if spec.kind is MetricKind.UTILISATION:
        return f"{number(value * 100)} %"
    return f"{number(value)} {spec.unit}"


def target_words(metric: MetricName, target: float) -> str:
    """`8 requests a replica`, `75 %`, `500 ms`."""
    a_replica = " a replica" if METRICS[metric].kind is MetricKind.TOTAL else ""
    return f"{amount(metric, target)}{a_replica}"


def printable(text: str) -> str:
    """Text of others on one line: what a terminal would obey is shown as a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
