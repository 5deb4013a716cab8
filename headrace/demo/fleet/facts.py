"""How well the burst was followed, in seconds and replicas, from its history."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.demo.fleet.history import STEP_S, EndpointHistory

NEED_OVER_SHARE = 0.25
"""Share of the burst, its end, over which its need is taken: by then whatever was to start has started."""
TURNED_AWAY_MAX = 0.01
"""Share of the requests that may be turned away there: with more, what is in flight says what there was room for."""


@dataclass(frozen=True, kw_only=True)
class BurstFacts:
    """Spans count from the burst's beginning, `below_need_s` from its end; None: it did not happen.

    `need`: the requests in flight over the last `over_s` of the burst, divided by the policy's concurrency target;
    None where requests were still turned away then. `startup_p95_s` is that of the start-ups that were seen.
    """

    begins_s: int
    ends_s: int
    over_s: int
    in_flight: float
    need: int | None
    desired_after_s: int | None
    ready_after_s: int | None
    below_need_s: int | None
    """When fewer than the need were desired."""
    startup_p95_s: float | None
    starts: int
    ttft_p95_after_ms: float | None
    """The largest p95 of STEP_S from SETTLED_S after `ready_after_s` to the burst's end."""
    within_slo_during: float | None
    """Of the whole burst: share of the requests, 0..1, whose first token came within the SLO."""
    within_slo_after: float | None
    """The same from SETTLED_S after `ready_after_s` to the burst's end; the turned away are among the requests."""


SETTLED_S = 30
"""How long after enough replicas are ready the queue that had grown is still worked off."""


def burst_facts(history: EndpointHistory, begins_s: int, ends_s: int) -> BurstFacts:
    """Of a history that holds the burst `[begins_s, ends_s)`, event time."""
    begin, end = begins_s - history.first_s, min(ends_s, history.last_s) - history.first_s
    over_s = max(1, round(NEED_OVER_SHARE * (end - begin)))
    late = slice(end - over_s, end)
    in_flight = float(history.in_flight[late].mean())
    is_served = history.turned_away[late].sum() <= TURNED_AWAY_MAX * history.requests[late].sum()
    need = math.ceil(in_flight / history.policy.concurrency.target) if is_served else None
    ready_after_s = _reached(history.ready[begin:], need)
    settled = None if ready_after_s is None else begin + ready_after_s + SETTLED_S
    starts = history.startups_s
    return BurstFacts(
        begins_s=begins_s,
        ends_s=ends_s,
        over_s=over_s,
        in_flight=in_flight,
        need=need,
        desired_after_s=_reached(history.desired[begin:], need),
        ready_after_s=ready_after_s,
        below_need_s=None if need is None else _first(history.desired[end:] < need),
        startup_p95_s=float(np.percentile(starts, 95)) if starts else None,
        starts=len(starts),
        ttft_p95_after_ms=None if settled is None else _largest(history.ttft_parts(settled, end - STEP_S + 1)),
        within_slo_during=_share(history, slice(begin, end)),
        within_slo_after=None if settled is None else _share(history, slice(settled, end)),
    )


def _reached(counts: NDArray[np.int64], need: int | None) -> int | None:
    return None if need is None else _first(counts >= need)


def _first(facts: NDArray[np.bool_]) -> int | None:
    found = np.flatnonzero(facts)
    return int(found[0]) if len(found) else None


def _largest(steps: NDArray[np.float64]) -> float | None:
    known = steps[~np.isnan(steps)]
    return float(known.max()) if len(known) else None


def _share(history: EndpointHistory, span: slice) -> float | None:
    """Of a span over which what comes and what gets its first token are about as many."""
    answered, lost = history.first_tokens[span].sum(), history.turned_away[span].sum()
    return float(history.within_slo[span].sum() / (answered + lost)) if answered + lost else None
