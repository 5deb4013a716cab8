"""Makes ticks: the signals, what is decided on them, and what is remembered.

Ticks of many endpoints are made together; what comes out is the same as if each were made alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from decisions.scaling import decide_scaling, skip_ticks
from records.decisions import ScalingDecision, SkippedTicks
from records.epoch_memory import EpochSeen
from records.memory import CatchUp
from records.signals import EndpointSignal
from streams.controller.skipped import SkippedBook
from streams.endpoints.effects import TickEffects
from streams.endpoints.endpoint_state import EndpointState, TickMoment
from streams.endpoints.endpoint_windows import EndpointWindows
from streams.endpoints.standing import Kind, Standing
from streams.endpoints.ticks import CATCH_UP_S, TICK_S
from streams.signals.signals import make_signal
from streams.signals.standing import Kinds, standing_before
from streams.signals.standing_signals import standing_signals
from streams.signals.standing_windows import Members

TOGETHER_MAX = 256
"""Most endpoints that are read together: what is read and made of them then fits into the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class DueTick:
    """An endpoint whose next tick is due, and the moment at which it fell due."""

    state: EndpointState
    moment: TickMoment


@dataclass(slots=True)
class TickMaker:
    """`newest_missed` is the newest tick that was complete when the pipeline came back from an outage, 0 for none;
    `first_offsets` the first offset of each topic that was read, by whoever had the partition first; `floor_s` the
    processing time of the last tick that was made before this process was born: it does not go back for anybody."""

    windows: EndpointWindows
    skipped: SkippedBook
    newest_missed: int = 0
    first_offsets: dict[str, int] = field(default_factory=dict)
    floor_s: float = 0.0
    _kinds: Kinds = field(default_factory=Kinds)

    def make(self, due: Sequence[DueTick]) -> list[TickEffects]:
        """Make the next tick of each of these endpoints, none twice, in their order."""
        parts = (due[first : first + TOGETHER_MAX] for first in range(0, len(due), TOGETHER_MAX))
        return [effects for part in parts for effects in self._make_together(part)]

    def _make_together(self, due: Sequence[DueTick]) -> list[TickEffects]:
        begun = [DueTick(one.state, self._begin(one)) for one in due]
        signals = self._read_together(begun)
        together = list(signals)
        for place, one in enumerate(begun):
            if place not in signals:
                signals[place] = make_signal(one.state, self.windows.of(one.state.endpoint), one.moment, self._kinds)
        told = [self._tell_skipped(one.state, signals[place]) for place, one in enumerate(begun)]
        decisions = [self._decide(one.state, signal) for one, signal in zip(begun, told, strict=True)]
        for one, signal in zip(begun, told, strict=True):
            state = one.state
            state.next_tick, state.has_ticked, state.outcome_is_news = signal.at_s + TICK_S, True, False
        # Given up before it is remembered: what the next tick does not read, a new owner does not find again.
        self.windows.keep_standing([begun[place].state for place in together])
        lasting: dict[int, tuple[EpochSeen, ...]] = dict.fromkeys(together, ())
        for place, one in enumerate(begun):
            if place not in lasting:
                self.windows.keep(one.state)
                lasting[place] = self.windows.of(one.state.endpoint).requests.lasting_epochs(one.state.endpoint)
        return [
            TickEffects(
                endpoint=one.state.endpoint,
                at_s=signal.at_s,
                signal=signal,
                decisions=decided,
                memory=one.state.memory(signal.at_s, one.moment, lasting[place]),
            )
            for place, (one, signal, decided) in enumerate(zip(begun, told, decisions, strict=True))
        ]

    def make_all(
        self, states: Iterable[EndpointState], is_due: Callable[[EndpointState], bool], moment: TickMoment
    ) -> Iterator[TickEffects]:
        """All ticks for which it holds, in the order of their times and endpoints. Those of one time are made when the
        first of them is asked for."""
        due = [state for state in states if is_due(state)]
        while due:
            tick = min(state.due_tick for state in due)
            now = sorted((state for state in due if state.next_tick == tick), key=lambda state: state.endpoint)
            yield from self.make([DueTick(state, moment) for state in now])
            due = [state for state in due if is_due(state)]

    def _begin(self, due: DueTick) -> TickMoment:
        """The moment of a tick as its endpoint counts it."""
        state = due.state
        moment = _after_restore(state, due.moment, self.floor_s)
        unread = [topic for topic in moment.offsets if topic not in state.first_offsets]
        if unread:
            first_offsets = state.first_offsets | {topic: self.first_offsets.get(topic, 0) for topic in unread}
            state.first_offsets = dict(sorted(first_offsets.items()))
        return moment

    def _read_together(self, due: Sequence[DueTick]) -> dict[int, EndpointSignal]:
        """The signals of endpoints that stand, by their places in `due`."""
        groups: dict[tuple[Kind, int], list[tuple[int, Standing]]] = {}
        for place, one in enumerate(due):
            tick = one.state.due_tick
            standing = standing_before(one.state, tick)
            if standing is not None:
                groups.setdefault((standing.kind, tick), []).append((place, standing))
        made: dict[int, EndpointSignal] = {}
        for (kind, tick), found in groups.items():
            places = [place for place, _ in found]
            members = Members(kind, [due[place].state for place in places], [standing for _, standing in found])
            signals = standing_signals(members, [due[place].moment for place in places], tick)
            made |= {place: one for place, one in zip(places, signals, strict=True) if one is not None}
        return made

    def _tell_skipped(self, state: EndpointState, signal: EndpointSignal) -> EndpointSignal:
        """The signal, with what was left unread since the last one."""
        news = self.skipped.tell(state, signal.at_s)
        return msgspec.structs.replace(signal, skipped_records=news) if news else signal

    def _decide(self, state: EndpointState, signal: EndpointSignal) -> tuple[ScalingDecision, ...]:
        """A decision; after a long outage none, until one hold says what was skipped."""
        tick = signal.at_s
        catch_up = state.catch_up
        if self.newest_missed - tick >= CATCH_UP_S:
            first_tick = tick if catch_up is None else catch_up.first_tick
            catch_up = CatchUp(first_tick=first_tick, newest_tick=self.newest_missed)
        state.catch_up = catch_up
        if catch_up is None:
            decision, state.scaling = decide_scaling(state.policy, state.policy_hash, signal, state.scaling)
            return (decision,)
        if tick < catch_up.newest_tick - TICK_S:
            return ()
        state.catch_up = None
        skipped = SkippedTicks(first_tick=catch_up.first_tick, last_tick=tick)
        decision, state.scaling = skip_ticks(state.policy, state.policy_hash, signal, state.scaling, skipped)
        return (decision,)


def _after_restore(state: EndpointState, moment: TickMoment, floor_s: float) -> TickMoment:
    """What was read before this process was born counts as read, as long as nothing newer was."""
    offsets = moment.offsets
    for topic, offset in state.restored.items():
        if offsets.get(topic, 0) < offset:
            offsets = {**offsets, topic: offset}
    if offsets is moment.offsets and moment.processed_s >= floor_s:
        return moment
    return TickMoment.of(max(moment.processed_s, floor_s), offsets)
