"""Makes one tick of one endpoint: the signal, what is decided on it, and what is remembered."""

from dataclasses import dataclass, field

import msgspec

from decisions.scaling import decide_scaling, skip_ticks
from records.decisions import ScalingDecision, SkippedTicks
from records.memory import CatchUp
from records.signals import EndpointSignal
from streams.controller.skipped import SkippedBook
from streams.endpoints.effects import TickEffects
from streams.endpoints.endpoint_state import EndpointState, TickMoment
from streams.endpoints.endpoint_windows import EndpointWindows
from streams.endpoints.ticks import CATCH_UP_S, TICK_S
from streams.signals.signals import make_signal


@dataclass(slots=True)
class TickMaker:
    """`newest_missed` is the newest tick that was complete when the pipeline came back from an outage, 0 for none;
    `first_offsets` the first offset of each topic that was read, by whoever had the partition first."""

    windows: EndpointWindows
    skipped: SkippedBook
    newest_missed: int = 0
    first_offsets: dict[str, int] = field(default_factory=dict)

    def make(self, state: EndpointState, moment: TickMoment) -> TickEffects:
        """Make the endpoint's next tick."""
        tick = state.next_tick
        if tick is None:
            raise RuntimeError(f"{state.endpoint} has no first tick yet")
        moment = _after_restore(state, moment)
        unread = [topic for topic in moment.offsets if topic not in state.first_offsets]
        if unread:
            first_offsets = state.first_offsets | {topic: self.first_offsets.get(topic, 0) for topic in unread}
            state.first_offsets = dict(sorted(first_offsets.items()))
        window = self.windows.of(state.endpoint)
        signal = make_signal(state, window, moment, tick)
        news = self.skipped.tell(state, tick)
        if news:
            signal = msgspec.structs.replace(signal, skipped_records=news)
        decisions = self._decide(state, signal)
        state.next_tick, state.has_ticked, state.outcome_is_news = tick + TICK_S, True, False
        # Given up first: what the next tick does not read, a new owner does not find again.
        self.windows.keep(state)
        memory = state.memory(tick, moment, window.requests.lasting_epochs(state.endpoint))
        return TickEffects(endpoint=state.endpoint, at_s=tick, signal=signal, decisions=decisions, memory=memory)

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


def _after_restore(state: EndpointState, moment: TickMoment) -> TickMoment:
    """Time does not go back behind the last tick made before this process was born; topics by name."""
    return TickMoment(max(moment.processed_s, state.floor_s), dict(sorted(moment.offsets.items())))
