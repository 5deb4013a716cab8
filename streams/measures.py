"""How a window's buckets become one number: totals, means over ready replicas, ratios and percentiles.

Sums are taken along each replica's seconds and then over the replicas without rounding in between (fsum), so that
neither the order of replicas nor those that were silent leave a trace.
"""

from dataclasses import dataclass
from math import fsum

import numpy as np
from numpy.typing import NDArray

from records.enums import Percentile
from streams.histograms import quantile
from streams.readings import WindowReading

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]

E2E_UNKNOWN_S = 5.0
"""How long a request is taken to last where no end-to-end time is known (decisions.md, step 1)."""
_FRACTIONS = {Percentile.P50: 0.5, Percentile.P90: 0.9, Percentile.P95: 0.95, Percentile.P99: 0.99}
_NEEDS_STREAMS = frozenset({"ttft_ms", "tpot_ms"})


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric before its state is judged: `value` is null where nothing was readable, `is_undefined` where there
    was known to be nothing to measure. `replicas` is how many ready ones it was measured on."""

    value: float | None
    coverage: float
    replicas: int = 0
    is_undefined: bool = False


def total(reading: WindowReading, matrix: Matrix, gateway: Matrix | None) -> Measured:
    """The mean over the window of the sum over all replicas, and what no replica has (`gateway`, (seconds,)).

    A ready replica's unknown seconds count with the mean of its known ones; those of others count as nothing.
    """
    seconds = reading.seconds
    known = ~np.isnan(matrix) & seconds.alive
    parts = _per_replica(reading, matrix, known)
    coverage = seconds.coverage(known)
    has_gateway = False
    if gateway is not None:
        share = _gateway_share(reading, gateway)
        if share is not None:
            value, gateway_coverage = share
            parts.append(value)
            has_gateway = True
            coverage = gateway_coverage if not seconds.seconds else min(coverage, gateway_coverage)
    if not has_gateway and not known.any():
        return Measured(None, coverage)
    return Measured(fsum(parts), coverage, _measured_on(reading, known))


def _per_replica(reading: WindowReading, matrix: Matrix, known: Mask) -> list[float]:
    """Each replica's part of the mean over the window."""
    sums = np.where(known, matrix, 0.0).sum(axis=1)
    counts = np.count_nonzero(known, axis=1)
    expected = np.maximum(counts, np.where(counts > 0, np.minimum(reading.seconds.expected, reading.observed_s), 0))
    parts: list[float] = (sums / np.maximum(counts, 1) * expected / reading.observed_s).tolist()
    return parts


def _gateway_share(reading: WindowReading, gateway: Matrix) -> tuple[float, float] | None:
    """What the gateway adds to the window's mean, and its coverage; null where it does not speak and need not.

    Its seconds are those since it was first heard in the last 300 s. One whose last word was that it holds nothing may
    be silent.
    """
    known = ~np.isnan(gateway)
    count = int(np.count_nonzero(known))
    if not count:
        return None
    first = int(np.argmax(known))
    expected = len(known) - first if reading.tick.gateway_first_s >= reading.first_s else len(known)
    last_value = float(gateway[len(known) - 1 - int(np.argmax(known[::-1]))])
    value = float(np.where(known, gateway, 0.0).sum())
    if last_value == 0.0:
        return value / reading.observed_s, 1.0 if reading.seconds.seconds else count / expected
    return value / count * min(expected, reading.observed_s) / reading.observed_s, count / expected


def mean(reading: WindowReading, matrix: Matrix) -> Measured:
    """The mean over the ready replicas of each one's mean over its known ready seconds."""
    known = ~np.isnan(matrix) & reading.seconds.ready
    counts = np.count_nonzero(known, axis=1)
    measured = counts > 0
    coverage = reading.seconds.coverage(known)
    replicas = int(np.count_nonzero(measured))
    if not replicas:
        return Measured(None, coverage)
    means = np.where(known, matrix, 0.0).sum(axis=1)[measured] / counts[measured]
    return Measured(fsum(means.tolist()) / replicas, coverage, replicas)


def inflight(reading: WindowReading) -> Measured:
    """decisions.md, step 1: running + waiting, and what was turned away would be in flight for as long as a request
    lasts."""
    grid = reading.grid
    gateway_running = grid.gateway("running")
    held = np.where(np.isnan(gateway_running), 0.0, gateway_running) + grid.gateway("waiting")
    inside = total(reading, grid.field("running") + grid.field("waiting"), held)
    if inside.value is None:
        return inside
    rejected = np.nansum(np.where(reading.seconds.alive, grid.field("rejections"), 0.0), axis=1)
    count = fsum([*rejected.tolist(), float(np.nansum(grid.gateway("rejections")))])
    if not count:
        return inside
    mean_ms = reading.tick.e2e_recent.mean
    lasting_s = E2E_UNKNOWN_S if mean_ms is None else mean_ms / 1000
    turned_away = count / reading.observed_s * lasting_s
    return Measured(inside.value + turned_away, inside.coverage, inside.replicas)


def throughput(reading: WindowReading) -> Measured:
    """Output tokens a second; unknown in seconds of which nothing was streamed."""
    tokens = reading.grid.field("output_tokens")
    return total(reading, np.where(reading.grid.field("streamed_fraction") == 0, np.nan, tokens), None)


def gpu_mean(reading: WindowReading, which: int) -> Measured:
    """`which`: 0 for utilisation, 1 for memory. GPU samples come apart from requests, and have a grid of their own."""
    gpus = reading.tick.gpus
    names = reading.tick.counted
    if gpus is None or not names:
        return Measured(None, 0.0)
    replicas = reading.tick.state.supply.replicas
    means, covered, seconds = [], 0, 0
    for name in names:
        first_s = max(reading.first_s, replicas[name].since_s)
        if first_s >= reading.tick.tick:
            continue
        values = gpus.means(name, first_s, reading.tick.tick)[which]
        known = ~np.isnan(values)
        seconds += len(values)
        count = int(np.count_nonzero(known))
        covered += count
        if count:
            means.append(float(np.where(known, values, 0.0).sum()) / count)
    coverage = covered / seconds if seconds else 0.0
    return Measured(fsum(means) / len(means) if means else None, coverage, len(means))


def cache_hit_rate(reading: WindowReading) -> Measured:
    """The mean over ready replicas of cached / input tokens; undefined where no replica read a token."""
    cached, tokens = reading.grid.field("cached_tokens"), reading.grid.field("input_tokens")
    known = ~np.isnan(cached) & ~np.isnan(tokens) & reading.seconds.ready
    coverage = reading.seconds.coverage(known)
    hits = np.where(known, cached, 0.0).sum(axis=1)
    reads = np.where(known, tokens, 0.0).sum(axis=1)
    used = reads > 0
    replicas = int(np.count_nonzero(used))
    if not replicas:
        return Measured(None, coverage, is_undefined=known_empty(reading) is not None)
    rates = np.minimum(1.0, hits[used] / reads[used])
    return Measured(fsum(rates.tolist()) / replicas, coverage, replicas)


def latency(reading: WindowReading, field: str, percentile: Percentile) -> Measured:
    """A percentile in ms of all requests of the window, from the merged histogram."""
    grid = reading.grid
    empty = known_empty(reading)
    if empty is not None:
        return Measured(None, empty, is_undefined=True)
    idle = _idle(reading)
    streamed = grid.field("streamed_fraction")
    unstreamed = streamed == 0 if field in _NEEDS_STREAMS else np.zeros_like(idle)
    known = (grid.present(field) | idle) & ~unstreamed
    coverage = reading.seconds.coverage(known)
    if unstreamed.any() and not (grid.present(field) & ~unstreamed).any():
        return Measured(None, coverage)
    found = quantile(grid.histogram(field), _FRACTIONS[percentile])
    if found is None:
        return Measured(None, coverage)
    if not reading.seconds.seconds:
        coverage = 1.0
    return Measured(found.value, coverage, _measured_on(reading, known))


def known_empty(reading: WindowReading) -> float | None:
    """The coverage of the known zeros of arrivals, completions, running and waiting, null where any is above zero or
    too little is known to say so."""
    grid, seconds = reading.grid, reading.seconds
    gateway_busy = any(np.nansum(grid.gateway(name)) > 0 for name in ("arrivals", "completions", "running", "waiting"))
    if gateway_busy:
        return None
    fields = [grid.arrivals, *(grid.field(name) for name in ("completions", "running", "waiting"))]
    if any(np.nansum(np.where(seconds.alive, field, 0.0)) > 0 for field in fields):
        return None
    coverage = seconds.coverage(_idle(reading))
    if not seconds.seconds:
        heard = grid.gateway_heard
        coverage = int(np.count_nonzero(heard)) / len(heard)
    return coverage if coverage >= 0.9 else None


def _idle(reading: WindowReading) -> Mask:
    """bool (replicas, seconds): nothing came, left, ran or waited."""
    grid = reading.grid
    idle: Mask = grid.arrivals == 0
    for name in ("completions", "running", "waiting"):
        idle &= grid.field(name) == 0
    return idle


def _measured_on(reading: WindowReading, known: Mask) -> int:
    return int(np.count_nonzero((known & reading.seconds.ready).any(axis=1)))
