"""What samples say. The fields of one replica never contradict each other as the cross-checks look for it: either its
arrivals are counted and its errors are not, or they follow from all that left and stayed."""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from random import Random

from tests.oracle.model.log import Histogram

Bounds = tuple[Fraction, ...]


def _bounds(*edges: int) -> Bounds:
    return tuple(Fraction(edge) for edge in edges)


BOUNDS = (
    _bounds(50, 200, 800),
    _bounds(100, 200, 400, 1600),
    _bounds(30, 300),
    _bounds(200),
    _bounds(0, 80, 200),
    _bounds(),
)


@dataclass(frozen=True)
class Profile:
    """`is_idle`: nothing is there, and all of it is known; `counts_arrivals`: else they follow from other fields;
    `bounds`: those of the histograms, taken in turn every few seconds."""

    is_idle: bool
    counts_arrivals: bool
    bounds: tuple[Bounds, ...]
    is_gateway: bool = False


def some_values(rng: Random, profile: Profile, second: int) -> tuple[dict[str, int | Fraction], dict[str, Histogram]]:
    """The scalars and the histograms that are known."""
    if profile.is_idle:
        return dict.fromkeys(("arrivals", "completions", "running", "waiting"), 0), {}
    scalars: dict[str, int | Fraction] = {"waiting": _eighths(rng, 24)}
    if profile.is_gateway:
        scalars |= {"rejections": rng.randrange(3), "arrivals": rng.randrange(3)}
        scalars |= {"waiting": 0} if rng.random() < 0.3 else {}
        scalars |= {"completions": 1} if rng.random() < 0.05 else {}
        return scalars, {}
    if profile.counts_arrivals:
        scalars |= {"arrivals": rng.randrange(4), "completions": rng.randrange(3)}
    else:
        scalars |= {"completions": rng.randrange(3), "errors": rng.randrange(2), "aborted": rng.randrange(2)}
    if rng.random() < 0.85:
        scalars["running"] = _eighths(rng, 64) + 1
    if "running" not in scalars or rng.random() < 0.6:
        scalars |= {"input_tokens": rng.randint(1000, 1999), "output_tokens": rng.randint(1000, 1999)}
        scalars |= {"cached_tokens": rng.randrange(1500)} if rng.random() < 0.8 else {}
    if rng.random() < 0.4:
        scalars |= {"kv_cache_usage": _eighths(rng, 9), "cpu": _eighths(rng, 9), "active_sessions": _eighths(rng, 80)}
    if rng.random() < 0.15:
        scalars |= {"streamed_fraction": rng.choice((0, 0, Fraction(1, 2), 1)), "rejections": rng.randrange(3)}
    if rng.random() < 0.3:
        scalars["running_max"] = _eighths(rng, 800)
    bounds = profile.bounds[second // 2 % len(profile.bounds)]
    names = [name for name in ("ttft_ms", "e2e_ms") if rng.random() < 0.5]
    return scalars, {name: some_histogram(rng, bounds) for name in names}


def some_histogram(rng: Random, bounds: Bounds) -> Histogram:
    raw = tuple(Fraction(rng.randrange(rng.choice((250, 2000)))) for _ in range(rng.choice((0, 1, 2, 5))))
    if rng.random() < 0.03:
        raw = raw[:1] * rng.choice((254, 255, 300))
    counts = [0] * (len(bounds) + 1)
    for value in raw:
        counts[bisect_left(bounds, value)] += 1
    return Histogram(bounds, tuple(counts), sum(raw, Fraction(0)) if rng.random() < 0.8 else None, raw)


def _eighths(rng: Random, below: int) -> Fraction:
    return Fraction(rng.randrange(below), 8)
