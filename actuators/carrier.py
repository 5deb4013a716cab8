"""Carries out one endpoint's decisions, attempt after attempt: the chain asks, the port does, the answer is a value."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import structlog

from actuators import metrics
from actuators.chain import Chain
from actuators.fault_points import FaultPoint, FaultPoints
from actuators.instructions import Instruction
from actuators.port import (
    Applied,
    CallContext,
    Change,
    Conflict,
    Drain,
    ObservedTarget,
    Refused,
    ScaleTargetPort,
    TargetRef,
    Unanswered,
)
from actuators.retries import Backoff, Pause, pause, retrying
from actuators.verdicts import Trouble, Verdict, verdict_on
from records.enums import OutcomeResult

DRAIN_DEADLINE_S = 30.0
"""For requests of a replica that leaves, where a decision says nothing: the least that the worker ever says."""

_log = structlog.get_logger("headrace.actuators")


class DecisionLog(Protocol):
    """The log as one endpoint's carrier needs it."""

    async def confirm(self) -> bool:
        """Hand everything to the chain that is in the log by now; False where that is not to be waited for."""
        ...

    async def tell(self, chain: Chain, verdicts: tuple[Verdict, ...]) -> None:
        """Write outcomes, settle them in the chain, and return when they are in the log, however long that takes."""
        ...


@dataclass(frozen=True, kw_only=True)
class CarrierOptions:
    """What the carriers of all endpoints share. `clock` gives event seconds, `monotonic_s` real ones."""

    actuator: str
    port: ScaleTargetPort
    backoff: Backoff
    clock: Callable[[], float]
    monotonic_s: Callable[[], float]
    rng: np.random.Generator
    faults: FaultPoints
    pause: Pause = pause


@dataclass(frozen=True, kw_only=True)
class _Done:
    """Everything that was open is settled."""


@dataclass(frozen=True, kw_only=True)
class _Stopped:
    """The endpoint goes to another actuator: what is open stays so."""


@dataclass(frozen=True, kw_only=True)
class _Again:
    trouble: Trouble


_Step = _Done | _Stopped | _Again


class Carrier:
    """Works on the open decisions of one chain until there are none. `stir` it when the chain has changed."""

    def __init__(self, endpoint: str, chain: Chain, log: DecisionLog, options: CarrierOptions) -> None:
        self._target = TargetRef(endpoint=endpoint)
        self._chain = chain
        self._decisions = log
        self._options = options
        self._stirred = asyncio.Event()
        self._stopping = False
        self._trouble: tuple[str, Trouble] | None = None
        self._doubtful: set[str] = set()

    def stir(self) -> None:
        """A newer decision ends the pause before the next attempt."""
        self._stirred.set()

    def stop(self) -> None:
        """Start no further call; one that is under way is finished, and its outcome written."""
        self._stopping = True
        self._stirred.set()

    async def run(self) -> None:
        """Return when no decision is open, or after `stop`."""
        while self._chain.has_open and not self._stopping:
            newest = self._chain.newest
            again = retrying(
                lambda step: isinstance(step, _Again),
                lambda newest=newest: self._stopping or self._chain.newest is not newest,  # type: ignore[misc]  # mypy knows no defaults of a lambda
                self._options.backoff,
                self._options.rng,
                self._sleep,
            )
            step: _Step = await again(self._attempt)
            is_over = self._stopping or self._chain.newest is not newest
            if isinstance(step, _Again) and newest is not None and not is_over:
                await self._give_up(newest, step.trouble)

    async def _sleep(self, span_s: float) -> None:
        metrics.retries.add(1)
        await self._options.pause(span_s, self._stirred)

    async def _attempt(self) -> _Step:
        """Look at the target, then at the log's end, then act from what was seen: the order is what makes it exact."""
        if self._stopping:
            return _Stopped()
        answer = await self._look()
        self._stirred.clear()
        if not await self._decisions.confirm():
            return _Stopped()
        await self._reached(FaultPoint.CONFIRMED)
        observed = answer if isinstance(answer, ObservedTarget) else None
        judgement = self._chain.judge(observed, self._options.clock(), self._known_trouble())
        if judgement.told:
            await self._tell(judgement.told)
        if judgement.put is None:
            return _Done()
        match answer:
            case ObservedTarget():
                return await self._put(judgement.put, answer)
            case Refused() | Unanswered():
                return await self._not_done(judgement.put, answer, None)
            case None:
                # What asks for the target was read just now.
                return await self._attempt()

    async def _look(self) -> ObservedTarget | Refused | Unanswered | None:
        newest = self._chain.newest
        if newest is None or not self._chain.needs_target:
            return None
        answer = await self._options.port.get(self._target, self._context(newest))
        await self._reached(FaultPoint.GOT)
        return answer

    async def _put(self, instruction: Instruction, observed: ObservedTarget) -> _Step:
        assert not self._chain.is_dry_run, "a dry run puts nothing"
        if self._stopping:
            return _Stopped()
        port, context = self._options.port, self._context(instruction)
        not_marked = ""
        if instruction.victims and instruction.desired < observed.spec_replicas:
            drain = Drain(replicas=instruction.victims, deadline_s=instruction.drain_deadline_s or DRAIN_DEADLINE_S)
            marked = await port.drain(self._target, drain, context)
            match marked:
                case Refused(retryable=False):
                    # Those who leave may be others than the best ones, but leave they must.
                    not_marked = f"; victims not marked: {marked.detail}"
                case Refused() | Unanswered():
                    return await self._not_done(instruction, marked, observed, is_change=False)
        await self._reached(FaultPoint.CALLING)
        change = Change(spec_replicas=instruction.desired, resource_version=observed.resource_version)
        answer = await port.compare_and_set(self._target, change, context)
        await self._reached(FaultPoint.CALLED)
        if isinstance(answer, Applied):
            await self._applied(instruction, answer, observed, not_marked)
            return _Done()
        return await self._not_done(instruction, answer, observed)

    async def _applied(
        self, instruction: Instruction, answer: Applied, before: ObservedTarget, not_marked: str
    ) -> None:
        options, after = self._options, answer.target
        metrics.decision_to_applied.record(max(0.0, options.clock() - instruction.at_s))
        metrics.read_to_applied.record(options.monotonic_s() - instruction.read_s)
        is_so = after.spec_replicas == instruction.desired
        if is_so:
            self._chain.remember_put(instruction, after.resource_version)
        detail = f"{before.spec_replicas} to {instruction.desired}"
        verdict = verdict_on(
            instruction,
            OutcomeResult.APPLIED,
            detail + not_marked if is_so else f"{detail}, and to {after.spec_replicas} by someone else{not_marked}",
            observed=after.spec_replicas if is_so else None,
        )
        await self._tell(self._chain.with_older(instruction, verdict))

    async def _not_done(
        self,
        instruction: Instruction,
        answer: Conflict | Refused | Unanswered,
        observed: ObservedTarget | None,
        is_change: bool = True,
    ) -> _Step:
        """A refusal that stays one is the outcome; all else is tried again."""
        if isinstance(answer, Refused) and not answer.retryable:
            spec = None if observed is None else observed.spec_replicas
            verdict = verdict_on(instruction, self._result(OutcomeResult.REFUSED), answer.detail, observed=spec)
            await self._tell(self._chain.with_older(instruction, verdict))
            return _Done()
        if isinstance(answer, Conflict):
            metrics.conflicts.add(1)
        elif isinstance(answer, Unanswered) and observed is not None and is_change:
            self._doubtful.add(instruction.decision_id)
        doubtful = instruction.decision_id in self._doubtful
        result = self._result(OutcomeResult.UNKNOWN if doubtful else OutcomeResult.REFUSED)
        trouble = Trouble(result=result, detail=answer.detail)
        self._trouble = (instruction.decision_id, trouble)
        _log.debug("not_carried_out", endpoint=instruction.endpoint, why=answer.detail, answer=type(answer).__name__)
        return _Again(trouble=trouble)

    def _result(self, result: OutcomeResult) -> OutcomeResult:
        """A dry run only reads, whatever comes of that."""
        return OutcomeResult.DRY_RUN if self._chain.is_dry_run else result

    def _known_trouble(self) -> Trouble | None:
        newest = self._chain.newest
        if self._trouble is None or newest is None or self._trouble[0] != newest.decision_id:
            return None
        return self._trouble[1]

    async def _give_up(self, instruction: Instruction, trouble: Trouble) -> None:
        if not self._chain.is_open(instruction.decision_id):
            return
        attempts = self._options.backoff.attempts
        detail = f"given up after {attempts} attempts: {trouble.detail}"
        verdict = verdict_on(instruction, trouble.result, detail, retryable=True)
        await self._tell(self._chain.with_older(instruction, verdict))

    async def _tell(self, verdicts: tuple[Verdict, ...]) -> None:
        await self._reached(FaultPoint.OUTCOME_DUE)
        await self._decisions.tell(self._chain, verdicts)
        self._doubtful.difference_update(verdict.decision_id for verdict in verdicts)
        await self._reached(FaultPoint.OUTCOME_WRITTEN)

    def _context(self, instruction: Instruction) -> CallContext:
        return CallContext(actuator=self._options.actuator, decision_id=instruction.decision_id)

    async def _reached(self, point: FaultPoint) -> None:
        await self._options.faults.reached(point, self._target.endpoint)
