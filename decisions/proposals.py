"""Steps 1 and 2: each configured metric, read over each window, proposes the replicas it needs."""

import math

import msgspec

from decisions.chain import rounded
from decisions.metrics import MetricKind, Term, terms_of
from records.enums import ValueState
from records.fields import COUNT_MAX
from records.policy import EndpointPolicy
from records.signals import EndpointSignal, SignalValue

TOLERANCE = 0.1
"""Utilisations and values this near to their target ask for what there is (decisions.md, step 2)."""

_USABLE = (ValueState.FRESH, ValueState.PARTIAL)
_ABSENT = SignalValue(value=None, state=ValueState.UNKNOWN, coverage=0.0)


class Reading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One metric over one window: what was observed and what it proposes.

    `observed` is null unless the state is fresh or partial; `proposed` is null where the value may not be computed
    with, and `obstacle` then says why.
    """

    term: Term
    window_s: int
    state: ValueState
    coverage: float
    measured: int
    observed: float | None
    proposed: int | None
    obstacle: str | None = None

    @property
    def key(self) -> str:
        return self.term.key

    @property
    def target(self) -> float | None:
        return self.term.target

    @property
    def is_fresh(self) -> bool:
        """Fresh, and its proposal can be made if it makes one."""
        return self.state is ValueState.FRESH and (self.proposed is not None or not self.term.scales)


class Ask(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The largest of one window's proposals. `reading` is null where all values are undefined: a known zero load."""

    replicas: int
    reading: Reading | None


class Fleet(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a proposal depends on besides its value: the replicas asked for so far, and those given up hearing."""

    current: int
    unheard: int


def read_metrics(policy: EndpointPolicy, signal: EndpointSignal, current: int) -> tuple[Reading, ...]:
    """Read every configured metric over the up window, then over the down window where that is another one."""
    fleet = Fleet(current=current, unheard=len(signal.unheard))
    windows = dict.fromkeys((policy.scale_up.window_seconds, policy.scale_down.window_seconds))
    terms = terms_of(policy)
    readings = []
    for window_s in windows:
        values = signal.windows.get(str(window_s), {})
        readings += [_read(term, window_s, values.get(term.key, _ABSENT), fleet) for term in terms]
    return tuple(readings)


def largest_ask(readings: tuple[Reading, ...], window_s: int, fleet_unheard: int) -> Ask | None:
    """Give the largest proposal of one window; null without evidence.

    Undefined values are a known zero load, which asks for nothing: where every metric that scales is undefined, the
    window asks for zero replicas. Values that are merely missing never do.
    """
    asked: Reading | None = None
    undefined = missing = 0
    for reading in readings:
        if reading.window_s != window_s or not reading.term.scales:
            continue
        if reading.proposed is None:
            undefined += reading.state is ValueState.UNDEFINED
            missing += reading.state is not ValueState.UNDEFINED
        elif asked is None or asked.proposed is None or reading.proposed > asked.proposed:
            asked = reading
    if asked is not None and asked.proposed is not None:
        return Ask(replicas=asked.proposed, reading=asked)
    return Ask(replicas=fleet_unheard, reading=None) if undefined and not missing else None


def _read(term: Term, window_s: int, value: SignalValue, fleet: Fleet) -> Reading:
    state, observed, obstacle = _observe(value)
    proposed: int | None = None
    if observed is not None:
        if not term.scales:
            obstacle = "an efficiency signal, never scales by itself"
        elif term.target is None:
            obstacle = "the policy gives no target and the metric has no default"
        elif term.kind is MetricKind.TOTAL:
            proposed = replicas_for_total(observed, term.target, fleet.unheard)
        elif value.measured == 0:
            obstacle = "measured on no ready replica"
        else:
            proposed = replicas_for_mean(observed, term.target, value.measured, fleet)
    return Reading(
        term=term,
        window_s=window_s,
        state=state,
        coverage=rounded(value.coverage),
        measured=value.measured,
        observed=observed,
        proposed=proposed,
        obstacle=obstacle,
    )


def replicas_for_total(total: float, target: float, unheard: int) -> int:
    """Give `ceil(total / target)`, without tolerance; an unheard replica is taken to carry its target."""
    return whole_replicas(total / target, unheard)


def replicas_for_mean(observed: float, target: float, measured: int, fleet: Fleet) -> int:
    """Give `ceil(measured ready replicas * observed / target)`, and exactly `current` within the tolerance."""
    if abs(observed - target) <= TOLERANCE * target * (1 + 1e-9):
        return fleet.current
    return whole_replicas(measured * (observed / target), fleet.unheard)


def whole_replicas(replicas: float, unheard: int = 0) -> int:
    """Round up what 9 digits show (so that 6 * 0.7 / 0.6 is 7, not 8), up to the largest count there is."""
    if replicas >= COUNT_MAX:
        return COUNT_MAX
    return min(COUNT_MAX, math.ceil(rounded(replicas)) + unheard)


def _observe(value: SignalValue) -> tuple[ValueState, float | None, str | None]:
    """Give the state, the value where it may be computed with, and else why not."""
    if value.state not in _USABLE:
        because = f" ({value.check})" if value.check else ""
        return value.state, None, f"the value is {value.state.value}{because}"
    if value.value is None:
        return ValueState.UNKNOWN, None, "the value is missing"
    if not math.isfinite(value.value) or value.value < 0:
        return ValueState.SUSPECT, None, "the value is no finite number of at least 0"
    return value.state, rounded(value.value), None
