"""The signals of many endpoints that stand, as streams.signals.signals makes that of one."""

from collections.abc import Sequence
from math import isinf, isnan

import numpy as np

from records.signals import DownBlocker, DrainCandidate, EndpointSignal
from streams.endpoints.endpoint_state import TickMoment
from streams.endpoints.ready import FRESH_COVERAGE
from streams.signals.signals import DRAIN_FRACTION, lasting_blockers
from streams.signals.standing import DRAINED
from streams.signals.standing_histograms import StandingHistograms
from streams.signals.standing_values import standing_values
from streams.signals.standing_windows import Members, StandingWindow, StandingWindows, healthy_members
from streams.signals.supply import supply_signal
from streams.windows.histograms import quantile


def standing_signals(members: Members, moments: Sequence[TickMoment], tick: int) -> list[EndpointSignal | None]:
    """Read the windows of all members at `tick`, each at its own of `moments`; null for those that are to be read alone
    after all. The others' states have been moved on to the tick."""
    healthy, near = healthy_members(members, tick)
    if healthy is None or near is None:
        return [None] * len(members)
    moment_of = {state.endpoint: moment for state, moment in zip(members.states, moments, strict=True)}
    made = _signals(healthy, moment_of, StandingWindows(healthy, near))
    for state, standing in zip(healthy.states, healthy.standings, strict=True):
        standing.heard_s = tick - 1
        state.checks.looked_to = tick
    if len(healthy) == len(members):
        return list(made)
    by_endpoint = {signal.endpoint: signal for signal in made}
    return [by_endpoint.get(state.endpoint) for state in members.states]


def _signals(members: Members, moment_of: dict[str, TickMoment], windows: StandingWindows) -> list[EndpointSignal]:
    kind, tick = members.kind, windows.tick
    histograms = StandingHistograms(windows)
    up = StandingWindow(windows, kind.up_s, kind.names)
    down = up if kind.down_s == kind.up_s else StandingWindow(windows, kind.down_s, kind.valued)
    up_values = standing_values(windows, up, histograms)
    down_values = up_values if down is up else standing_values(windows, down, histograms)
    coverage = _uncovered(down)
    orders = _drain_orders(up)
    drains: list[float | None] = [None] * len(members)
    for index in histograms.members:
        drain = quantile(histograms.over(index, kind.down_s), DRAIN_FRACTION)
        drains[index] = None if drain is None else drain.value
    up_key, down_key = str(kind.up_s), str(kind.down_s)
    made = []
    for index, (state, standing) in enumerate(zip(members.states, members.standings, strict=True)):
        moment = moment_of[state.endpoint]
        target = state.target
        spec = None if target is None else target.spec_replicas
        rollout = target is not None and target.rollout
        made.append(
            EndpointSignal(
                endpoint=state.endpoint,
                at_s=tick,
                processed_s=moment.processed_s,
                offsets=moment.offsets,
                supply=supply_signal(state, tick, spec) if rollout else standing.supply,
                windows={up_key: up_values[index], down_key: down_values[index]},
                spec_replicas=spec,
                rollout=rollout,
                target_at_s=None if target is None else target.at_s,
                down_blockers=(*lasting_blockers(state, tick, kind.down_s), *coverage.get(index, ())),
                drain_order=orders[index],
                drain_p99_ms=drains[index],
                outcome=state.outcome,
            )
        )
    return made


def _uncovered(down: StandingWindow) -> dict[int, list[DownBlocker]]:
    """By member: ready replicas that were heard in less than FRESH_COVERAGE of their ready seconds in the window."""
    short = down.ready("heard")[1] < FRESH_COVERAGE * down.expected
    found: dict[int, list[DownBlocker]] = {}
    for row in np.flatnonzero(short).tolist():
        member = int(np.searchsorted(down.members.starts, row, side="right")) - 1
        name = down.members.standings[member].series.names[row - int(down.members.starts[member])]
        found.setdefault(member, []).append(DownBlocker(kind="coverage", replica=name))
    return found


def _drain_orders(up: StandingWindow) -> list[tuple[DrainCandidate, ...]]:
    """Of each member the ready replicas by what they have in flight, those of which it is not known last; then by their
    cache's use, then by name."""
    inflight, hits, tokens = (up.ready(name) for name in DRAINED)
    means = np.where(inflight[1] > 0, inflight[0] / np.maximum(inflight[1], 1), np.inf)
    rates = np.where(tokens[0] > 0, np.minimum(1.0, hits[0] / np.where(tokens[0] > 0, tokens[0], 1.0)), np.nan)
    members = up.members
    member = np.repeat(np.arange(len(members)), members.replicas)
    order = np.lexsort((np.nan_to_num(rates), means, member)).tolist()
    names = [name for standing in members.standings for name in standing.series.names]
    found_means, found_rates = means.tolist(), rates.tolist()
    candidates = []
    for row in order:
        mean, rate = found_means[row], found_rates[row]
        candidates.append(
            DrainCandidate(
                replica=names[row],
                inflight=None if isinf(mean) else mean,
                cache_hit_rate=None if isnan(rate) else rate,
            )
        )
    return [tuple(candidates[rows]) for rows in members.slices]
