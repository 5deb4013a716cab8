"""All that one tick knows of one endpoint, as the record that its decision is made on."""

from dataclasses import dataclass

from records.enums import Source, ValueState
from records.signals import (
    DownBlocker,
    DrainCandidate,
    EndpointSignal,
    SourceSignal,
)
from streams.endpoints.endpoint_state import EndpointState, TickMoment
from streams.endpoints.endpoint_windows import EndpointWindow
from streams.endpoints.ready import FRESH_COVERAGE
from streams.endpoints.skew import SourceState, is_well
from streams.signals.readings import TickReading, WindowReading
from streams.signals.standing import Kinds, make_stand, stop_standing
from streams.signals.supply import supply_signal
from streams.signals.values import read_values
from streams.windows.histograms import quantile

DRAIN_FRACTION = 0.99
"""Of end-to-end times: what a drain deadline is made of (contract.md, ScalingDecision)."""
SILENT_S = 20
"""A ready replica that said nothing for this long is named among the sources."""


def make_signal(state: EndpointState, window: EndpointWindow, moment: TickMoment, kinds: Kinds) -> EndpointSignal:
    """Read one endpoint's windows at its next tick; the state learns of replicas that only samples tell of."""
    tick = state.due_tick
    stop_standing(state)
    reading = TickReading(state, window, tick, moment.offsets.get("telemetry.requests", 0))
    if reading.blocks is not None and (kind := kinds.of(state, reading)) is not None:
        # All at once: each field that is asked for by itself has the windows read anew.
        reading.blocks.add_up(kind.names, reading.read)
    up = reading.window(state.policy.scale_up.window_seconds)
    down = reading.window(state.policy.scale_down.window_seconds)
    target = state.target
    spec = None if target is None else target.spec_replicas
    rollout = target is not None and target.rollout
    drain = quantile(down.histogram("e2e_ms"), DRAIN_FRACTION)
    signal = EndpointSignal(
        endpoint=state.endpoint,
        at_s=tick,
        processed_s=moment.processed_s,
        offsets=moment.offsets,
        supply=supply_signal(state, tick, spec if rollout else None),
        windows={str(each.length_s): read_values(each) for each in (up, down)},
        spec_replicas=spec,
        rollout=rollout,
        target_at_s=None if target is None else target.at_s,
        sources=_sources(reading, moment.offsets.get("telemetry.requests", 0)),
        down_blockers=_blockers(reading, down),
        unheard=reading.unheard,
        drain_order=_drain_order(reading, up),
        drain_p99_ms=None if drain is None else drain.value,
        outcome=state.outcome,
    )
    make_stand(state, reading, kinds)
    reading.close()
    return signal


def _blockers(reading: TickReading, down: WindowReading) -> tuple[DownBlocker, ...]:
    """Why going down is forbidden whatever the metrics say, in a fixed order."""
    state, tick, length_s = reading.state, reading.tick, down.length_s
    found = lasting_blockers(state, tick, length_s)
    restarted = {
        name: restarted_s
        for name in reading.counted
        if (restarted_s := state.supply.replicas[name].restarted_s) is not None and restarted_s > tick - length_s
    }
    for one in () if reading.near.is_plain else down.grid.restarts:
        if one.replica in reading.counted:
            restarted[one.replica] = max(one.at_s, restarted.get(one.replica, 0))
    found += [
        DownBlocker(kind="restart", replica=name, until_s=at_s + length_s) for name, at_s in sorted(restarted.items())
    ]
    found += [DownBlocker(kind="coverage", replica=name) for name in _uncovered(reading, down)]
    suspect: set[str] = set()
    if not reading.near.is_plain:
        suspect = {pair.replica for pair in down.grid.two_processes} | set(down.grid.quarantined)
    found += [
        DownBlocker(kind="suspect", replica=name) for name in sorted(suspect) if not name or name in reading.counted
    ]
    return tuple(found)


def lasting_blockers(state: EndpointState, tick: int, length_s: int) -> list[DownBlocker]:
    """Those that no replica is the reason of."""
    found: list[DownBlocker] = []
    target = state.target
    if target is not None and target.rollout:
        found.append(DownBlocker(kind="rollout"))
    elif target is not None and target.rollout_s is not None and target.rollout_s > tick - length_s:
        found.append(DownBlocker(kind="rollout", until_s=target.rollout_s + length_s))
    if state.observed_from_s > tick - length_s:
        found.append(DownBlocker(kind="rebuild", until_s=state.observed_from_s + length_s))
    if state.refused_s is not None and state.refused_s >= tick - length_s:
        found.append(DownBlocker(kind="refused", until_s=state.refused_s + 1 + length_s))
    return found


def _uncovered(reading: TickReading, down: WindowReading) -> list[str]:
    """Ready replicas that were heard in less than FRESH_COVERAGE of their ready seconds in the window."""
    heard, place = down.tally("heard"), down.roster.place
    uncovered = [name for name in reading.counted if name not in place]
    if not heard.is_whole:
        short = (heard.ready_counts < FRESH_COVERAGE * down.seconds.expected).tolist()
        uncovered = [name for name in reading.counted if name not in place or short[place[name]]]
    replicas = reading.state.supply.replicas
    return [name for name in uncovered if replicas[name].since_s < reading.tick]


def _drain_order(reading: TickReading, up: WindowReading) -> tuple[DrainCandidate, ...]:
    """Ready replicas by what they have in flight, those of which it is not known last; then by their cache's use."""
    inflight = up.tally("inflight")
    hits, tokens = up.tally("cached_tokens").ready_sums.tolist(), up.tally("input_tokens").ready_sums.tolist()
    sums, counts = inflight.ready_sums.tolist(), inflight.ready_counts.tolist()
    found = []
    for name in reading.ready:
        index = up.roster.place.get(name)
        if index is None:
            found.append(DrainCandidate(replica=name, inflight=None))
            continue
        rate = min(1.0, hits[index] / tokens[index]) if tokens[index] > 0 else None
        mean = sums[index] / counts[index] if counts[index] else None
        found.append(DrainCandidate(replica=name, inflight=mean, cache_hit_rate=rate))
    found.sort(key=lambda one: (one.inflight is None, one.inflight or 0.0, one.cache_hit_rate or 0.0, one.replica))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Suspicion:
    state: ValueState
    offset_s: float | None = None
    late: int = 0


def _sources(reading: TickReading, offset: int) -> tuple[SourceSignal, ...]:
    """Sources that are not plainly well, by name: off, late, silent, or two processes under one name."""
    state, tick = reading.state, reading.tick
    found: dict[tuple[str, str, str], _Suspicion] = {}
    for key, source in state.sources.states.items():
        suspicion = _clock(source, offset)
        if suspicion is not None:
            found[key] = suspicion
    for name in reading.ready:
        silent_s = tick - reading.silent_since_s[name]
        if silent_s > SILENT_S and not any(key[0] == name for key in found):
            was_heard = state.last_heard.get(name, 0) >= tick - reading.recent.length_s
            found[name, Source.ENGINE, name] = _Suspicion(ValueState.STALE if was_heard else ValueState.UNKNOWN)
    for pair in () if reading.near.is_plain else reading.grid.two_processes:
        key = pair.replica, Source.ROUTER if pair.reporter is not None else Source.ENGINE, pair.reporter or pair.replica
        found[key] = _Suspicion(ValueState.SUSPECT)
    return tuple(
        SourceSignal(
            replica=key[0],
            source=Source(key[1]),
            reporter=key[2],
            offset_s=found[key].offset_s,
            state=found[key].state,
            late=found[key].late,
        )
        for key in sorted(found)
    )


def _clock(source: SourceState, offset: int) -> _Suspicion | None:
    held = source.at(offset - 1)
    if held is not None and not is_well(held):
        return _Suspicion(ValueState.SUSPECT if held.quarantined else ValueState.FRESH, held.skew_s, source.late)
    return _Suspicion(ValueState.FRESH, None, source.late) if source.late else None
