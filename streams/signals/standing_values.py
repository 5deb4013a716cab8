"""The values of one window's metrics of many endpoints that stand, as streams.signals.values has them of one."""

from math import fsum

import numpy as np
from numpy.typing import NDArray

from records.enums import MetricName, ValueState
from records.signals import SignalValue
from streams.endpoints.endpoint_state import STALE_S
from streams.endpoints.ready import is_covered
from streams.signals.measures import lasting_s, mean_parts
from streams.signals.standing import READ_TOGETHER
from streams.signals.standing_histograms import StandingHistograms
from streams.signals.standing_windows import StandingWindow, StandingWindows
from streams.signals.values import MEANS

Ints = NDArray[np.int64]
Values = list[float | None]


def standing_values(
    windows: StandingWindows, window: StandingWindow, histograms: StandingHistograms
) -> list[dict[str, SignalValue]]:
    """Of each endpoint all metrics over one window, by metric_key."""
    kind = windows.members.kind
    by_metric = [_judged(windows, window, metric, histograms) for metric in kind.metrics]
    return [dict(zip(kind.keys, values, strict=True)) for values in zip(*by_metric, strict=True)]


def _judged(
    windows: StandingWindows, window: StandingWindow, metric: MetricName, histograms: StandingHistograms
) -> list[SignalValue]:
    name = READ_TOGETHER[metric]
    if metric in MEANS:
        values = _means(window, name)
    else:
        values = _totals(window, name)
        if metric is MetricName.INFLIGHT_REQUESTS:
            _add_turned_away(window, values, histograms)
    coverages = (np.minimum(1.0, window.coverage(name)) * (window.observed_s / window.length_s)).tolist()
    measured = _measured(window, name).tolist()
    was_known = None
    if None in values and window.length_s < STALE_S:
        was_known = _is_known(StandingWindow(windows, STALE_S, (name,)), metric)
    made = []
    for index, (value, coverage) in enumerate(zip(values, coverages, strict=True)):
        if value is None:
            state = ValueState.STALE if was_known is not None and was_known[index] else ValueState.UNKNOWN
            made.append(SignalValue(value=None, state=state, coverage=coverage))
        else:
            state = ValueState.FRESH if is_covered(coverage) else ValueState.PARTIAL
            made.append(SignalValue(value=value, state=state, coverage=coverage, measured=measured[index]))
    return made


def _totals(window: StandingWindow, name: str) -> Values:
    sums, counts = window.added(name)
    parts = mean_parts(sums, counts, window.expected, window.observed_of_row).tolist()
    values: Values = [fsum(parts[rows]) for rows in window.members.slices]
    if not counts.all():
        for index in np.flatnonzero(~window.members.any(counts > 0)).tolist():
            values[index] = None
    return values


def _means(window: StandingWindow, name: str) -> Values:
    sums, counts = window.ready(name)
    means = (sums / np.maximum(counts, 1)).tolist()
    measured = _measured(window, name).tolist()
    return [
        fsum(means[rows]) / count if count else None
        for rows, count in zip(window.members.slices, measured, strict=True)
    ]


def _measured(window: StandingWindow, name: str) -> Ints:
    """(endpoints,): how many ready replicas have a known second."""
    return window.members.total((window.ready(name)[1] > 0).astype(np.int64))


def _is_known(window: StandingWindow, metric: MetricName) -> list[bool]:
    name = READ_TOGETHER[metric]
    _, counts = window.ready(name) if metric in MEANS else window.added(name)
    known: list[bool] = window.members.any(counts > 0).tolist()
    return known


def _add_turned_away(window: StandingWindow, values: Values, histograms: StandingHistograms) -> None:
    """As `measures.inflight`: what was turned away would be in flight for as long as a request lasts."""
    rejections = window.added("rejections")[0]
    if not rejections.any():
        return
    sums, observed_s = rejections.tolist(), window.observed_s.tolist()
    for index in np.flatnonzero(window.members.any(rejections != 0)).tolist():
        value, turned_away = values[index], fsum(sums[window.members.slices[index]])
        if value is not None and turned_away:
            lasting = lasting_s(histograms.over(index, STALE_S))
            values[index] = value + turned_away / observed_s[index] * lasting
