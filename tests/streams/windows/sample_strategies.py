"""Samples that collide: few names, few seconds, so that every rule of identity, epoch and lateness is met."""

from random import Random
from typing import Any

from hypothesis import strategies as st

from records.enums import Source
from records.histogram import Histogram
from records.telemetry import RequestSample

START_S = 1000
COUNTS = ("arrivals", "completions", "errors", "aborted", "steps")
GAUGES = ("running", "waiting", "running_max")
FRACTIONS = ("kv_cache_usage", "streamed_fraction")
FIELDS = (*COUNTS, *GAUGES, *FRACTIONS)
HISTOGRAMS = ("ttft_ms", "e2e_ms")
BOUNDS: tuple[tuple[float, ...], ...] = ((10.0, 20.0, 50.0), (5.0, 20.0, 100.0), (25.0,), (), (-1.0, 10.0))
FEW = (0, 0, 1, 2, 3)
MANY = (0, 1, 254, 255, 256, 65_534, 65_535, 65_536, 2**32 - 2)


def some_histogram(random: Random) -> Histogram:
    bounds = random.choice((BOUNDS[0], *BOUNDS))
    counts = random.choice((FEW, FEW, MANY))
    return Histogram(
        explicit_bounds=bounds,
        bucket_counts=tuple(random.choice(counts) for _ in range(len(bounds) + 1)),
        sum=random.choice((None, random.randrange(800) / 8)),
    )


def some_values(random: Random) -> dict[str, Any]:
    """Some fields known, some not. Gauges are eighths: their sums are exact in any order, so that a fraction and a
    float can be compared for equality."""
    values: dict[str, Any] = {}
    for name in FIELDS:
        if random.random() < 0.6:
            choices = (0, 1, 7, 2**32 - 2) if name in COUNTS else (0.0, 0.125, 3.5)
            values[name] = random.choice((0.0, 0.5, 1.0) if name in FRACTIONS else choices)
    for name in HISTOGRAMS:
        if random.random() < 0.4:
            values[name] = some_histogram(random)
    return values


VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"running": 1.0, "waiting": 2.0, "completions": 1, "errors": 0, "aborted": 0},
    *(some_values(Random(seed)) for seed in range(60)),
)

NAMES: list[dict[str, Any]] = [
    {"endpoint": endpoint, "replica": replica, "epoch": epoch, "source": source, "reporter": reporter}
    for endpoint in ("chat", "chat", "code")
    for replica in ("a", "a", "b", "")
    for epoch in ("1", "1", "2", "3")
    for source in Source
    for reporter in (None, "a", "r1", "r2")
]

CROWDED_NAMES: list[dict[str, Any]] = [
    {"endpoint": "chat", "replica": replica, "epoch": epoch, "source": source, "reporter": reporter}
    for replica, epochs in (("a", ("1", "1", "2")), ("", ("1",)))
    for epoch in epochs
    for source, reporter in (("engine", None), ("engine", "r1"), ("router", "r1"), ("router", "r2"))
]
"""Few enough that samples of one replica and second come from several sources, epochs and reporters."""


def samples(spread_s: int, names: list[dict[str, Any]] = NAMES) -> st.SearchStrategy[RequestSample]:
    """Samples of the seconds from START_S to START_S + spread_s."""
    return st.builds(
        lambda place, variant, at_s, seq: RequestSample(
            **names[place], **VARIANTS[variant], at_s=START_S + at_s, seq=seq
        ),
        st.integers(0, len(names) - 1),
        st.integers(0, len(VARIANTS) - 1),
        st.integers(0, spread_s),
        st.integers(0, 2),
    )
