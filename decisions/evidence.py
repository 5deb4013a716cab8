"""What keeps a fleet as it is: nothing to go by, or not enough to go down."""

import msgspec

from decisions.proposals import Reading
from decisions.stabilisation import covers
from records.enums import ScalingReason, ValueState
from records.fields import TICK_S
from records.policy import EndpointPolicy
from records.signals import DownBlocker, EndpointSignal

COVERED = 0.9 - 1e-9
"""Share of the replicas' seconds from which on they count as heard (decisions.md, "What a value may be"); as a product
of quotients nine tenths may come out a little below."""

_MISSING = (ValueState.UNKNOWN, ValueState.STALE)


class Obstacle(msgspec.Struct, frozen=True, kw_only=True):
    """Why not, as a reason of the contract and in words."""

    reason: ScalingReason
    text: str


def no_evidence(readings: tuple[Reading, ...]) -> Obstacle:
    """Name why no metric proposes anything: suspect values, else missing ones, else ones that cannot decide alone."""
    return (
        _first(readings, (ValueState.SUSPECT,), ScalingReason.SUSPECT)
        or _first(readings, _MISSING, ScalingReason.UNKNOWN)
        or Obstacle(reason=ScalingReason.INSUFFICIENT_EVIDENCE, text="no metric proposes a number of replicas")
    )


def down_obstacle(
    policy: EndpointPolicy, signal: EndpointSignal, readings: tuple[Reading, ...], evidence_from_s: int | None
) -> Obstacle | None:
    """Name what forbids going down, null where nothing does.

    Every configured value, over both windows, is fresh or undefined (a known zero); nothing blocks; and since a whole
    down window no tick is missing and no signal was away.
    """
    blocker = _first_blocker(signal)
    if blocker is not None and blocker.reason is ScalingReason.SUSPECT:
        return blocker
    found = _first(readings, (ValueState.SUSPECT,), ScalingReason.SUSPECT) or _first(
        readings, _MISSING, ScalingReason.UNKNOWN
    )
    if found is not None:
        return found
    if signal.rollout:
        return Obstacle(reason=ScalingReason.ROLLOUT, text="a rollout is in progress")
    if blocker is not None:
        return blocker
    for reading in readings:
        if not reading.is_fresh and reading.state is not ValueState.UNDEFINED:
            why = reading.obstacle or f"the value covers {reading.coverage:.0%} of the replicas' seconds"
            return _about(reading, why, ScalingReason.INSUFFICIENT_EVIDENCE)
    window_s = policy.scale_down.window_seconds
    if not covers(evidence_from_s, signal.at_s, window_s, TICK_S):
        text = f"evidence does not reach back {window_s} s without a gap"
        return Obstacle(reason=ScalingReason.INSUFFICIENT_EVIDENCE, text=text)
    return None


def evidence_start(
    policy: EndpointPolicy, signal: EndpointSignal, readings: tuple[Reading, ...], evidence_from_s: int | None
) -> int | None:
    """Give the tick since when evidence has no gap, this one included; null if a signal is away at this one.

    What the up window says counts: the long one remembers an outage anyway, and is half empty when an endpoint begins.
    """
    window_s = policy.scale_up.window_seconds
    if any(reading.window_s == window_s and _is_away(reading, signal.supply.ready) for reading in readings):
        return None
    return signal.at_s if evidence_from_s is None else evidence_from_s


def _is_away(reading: Reading, ready: int) -> bool:
    """Tell whether the signal itself is missing: the replicas were not heard, or a gateway alone spoke for them.

    A latency of which nothing finished, on replicas that were heard, is not away.
    """
    if reading.state in _MISSING:
        return reading.coverage < COVERED
    return reading.state is ValueState.PARTIAL and reading.measured == 0 and ready > 0


def _first(readings: tuple[Reading, ...], states: tuple[ValueState, ...], reason: ScalingReason) -> Obstacle | None:
    for reading in readings:
        if reading.state in states:
            return _about(reading, reading.obstacle or f"the value is {reading.state.value}", reason)
    return None


def _about(reading: Reading, why: str, reason: ScalingReason) -> Obstacle:
    return Obstacle(reason=reason, text=f"{reading.key} over {reading.window_s} s: {why}")


def _first_blocker(signal: EndpointSignal) -> Obstacle | None:
    """Give the most telling blocker: a suspect source, then a rollout, then what else there is."""
    best: DownBlocker | None = None
    for blocker in signal.down_blockers:
        if best is None or _rank(blocker) < _rank(best):
            best = blocker
    if best is None:
        return None
    reason = {"suspect": ScalingReason.SUSPECT, "rollout": ScalingReason.ROLLOUT}.get(
        best.kind, ScalingReason.INSUFFICIENT_EVIDENCE
    )
    who = f" of {best.replica}" if best.replica else ""
    until = f" until {best.until_s}" if best.until_s is not None else ""
    return Obstacle(reason=reason, text=f"{best.kind}{who} forbids going down{until}")


def _rank(blocker: DownBlocker) -> int:
    return {"suspect": 0, "rollout": 1}.get(blocker.kind, 2)
