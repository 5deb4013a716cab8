"""The text of a `/metrics` answer into a Reading: the few series that samples need, checked, exact.

A body has some 600 lines, of which about 120 matter: those are picked by one regular expression. What stands before a
line's value is parsed by prometheus_client, once for each distinct text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

from collectors.dialects import DIALECTS, PROCESS_START, Dialect
from collectors.histogram_readings import HistogramReading, read_histogram

VALUE_MAX = 1e18
"""Counters and gauges above this are no measurements; whole numbers up to 2**53 (9e15) are exact in a double."""

Labels = tuple[tuple[str, str], ...]

K = TypeVar("K")


PROBLEMS = ("malformed_line", "bad_value", "malformed_histogram", "duplicate_series", "unknown_label")
"""Kinds of what is left out of a text."""


class UnreadableError(ValueError):
    """A body that is no exposition of a known engine; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The series of one answer.

    `values` are counters and gauges by name and labels. A name is in `readable` when it was declared (`# TYPE`) or had
    a series, and none of its series was bad; a readable name without series is a labelled one that has not happened
    yet. `process_start` is `process_start_time_seconds` in ms. `problems` counts what was left out, by kind, and
    `examples` has a line for each kind.
    """

    dialect: Dialect
    values: Mapping[str, Mapping[Labels, float]]
    histograms: Mapping[str, Mapping[Labels, HistogramReading]]
    readable: frozenset[str]
    process_start: str | None
    problems: Mapping[str, int]
    examples: Mapping[str, str]


def read_exposition(body: str) -> Reading:
    """Raises UnreadableError for a body that is cut short, or has no series of an engine that is known."""
    lines = _WANTED.findall(body)
    dialect = next((known for known in DIALECTS if any(known.prefix in line for line in lines)), None)
    if dialect is None:
        raise UnreadableError(f"no series of {' or '.join(d.name for d in DIALECTS)}: {_beginning(body)}")
    if not body.endswith("\n"):
        raise UnreadableError(f"cut short: no line feed after {body[-60:]!r}")
    draft = _Draft(dialect)
    for line in lines:
        draft.add(line)
    return draft.finish()


class _Draft:
    """A Reading in the making."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._values: dict[str, dict[Labels, float]] = {}
        self._buckets: dict[tuple[str, Labels], dict[str, float]] = {}
        self._sums: dict[tuple[str, Labels], float] = {}
        self._declared: set[str] = set()
        self._broken: set[str] = set()
        self._problems: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def add(self, line: str) -> None:
        if line.startswith("#"):
            self._declared.add(line.split()[2])
            return
        head, tail = _split(line)
        kind, family = _PLACES[_name_of(line)]
        series = _parse_head(head)
        if series is None or not 1 <= len(tail) <= 2:
            self._leave_out("malformed_line", line, family)
            return
        labels, bound = series
        value = _number(tail[0])
        if value is None:
            self._leave_out("bad_value", line, family)
        elif kind == "bucket":
            self._keep(self._buckets.setdefault((family, labels), {}), bound or "", value, family)
        elif kind == "sum":
            self._keep(self._sums, (family, labels), value, family)
        else:
            self._keep(self._values.setdefault(family, {}), labels, value, family)
            self._check_labels(family, labels, line)

    def finish(self) -> Reading:
        start = next(iter(self._values.pop(PROCESS_START, {}).values()), None)
        histograms: dict[str, dict[Labels, HistogramReading]] = {}
        for (name, labels), buckets in self._buckets.items():
            reading = read_histogram(buckets, self._sums.get((name, labels)))
            if reading is None:
                self._leave_out("malformed_histogram", name, name)
            elif name not in self._broken:
                histograms.setdefault(name, {})[labels] = reading
        return Reading(
            dialect=self._dialect,
            values={name: found for name, found in self._values.items() if name not in self._broken},
            histograms={name: found for name, found in histograms.items() if name not in self._broken},
            readable=frozenset((self._declared | self._values.keys() | histograms.keys()) - self._broken),
            process_start=str(round(start * 1000)) if start is not None and PROCESS_START not in self._broken else None,
            problems=dict(self._problems),
            examples=self._examples,
        )

    def _keep(self, found: dict[K, float], key: K, value: float, family: str) -> None:
        """Twice the same value is one; two values of one series tell nothing."""
        if found.setdefault(key, value) != value:
            self._leave_out("duplicate_series", f"{family} {key}: {found[key]} and {value}", family)

    def _check_labels(self, name: str, labels: Labels, line: str) -> None:
        if (known := self._dialect.known_labels.get(name)) and dict(labels).get(known[0]) not in known[1]:
            self._problems["unknown_label"] += 1
            self._examples.setdefault("unknown_label", line[:200])

    def _leave_out(self, problem: str, example: str, family: str) -> None:
        """The whole family becomes unknown: a sum over the rest of its series would be a wrong number."""
        self._problems[problem] += 1
        self._examples.setdefault(problem, example[:200])
        self._broken.add(family)


def _places(dialects: Iterable[Dialect]) -> dict[str, tuple[str, str]]:
    """For each series name that is wanted: bucket, sum or value, and the name of its family."""
    places = {PROCESS_START: ("value", PROCESS_START)}
    for dialect in dialects:
        for alternatives in (*dialect.counters.values(), *dialect.gauges.values()):
            places |= {term.name: ("value", term.name) for terms in alternatives for term in terms}
        for families in dialect.histograms.values():
            places |= {family + "_bucket": ("bucket", family) for family in families}
            places |= {family + "_sum": ("sum", family) for family in families}
    return places


_PLACES = _places(DIALECTS)
_NAMES = "|".join(re.escape(name) for name in sorted(_PLACES))
_WANTED = re.compile(rf"^(?:# TYPE )?(?:{_NAMES})[ \t{{].*$", re.MULTILINE)


def _name_of(line: str) -> str:
    return line.partition("{")[0].split(maxsplit=1)[0]


def _split(line: str) -> tuple[str, list[str]]:
    """What stands before the value, and the value with the timestamp that may follow it."""
    end = line.rfind("}") + 1 or len(_name_of(line))
    return line[:end], line[end:].split()


@lru_cache(maxsize=32_768)
def _parse_head(head: str) -> tuple[Labels, str | None] | None:
    """Labels without `le`, and `le`; None where it is malformed."""
    try:
        (family,) = text_string_to_metric_families(head + " 0\n")
        (sample,) = family.samples
    except ValueError:
        return None
    labels = dict(sample.labels)
    bound = labels.pop("le", None)
    return tuple(sorted(labels.items())), bound


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and 0 <= value <= VALUE_MAX else None


def _beginning(body: str) -> str:
    return "an empty body" if not body.strip() else f"it begins {body.strip()[:60]!r}"
