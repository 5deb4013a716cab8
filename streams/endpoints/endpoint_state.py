"""One endpoint between its ticks: its policy, what is remembered, and where its watermark stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from decisions.applied import names_decision
from decisions.chain import policy_hash
from records.enums import OutcomeResult
from records.epoch_memory import EpochSeen
from records.memory import CatchUp, ControllerMemory
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import ObservedOutcome, SkippedRecords
from records.supply_memory import SourceMemory, SupplyMemory, TargetMemory
from records.telemetry import TargetObserved
from streams.endpoints.block_store import BlockStore
from streams.endpoints.blocks import BlockBook
from streams.endpoints.cross_checks import CheckBook
from streams.endpoints.skew import EndpointSources
from streams.endpoints.standing import Standing
from streams.endpoints.supply import SupplyState
from streams.endpoints.ticks import LATENESS_S, PATIENCE_S, TICK_S

NEVER_S = float("-inf")
STALE_S = 300
"""How far back something must have been heard for a value to be stale and not unknown (decisions.md)."""
SCALING_TOPIC = "decisions.scaling"


@dataclass(frozen=True, slots=True)
class TickMoment:
    """Processing time, and the next offset to read of each input topic, by their names, when a tick is made."""

    processed_s: float
    offsets: dict[str, int]

    @classmethod
    def of(cls, processed_s: float, offsets: Mapping[str, int]) -> "TickMoment":
        return cls(processed_s, dict(sorted(offsets.items())))


@dataclass(slots=True)
class EndpointState:
    """See the module's text. `next_tick` is null before the endpoint's first record, and `has_ticked` false before its
    first tick: until then each record may bring an earlier one.

    `outcome_is_news`: no tick has seen it yet. `restored` has, by topic, the offset below which records were read
    before this process was born: they fill the windows and nothing else. `floor_s` is the processing time of the last
    tick made then. `blocks` are in a store of their own until the endpoint's windows are opened.
    """

    endpoint: str
    policy: EndpointPolicy
    policy_hash: str
    next_tick: int | None = None
    has_ticked: bool = False
    supply: SupplyState = field(default_factory=SupplyState)
    target: TargetMemory | None = None
    outcome: ObservedOutcome | None = None
    outcome_is_news: bool = False
    sources: EndpointSources = field(default_factory=EndpointSources)
    scaling: ScalingMemory = field(default_factory=ScalingMemory)
    catch_up: CatchUp | None = None
    observed_from_s: int = 0
    kept_from_s: int = 0
    newest_end_s: float = NEVER_S
    newest_received_s: float = NEVER_S
    floor_s: float = NEVER_S
    restored: dict[str, int] = field(default_factory=dict)
    first_offsets: dict[str, int] = field(default_factory=dict)
    skipped: tuple[SkippedRecords, ...] = ()
    refused_s: int | None = None
    gpus_from_offset: int = 0
    last_heard: dict[str, int] = field(default_factory=dict)
    checks: CheckBook = field(default_factory=CheckBook)
    standing: Standing | None = None
    blocks: BlockBook = field(default_factory=lambda: BlockBook(BlockStore(0)))

    @classmethod
    def new(cls, policy: EndpointPolicy) -> "EndpointState":
        return cls(endpoint=policy.endpoint, policy=policy, policy_hash=policy_hash(policy))

    @classmethod
    def from_memory(cls, policy: EndpointPolicy, memory: ControllerMemory) -> "EndpointState":
        supply = memory.supply
        state = cls.new(policy)
        state.next_tick, state.has_ticked = memory.at_s + TICK_S, True
        state.supply = SupplyState(
            {replica.replica: replica for replica in supply.replicas},
            supply.starts_s,
            supply.failed_starts,
            supply.observed,
        )
        state.target, state.outcome = supply.target, supply.outcome
        state.restored = dict(memory.offsets)
        state.first_offsets = dict(memory.first_offsets)
        state.skipped, state.refused_s = memory.skipped_records, memory.refused_s
        state.sources = EndpointSources.restored(supply.sources)
        state.scaling, state.catch_up = memory.scaling, memory.catch_up
        state.observed_from_s, state.floor_s = memory.observed_from_s, memory.processed_s
        state.kept_from_s = memory.kept_from_s
        state.gpus_from_offset = memory.gpus_from_offset
        state.last_heard = {
            replica.replica: replica.heard_s for replica in supply.replicas if replica.heard_s is not None
        }
        return state

    def set_policy(self, policy: EndpointPolicy) -> None:
        self.policy, self.policy_hash = policy, policy_hash(policy)

    def note_refused(self, at_s: int) -> None:
        """Something of a second had no room: windows with that second do not show all there is."""
        self.refused_s = at_s if self.refused_s is None else max(self.refused_s, at_s)

    @property
    def span_s(self) -> int:
        """Seconds before a tick that it may read."""
        return max(STALE_S, self.policy.scale_up.window_seconds, self.policy.scale_down.window_seconds)

    @property
    def due_tick(self) -> int:
        """The next tick, once there is one."""
        if self.next_tick is None:
            raise RuntimeError(f"{self.endpoint} has no first tick yet")
        return self.next_tick

    def ticks_before(self, end_s: int) -> bool:
        """Whether its next tick is."""
        return self.next_tick is not None and self.next_tick < end_s

    @property
    def needed_from_s(self) -> int | None:
        """The oldest second that the next tick may read; null before the first tick."""
        return self.next_tick - self.span_s if self.next_tick is not None and self.has_ticked else None

    @property
    def watermark_s(self) -> float:
        return min(self.newest_end_s, self.newest_received_s + PATIENCE_S) - LATENESS_S

    def move_watermark(self, end_s: float, received_s: float) -> bool:
        """Samples up to these times were read; whether the next tick is due by the watermark."""
        if end_s > self.newest_end_s:
            self.newest_end_s = end_s
        if received_s > self.newest_received_s:
            self.newest_received_s = received_s
        return self.is_due_by_watermark

    @property
    def is_due_by_watermark(self) -> bool:
        return self.next_tick is not None and self.next_tick <= self.watermark_s

    def is_new(self, topic: str, offset: int) -> bool:
        """Whether the record at `offset` was not read before this process was born."""
        return offset >= self.restored.get(topic, 0)

    def begin(self, first_tick: int, at_s: int) -> None:
        """A record came before the first tick was made. Which of several topics' came first must not matter.

        A second that no window reads, from a clock an hour behind, says nothing of what was observed since.
        """
        if at_s < first_tick - STALE_S:
            at_s = first_tick
        if self.next_tick is None:
            self.next_tick, self.observed_from_s = first_tick, min(at_s, first_tick)
        else:
            self.next_tick = min(self.next_tick, first_tick)
            self.observed_from_s = min(self.observed_from_s, at_s, first_tick)

    def is_due(self, processed_s: float) -> bool:
        """Whether the next tick is, by the watermark or by processing time."""
        if self.next_tick is None:
            return False
        return self.is_due_by_watermark or self.next_tick + PATIENCE_S <= max(processed_s, self.floor_s)

    def observe_target(self, seen: TargetObserved) -> None:
        """Take a TargetObserved as read; one that is older than the newest changes nothing.

        A null `spec_replicas` tells nothing, and the last one known stays.
        """
        known = self.target
        if known is not None and (seen.at_s, seen.seq) < (known.at_s, known.seq):
            return
        spec = seen.spec_replicas
        rollout = seen.rollout
        if rollout is None:
            rollout = spec is not None and seen.updated_replicas is not None and seen.updated_replicas < spec
        was = known.rollout_s if known is not None else None
        ends_now = known is not None and known.rollout and not rollout
        self.target = TargetMemory(
            at_s=seen.at_s,
            seq=seen.seq,
            spec_replicas=spec if spec is not None or known is None else known.spec_replicas,
            rollout=rollout,
            rollout_s=seen.at_s if rollout or ends_now else was,
        )

    def observe_outcome(self, outcome: Outcome) -> bool:
        """Take an Outcome as read; False if it speaks of no decision of this endpoint that is remembered.

        The newest counts. But one that says `applied` is not lost to another that does not, whichever came first of
        two between ticks, or of two actuators whose clocks differ.
        """
        if outcome.decision_topic != SCALING_TOPIC or not names_decision(self.scaling, outcome.decision_id):
            return False
        known, is_applied = self.outcome, outcome.result is OutcomeResult.APPLIED
        counts = known is None or outcome.at_s >= known.at_s
        if known is not None and is_applied != (known.result is OutcomeResult.APPLIED):
            counts = is_applied or (counts and not self.outcome_is_news)
        if counts:
            self.outcome_is_news = True
            self.outcome = ObservedOutcome(
                decision_id=outcome.decision_id,
                result=outcome.result,
                at_s=outcome.at_s,
                retryable=outcome.retryable,
                observed=outcome.observed,
            )
        return True

    def doubt(self, at_s: int) -> None:
        """A sample came for a second that a tick has looked at."""
        self.checks.doubt(at_s)
        self.blocks.doubt(at_s)

    def note_heard(self, heard: dict[str, int], tick: int) -> None:
        """Remember the newest second of each replica, and forget those that are gone."""
        self.last_heard.update(heard)
        replicas = self.supply.replicas
        for replica in [name for name in self.last_heard if name not in replicas]:
            if self.last_heard[replica] < tick - self.span_s:
                del self.last_heard[replica]

    def unheard_since_s(self, replica: str) -> int:
        """Since when a replica that is ready has said nothing, event time."""
        known = self.supply.replicas[replica]
        heard = self.last_heard.get(replica)
        return known.since_s if heard is None else max(known.since_s, heard + 1)

    def memory(self, tick: int, moment: TickMoment, epochs: tuple[EpochSeen, ...]) -> ControllerMemory:
        """What a new owner needs to go on after this tick."""
        return ControllerMemory(
            endpoint=self.endpoint,
            at_s=tick,
            offsets=moment.offsets,
            scaling=self.scaling,
            supply=self._supply_memory(tick, moment.offsets.get("telemetry.requests", 0)),
            processed_s=moment.processed_s,
            observed_from_s=self.observed_from_s,
            kept_from_s=self.kept_from_s,
            catch_up=self.catch_up,
            epochs=epochs,
            first_offsets=self.first_offsets,
            skipped_records=self.skipped,
            refused_s=self.refused_s,
            gpus_from_offset=self.gpus_from_offset,
        )

    def _keep_silent(self, tick: int) -> None:
        """Put the newest second of replicas that leave the windows' sight into what is remembered of them."""
        replicas = self.supply.replicas
        for name, known in replicas.items():
            heard = self.last_heard.get(name)
            heard_s = heard if heard is not None and heard < tick - self.span_s + 2 * TICK_S else None
            if heard_s != known.heard_s:
                replicas[name] = msgspec.structs.replace(known, heard_s=heard_s)

    def _supply_memory(self, tick: int, offset: int) -> SupplyMemory:
        standing = self.standing
        if standing is not None and standing.changes == self.supply.changes:
            kept = standing.memory
            if kept.target is not self.target or kept.outcome is not self.outcome:
                kept = standing.memory = msgspec.structs.replace(kept, target=self.target, outcome=self.outcome)
            return kept
        self._keep_silent(tick)
        return self.supply_memory(self.sources.memory(offset, tick))

    def supply_memory(self, sources: tuple[SourceMemory, ...]) -> SupplyMemory:
        """What is remembered of replicas, target and outcome as they are."""
        supply = self.supply
        return SupplyMemory(
            replicas=tuple(supply.replicas[name] for name in sorted(supply.replicas)),
            starts_s=supply.starts_s,
            failed_starts=supply.failed_starts,
            observed=supply.observed,
            target=self.target,
            outcome=self.outcome,
            sources=sources,
        )
