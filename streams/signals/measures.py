"""How a window's buckets become one number: totals, means over ready replicas, ratios and percentiles.

Sums are taken along each replica's seconds and then over the replicas without rounding in between (fsum), so that
neither the order of replicas nor those that were silent leave a trace.
"""

from math import fsum

import msgspec
import numpy as np
from numpy.typing import NDArray

from records.enums import Percentile
from streams.endpoints.matrices import PRESENT
from streams.endpoints.ready import is_covered
from streams.endpoints.tallies import Ints, Tally, tally_mask
from streams.signals.readings import WindowReading
from streams.windows.histograms import MergedHistogram, quantile

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]

E2E_UNKNOWN_S = 5.0
"""How long a request is taken to last where no end-to-end time is known (decisions.md, step 1)."""
ACTIVITY = ("running", "waiting", "completions", "arrivals")
"""Known zeros of these make a latency or a ratio undefined; those that are read anyway come first."""
_FRACTIONS = {Percentile.P50: 0.5, Percentile.P90: 0.9, Percentile.P95: 0.95, Percentile.P99: 0.99}
_NEEDS_STREAMS = frozenset({"ttft_ms", "tpot_ms"})


class Measured(msgspec.Struct, frozen=True):
    """A metric before its state is judged: `value` is null where nothing was readable, `is_undefined` where there
    was known to be nothing to measure. `replicas` is how many ready ones it was measured on."""

    value: float | None
    coverage: float
    replicas: int = 0
    is_undefined: bool = False


def total(reading: WindowReading, found: Tally, gateway: str | None = None) -> Measured:
    """The mean over the window of the sum over all replicas, and of what no replica has (`gateway`: a field, or
    `inflight`).

    A ready replica's unknown seconds count with the mean of its known ones; those of others count as nothing.
    """
    seconds, observed_s = reading.seconds, reading.observed_s
    coverage = found.coverage(seconds)
    parts: list[float] = mean_parts(found.sums, found.counts, seconds.expected, observed_s).tolist()
    held = None if gateway is None else _gateway_share(reading, gateway)
    if held is not None:
        parts.append(held[0])
        coverage = min(coverage, held[1]) if seconds.seconds else held[1]
    if not found.is_known and (gateway is None or held is None or np.isnan(reading.gateway(gateway)).all()):
        # Nobody spoke in the window: what the gateway last said of nothing tells nothing of the replicas.
        return Measured(None, coverage)
    return Measured(fsum(parts), coverage, found.measured)


def mean_parts(sums: Matrix, counts: Ints, expected: Ints, observed_s: int | Ints) -> Matrix:
    """What each replica, (replicas,), adds to the mean over a window of which `observed_s` have been read: its unknown
    seconds, of those `expected` of it, count with the mean of its known ones."""
    parts: Matrix = sums / observed_s
    stood_for = np.where(counts > 0, np.maximum(counts, np.minimum(expected, observed_s)), 0)
    short = stood_for != counts
    if short.any():
        parts = np.where(short, sums / np.maximum(counts, 1) * stood_for / observed_s, parts)
    return parts


def _gateway_share(reading: WindowReading, field: str) -> tuple[float, float] | None:
    """What the gateway adds to the window's mean, and its coverage; null where it never spoke in the last 300 s.

    Its seconds are those since it was first heard in them. One whose last word was that it holds nothing may be silent.
    """
    if not reading.tick.near.has_gateway:
        return None
    recent = reading.tick.recent.gateway(field)
    ever = np.flatnonzero(~np.isnan(recent))
    if not len(ever):
        return None
    held = reading.gateway(field)
    known = ~np.isnan(held)
    count = int(np.count_nonzero(known))
    first_s = reading.tick.recent.first_s + int(ever[0])
    expected = max(1, min(len(held), reading.tick.tick - first_s))
    value = float(np.where(known, held, 0.0).sum())
    if recent[ever[-1]] == 0:
        return value / reading.observed_s, 1.0 if reading.seconds.seconds else count / expected
    if not count:
        return 0.0, 0.0
    return value / count * min(expected, reading.observed_s) / reading.observed_s, min(1.0, count / expected)


def mean(reading: WindowReading, found: Tally) -> Measured:
    """The mean over the ready replicas of each one's mean over its known ready seconds."""
    measured = found.ready_counts > 0
    coverage = found.coverage(reading.seconds)
    means = (found.ready_sums[measured] / found.ready_counts[measured]).tolist()
    return Measured(fsum(means) / len(means) if means else None, coverage, len(means))


def inflight(reading: WindowReading) -> Measured:
    """decisions.md, step 1: running + waiting, and what was turned away would be in flight for as long as a request
    lasts."""
    inside = total(reading, reading.tally("inflight"), "inflight")
    if inside.value is None:
        return inside
    rejections = reading.tally("rejections")
    turned_away = fsum(rejections.sums.tolist())
    if reading.tick.near.has_gateway:
        turned_away += float(np.nansum(reading.gateway("rejections")))
    if not turned_away:
        return inside
    value = inside.value + turned_away / reading.observed_s * lasting_s(reading.tick.e2e_recent)
    return Measured(value, inside.coverage, inside.replicas)


def lasting_s(e2e: MergedHistogram) -> float:
    """How long a request lasts, by the end-to-end times of the last 300 s in ms."""
    return E2E_UNKNOWN_S if e2e.mean is None else e2e.mean / 1000


def throughput(reading: WindowReading) -> Measured:
    """Output tokens a second; unknown in seconds of which nothing was streamed."""
    return total(reading, reading.tally("streamed_tokens"))


def gpu_mean(reading: WindowReading, which: int) -> Measured:
    """`which`: 0 for utilisation, 1 for memory. GPU samples come apart from requests, and have a grid of their own."""
    gpus, tick = reading.tick.gpus, reading.tick.tick
    if gpus is None:
        return Measured(None, 0.0)
    means, covered, seconds = [], 0, 0
    heard_from_s = tick - reading.tick.state.span_s
    for name in reading.tick.counted:
        first_s = max(reading.first_s, reading.tick.state.supply.replicas[name].since_s)
        if first_s >= tick:
            continue
        values = gpus.means(name, first_s, tick, heard_from_s)[which]
        known = ~np.isnan(values)
        count = int(np.count_nonzero(known))
        seconds += len(values)
        covered += count
        if count:
            means.append(float(np.where(known, values, 0.0).sum()) / count)
    coverage = covered / seconds if seconds else 0.0
    return Measured(fsum(means) / len(means) if means else None, coverage, len(means))


def cache_hit_rate(reading: WindowReading) -> Measured:
    """The mean over ready replicas of cached / input tokens; undefined where no replica read a token."""
    hits, reads = reading.tally("hits"), reading.tally("reads")
    coverage = reads.coverage(reading.seconds)
    used = reads.ready_sums > 0
    if not used.any():
        return Measured(None, coverage, is_undefined=known_empty(reading) is not None)
    rates = np.minimum(1.0, hits.ready_sums[used] / reads.ready_sums[used]).tolist()
    return Measured(fsum(rates) / len(rates), coverage, len(rates))


def latency(reading: WindowReading, field: str, percentile: Percentile) -> Measured:
    """A percentile in ms of all requests of the window, from the merged histogram.

    A second without one says nothing finished, if the replica has histograms at all or finished nothing.
    """
    empty = known_empty(reading)
    if empty is not None:
        return Measured(None, empty, is_undefined=True)
    heard = reading.tally("heard")
    found = quantile(reading.histogram(field), _FRACTIONS[percentile])
    if found is None:
        return Measured(None, heard.coverage(reading.seconds))
    if field in _NEEDS_STREAMS and reading.tally("unstreamed").is_known:
        return _streamed_latency(reading, field, found.value)
    speaks = reading.tally(PRESENT + field).counts > 0
    counts = np.where(speaks | ~(reading.tally("completions").sums > 0), heard.ready_counts, 0)
    return _covered(reading, counts, found.value)


def _covered(reading: WindowReading, counts: Ints, value: float) -> Measured:
    """`counts` (replicas,): the ready seconds that the value stands for."""
    seconds = reading.seconds.seconds
    coverage = int(counts.sum()) / seconds if seconds else 1.0
    return Measured(value, coverage, int(np.count_nonzero(counts)))


def _streamed_latency(reading: WindowReading, field: str, value: float) -> Measured:
    """Of a latency that only streamed answers have: seconds of which nothing was streamed are not covered."""
    grid = reading.grid
    streamed = grid.heard & ~(grid.field("streamed_fraction") == 0)
    if not streamed.any():
        return Measured(None, reading.tally("heard").coverage(reading.seconds))
    speaks = grid.present(field).any(axis=1) | ~(reading.tally("completions").sums > 0)
    return _covered(reading, tally_mask(streamed & speaks[:, None], reading.seconds), value)


def known_empty(reading: WindowReading) -> float | None:
    """The coverage of the known zeros of ACTIVITY, null where any is above zero or too little is known to say so."""
    if any(reading.tally(name).is_above_zero() for name in ACTIVITY):
        return None
    if reading.tick.near.has_gateway and any(np.nansum(reading.gateway(name)) > 0 for name in ACTIVITY):
        return None
    if reading.seconds.seconds:
        coverage = reading.tally("idle").coverage(reading.seconds)
    else:
        heard = reading.grid.gateway_heard
        coverage = int(np.count_nonzero(heard)) / len(heard)
    return coverage if is_covered(coverage) else None
