"""Cases from Kafka: read committed, without a group, from the endpoint's partition of each topic alone."""

from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec

from decisions.chain import policy_hash
from headrace.explain.case import OUTCOME_WITHIN_S, REPEATS_S, SHOWN_WITHIN_S, Case, Move, streak
from headrace.explain.selector import DecisionSelector, NoDecisionError, ambiguous, none_before, unknown_endpoint
from headrace.explain.sources.decision_log import DecisionLog, Logged
from headrace.export_logs import EndpointLogs
from headrace.policies.topic import published_policies
from records.decisions import ScalingDecision
from records.enums import ScalingAction
from records.memory import ControllerMemory
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal
from records.telemetry import TargetObserved
from wire.kafka import KafkaAccess
from wire.topics import TopicNames

R = TypeVar("R", bound=msgspec.Struct)

AROUND_S = 60
"""Signals and memories are written with their decision, in one transaction: so far around its time they are read."""


class KafkaCases:
    """Cases of the endpoint of `logs`. Raises LookupError where a topic is not there, KafkaError where none answers."""

    def __init__(self, logs: EndpointLogs, access: KafkaAccess, names: TopicNames) -> None:
        self._logs = logs
        self._log = DecisionLog(logs)
        self._access = access
        self._names = names
        self._where = f"the topics on {access.bootstrap}"

    async def find(self, wanted: DecisionSelector) -> Logged:
        """The decision asked for. Raises NoDecisionError."""
        if wanted.decision_id is not None:
            found = await self._log.of_id(wanted.decision_id, wanted.at_s)
        else:
            one = await (self._log.newest() if wanted.at_s is None else self._log.up_to(wanted.at_s))
            found = [] if one is None else [one]
        if len(found) > 1:
            raise ambiguous(wanted, [logged.decision.decision_id for logged in found])
        if not found:
            raise await self._nothing(wanted)
        return found[0]

    async def case(self, logged: Logged) -> Case:
        """The decision with all that Kafka has of it."""
        decision = logged.decision
        memory = await self._memory(logged)
        return Case(
            decision=decision,
            signal=await self._signal(logged),
            policy=await self._policy(decision),
            memory=memory,
            outcomes=await self.outcomes((decision,)),
            shown_s=await self._shown(decision),
            last=await self._last(logged, memory),
        )

    async def outcomes(self, decisions: tuple[ScalingDecision, ...]) -> tuple[Outcome, ...]:
        """What actuators said of these, in the order of the log."""
        if all(decision.action is ScalingAction.HOLD for decision in decisions):
            return ()
        ids = {decision.decision_id for decision in decisions}
        first_s, last_s = decisions[0].at_s, decisions[-1].at_s + OUTCOME_WITHIN_S
        found = [outcome async for outcome in self._between("outcomes", Outcome, first_s, last_s)]
        return tuple(outcome for outcome in found if outcome.decision_id in ids)

    async def _nothing(self, wanted: DecisionSelector) -> NoDecisionError:
        first, last = await self._log.first(), await self._log.newest()
        if first is not None and last is not None:
            return none_before(wanted, first.decision.at_s, last.decision.at_s, self._where)
        known = await published_policies(self._access, self._names)
        return unknown_endpoint(wanted.endpoint, known.keys() - {wanted.endpoint}, self._where)

    async def _signal(self, logged: Logged) -> EndpointSignal | None:
        async for signal in self._around("signals", EndpointSignal, logged.stamped_s):
            if signal.at_s == logged.decision.at_s:
                return signal
        return None

    async def _memory(self, logged: Logged) -> ScalingMemory | None:
        """What was remembered before the tick: of a chain's first nothing, else what names the decision before."""
        previous_id = logged.decision.previous_id
        if previous_id is None:
            return ScalingMemory()
        async for memory in self._around("controllers", ControllerMemory, logged.stamped_s):
            if memory.at_s < logged.decision.at_s and memory.scaling.previous_id == previous_id:
                return memory.scaling
        return None

    async def _policy(self, decision: ScalingDecision) -> EndpointPolicy | None:
        """The newest that has the decision's hash, of those that compaction has left."""
        found = None
        async for logged in self._logs.records("policies", 0):
            if isinstance(logged.record, EndpointPolicy) and policy_hash(logged.record) == decision.policy_hash:
                found = logged.record
        return found

    async def _shown(self, decision: ScalingDecision) -> int | None:
        if decision.action is ScalingAction.HOLD:
            return None
        last_s = decision.at_s + SHOWN_WITHIN_S
        async for target in self._between("telemetry.targets", TargetObserved, decision.at_s, last_s):
            if target.at_s >= decision.at_s and target.spec_replicas == decision.desired:
                return target.at_s
        return None

    async def _last(self, logged: Logged, memory: ScalingMemory | None) -> Move | None:
        """The memory tells when it was made; without one it is looked for backwards."""
        if memory is not None and memory.pending is None:
            return None
        if memory is not None and memory.pending is not None:
            newest_first = await self._moves_from(memory.pending.at_s, logged.decision.at_s)
        else:
            newest_first = await self._moves_before(logged)
        if not newest_first:
            return None
        made = streak(newest_first)
        return Move(decisions=made, outcomes=await self.outcomes(made), shown_s=await self._shown(made[0]))

    async def _moves_from(self, first_s: int, before_s: int) -> list[ScalingDecision]:
        """Decisions that are no hold from a tick on, for as long as one is repeated; the newest first."""
        start = await self._log.up_to(first_s)
        if start is None:
            return []
        made = []
        async for it in self._log.from_offset(start.offset):
            if it.decision.at_s >= min(before_s, first_s + REPEATS_S):
                break
            if it.decision.action is not ScalingAction.HOLD:
                made.append(it.decision)
        return made[::-1]

    async def _moves_before(self, logged: Logged) -> list[ScalingDecision]:
        """The last ones that are no hold, the newest first, with what was repeated."""
        made: list[ScalingDecision] = []
        async for it in self._log.backwards(logged.offset):
            if made and it.decision.at_s < made[0].at_s - REPEATS_S:
                break
            if it.decision.action is not ScalingAction.HOLD:
                made.append(it.decision)
        return made

    async def _around(self, topic: str, kind: type[R], stamped_s: float) -> AsyncIterator[R]:
        """The endpoint's records of an output topic that were written about then."""
        first = await self._logs.offset_at(topic, stamped_s - AROUND_S)
        end = await self._logs.offset_at(topic, stamped_s + AROUND_S)
        async for _, record in self._logs.outputs(topic, kind, first, end):
            yield record

    async def _between(self, topic: str, kind: type[R], first_s: int, last_s: int) -> AsyncIterator[R]:
        """The endpoint's records of an input topic that came from a time to another."""
        first = await self._logs.offset_at(topic, first_s)
        end = await self._logs.offset_at(topic, last_s)
        async for logged in self._logs.records(topic, first, end):
            if isinstance(logged.record, kind):
                yield logged.record
