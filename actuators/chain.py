"""One endpoint's chain as an actuator follows it. Pure: decisions and outcomes in, verdicts out.

The rules, and why they hold with two actuators at once, are in docs/adr/0009-fencing-by-the-log-and-the-target.md.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass

import msgspec

from actuators.instructions import Instruction, instruction_of
from actuators.port import ObservedTarget
from actuators.verdicts import Judgement, Limits, Trouble, Verdict, superseded, verdict_on
from records.decisions import ScalingDecision
from records.enums import Mode, OutcomeResult
from records.outcomes import Outcome

REMEMBERED = 64
"""Decisions and outcomes that are remembered after they are settled: five minutes of a decision a tick."""


@dataclass(frozen=True, kw_only=True)
class _Settled:
    result: OutcomeResult
    at_s: int | None
    """The decision's tick, None where an outcome does not tell."""


class Chain:
    """Open are the decisions without a final outcome; the newest is the only one that may be carried out.

    A final outcome is one of this `actuator`, or `applied` by anyone; a dry run knows its own alone.
    """

    def __init__(self, actuator: str, limits: Limits) -> None:
        self._actuator = actuator
        self._limits = limits
        self._open: dict[str, Instruction] = {}
        self._newest: Instruction | None = None
        self._read: deque[Instruction] = deque(maxlen=REMEMBERED)
        self._settled: OrderedDict[str, _Settled] = OrderedDict()
        self._applied: dict[str, int] = {}
        """Ticks of the newest decisions that were applied, by id."""
        self._last_id: str | None = None
        self._put_version: tuple[str, str] | None = None

    @property
    def is_dry_run(self) -> bool:
        return self._limits.dry_run

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    @property
    def open_count(self) -> int:
        return len(self._open)

    @property
    def newest(self) -> Instruction | None:
        """The newest decision that was read and is no hold, open or not."""
        return self._newest

    @property
    def first_open(self) -> int | None:
        """The `order` of the oldest open decision."""
        return min((instruction.order for instruction in self._open.values()), default=None)

    @property
    def needs_target(self) -> bool:
        """An open decision could be carried out, or could have been, by an actuator that was killed."""
        return any(instruction.mode is Mode.ACT for instruction in self._open.values())

    def is_open(self, decision_id: str) -> bool:
        return decision_id in self._open

    def add(self, decision: ScalingDecision, order: int, read_s: float = 0.0) -> bool:
        """Take the next decision of the chain; False where it does not follow the one that was read before it."""
        follows = self._last_id is None or decision.previous_id == self._last_id
        self._last_id = decision.decision_id
        instruction = instruction_of(decision, order, read_s)
        if instruction is not None:
            # Victims can be thousands, and nobody asks for those of a decision that is not the newest.
            brief = msgspec.structs.replace(instruction, victims=())
            self._read.append(brief)
            if decision.decision_id not in self._settled:
                self._open[decision.decision_id] = brief
            if self._newest is None or decision.at_s > self._newest.at_s:
                self._newest = instruction
        return follows

    def note(self, outcome: Outcome) -> None:
        """Take an outcome from the log, of this actuator or another one."""
        applied = outcome.result is OutcomeResult.APPLIED
        if applied and outcome.decision_at_s is not None:
            self._note_applied(outcome.decision_id, outcome.decision_at_s)
        if outcome.actuator == self._actuator or (applied and not self._limits.dry_run):
            self._settle(outcome.decision_id, outcome.decision_at_s, outcome.result)

    def settle(self, verdict: Verdict) -> None:
        """The outcome of this verdict is in the log."""
        if verdict.result is OutcomeResult.APPLIED:
            self._note_applied(verdict.decision_id, verdict.at_s)
        self._settle(verdict.decision_id, verdict.at_s, verdict.result)

    def is_told(self, verdict: Verdict) -> bool:
        """The log has an outcome already that says as much: the same decision is settled, and this corrects nothing."""
        settled = self._settled.get(verdict.decision_id)
        if settled is None:
            return False
        return settled.result is OutcomeResult.APPLIED or verdict.result is not OutcomeResult.APPLIED

    def remember_put(self, instruction: Instruction, version: str) -> None:
        """This actuator carried it out, and the target had this version right after."""
        self._put_version = (instruction.decision_id, version)

    def _note_applied(self, decision_id: str, at_s: int) -> None:
        self._applied.setdefault(decision_id, at_s)
        if len(self._applied) > REMEMBERED:
            del self._applied[min(self._applied, key=lambda it: self._applied[it])]

    def _last_applied(self, now_s: float) -> tuple[str, int] | None:
        """The id and the tick of the decision applied last.

        An outcome whose tick is far in the future, of a decision that is not in the log, is somebody's mistake: it
        would keep all others from their target. One that is in the log counts, with the tick that it has there,
        whatever this actuator's clock says.
        """
        latest_s = now_s + self._limits.age_max_s
        known = {it.decision_id: it.at_s for it in self._read}
        counted = [
            (name, known.get(name, at_s)) for name, at_s in self._applied.items() if name in known or at_s <= latest_s
        ]
        return max(counted, key=lambda it: it[1], default=None)

    def _settle(self, decision_id: str, at_s: int | None, result: OutcomeResult) -> None:
        known = self._settled.pop(decision_id, None)
        if known is not None and known.result is OutcomeResult.APPLIED:
            result = known.result
        self._settled[decision_id] = _Settled(result=result, at_s=at_s)
        self._open.pop(decision_id, None)
        while len(self._settled) > REMEMBERED:
            self._settled.popitem(last=False)

    def judge(self, observed: ObservedTarget | None, now_s: float, trouble: Trouble | None = None) -> Judgement:
        """What became of the open decisions, and which one is to be carried out.

        `observed` was read before the end of the log was confirmed; None where it could not be, or need not be read.
        `trouble` is why the newest decision was not carried out so far.
        """
        found = self._found(observed)
        told = [*self._refuse_ahead(now_s, found), *([] if found is None else [found])]
        over = {it.decision_id for it in told}
        left = [it for it in self._in_order() if it.decision_id not in over]
        newest, put = self._newest, None
        if newest is not None and any(it.decision_id == newest.decision_id for it in left):
            verdict = self._verdict_on(newest, observed, found, now_s, trouble)
            put = newest if verdict is None else None
            told += [] if verdict is None else [verdict]
        for it in left:
            # Nobody carries out what is too old, so that need not wait for the outcome of what is put.
            is_over = put is None or now_s - it.at_s > self._limits.age_max_s
            if newest is not None and it.decision_id != newest.decision_id and is_over:
                told.append(superseded(it, newest))
        # A reader that keeps only the last outcome shall know of the newest decision, and that it was applied.
        told.sort(key=lambda it: (it.at_s, it.result is OutcomeResult.APPLIED))
        return Judgement(told=tuple(told), put=put)

    def _refuse_ahead(self, now_s: float, found: Verdict | None) -> list[Verdict]:
        """A tick far in the future is a mistake; as the newest decision it would keep all others from their targets."""
        latest_s = now_s + self._limits.age_max_s
        if self._newest is not None and self._newest.at_s > latest_s:
            timely = [it for it in (*self._open.values(), *self._read) if it.at_s <= latest_s]
            self._newest = max(timely, key=lambda it: (it.at_s, -it.order), default=None)
        ahead = [it for it in self._in_order() if it.at_s > latest_s]
        return [
            verdict_on(
                it,
                OutcomeResult.REFUSED,
                f"its tick is {it.at_s - now_s:.0f} s ahead of this actuator's clock, allowed up to "
                f"{self._limits.age_max_s:g} s",
            )
            for it in ahead
            if found is None or it.decision_id != found.decision_id
        ]

    def with_older(self, instruction: Instruction, verdict: Verdict) -> tuple[Verdict, ...]:
        """A verdict on a decision ends those before it too. It comes last: the last outcome is the newest."""
        older = [
            it for it in self._in_order() if it.at_s <= instruction.at_s and it.decision_id != instruction.decision_id
        ]
        return (*(superseded(it, instruction) for it in older), verdict)

    def _in_order(self) -> list[Instruction]:
        return sorted(self._open.values(), key=lambda it: it.order)

    def _found(self, observed: ObservedTarget | None) -> Verdict | None:
        """The decision that the target names, where no outcome says yet that it was applied."""
        if observed is None or observed.decision_id is None or self._limits.dry_run:
            return None
        settled = self._settled.get(observed.decision_id)
        if settled is not None and settled.result is OutcomeResult.APPLIED:
            return None
        known = self._open.get(observed.decision_id) or next(
            (it for it in self._read if it.decision_id == observed.decision_id), None
        )
        if known is None:
            return None if settled is None else _corrected(observed, observed.decision_id, settled)
        is_so = observed.spec_replicas == known.desired
        detail = "" if is_so else f", whose spec is {observed.spec_replicas} since"
        # What someone else made of the spec after us is not ours to call observed: the worker would take it for ours.
        return verdict_on(
            known,
            OutcomeResult.APPLIED,
            f"found applied on the target{detail}",
            observed=observed.spec_replicas if is_so else None,
        )

    def _verdict_on(
        self,
        newest: Instruction,
        observed: ObservedTarget | None,
        found: Verdict | None,
        now_s: float,
        trouble: Trouble | None,
    ) -> Verdict | None:
        """None: it is to be carried out."""
        applied = self._last_applied(now_s)
        if found is not None and (applied is None or found.at_s > applied[1]):
            applied = found.decision_id, found.at_s
        if applied is not None and applied[0] != newest.decision_id and newest.at_s <= applied[1]:
            detail = f"its tick {newest.at_s} is not after {applied[1]}, that of the decision applied last"
            return verdict_on(newest, OutcomeResult.SUPERSEDED, f"{detail} ({applied[0][:12]})")
        if newest.mode is not Mode.ACT:
            return verdict_on(newest, OutcomeResult.DRY_RUN, f"the policy's mode is {newest.mode.value}")
        untimely = self._untimely(newest, now_s, trouble)
        if untimely is not None:
            return untimely
        if observed is None:
            return None
        spec = observed.spec_replicas
        if self._limits.dry_run:
            detail = f"would have set {newest.desired} replicas, the target has {spec}"
            return verdict_on(newest, OutcomeResult.DRY_RUN, detail, observed=spec)
        if spec == newest.desired and self._is_fenced(newest, observed):
            return verdict_on(newest, OutcomeResult.APPLIED, f"the target had {spec} already", observed=spec)
        return None

    def _untimely(self, newest: Instruction, now_s: float, trouble: Trouble | None) -> Verdict | None:
        age_s, age_max_s = now_s - newest.at_s, self._limits.age_max_s
        if age_s > age_max_s and trouble is not None:
            return verdict_on(newest, trouble.result, f"given up after {age_s:.0f} s: {trouble.detail}", retryable=True)
        if age_s > age_max_s:
            detail = f"{age_s:.0f} s old, carried out up to {age_max_s:g} s: the worker decides anew"
            return verdict_on(newest, OutcomeResult.SUPERSEDED, detail)
        return None

    def _is_fenced(self, newest: Instruction, observed: ObservedTarget) -> bool:
        """Nobody can hold the target's version together with a decision that wants another count.

        Whoever read this version read it after the decision that the target names was applied, so it would carry out
        one of those after that. Where they all want the same count as the newest, none of them does harm; otherwise
        the count is written once more, which makes the version of such an actuator an old one.
        """
        named = observed.decision_id
        if named is None and self._put_version is not None and self._put_version[1] == observed.resource_version:
            named = self._put_version[0]
        after = list(self._read)
        names = [it.decision_id for it in after]
        if named not in names:
            return False
        between = after[names.index(named) + 1 :]
        return all(it.desired == newest.desired for it in between if it.mode is Mode.ACT)


def _corrected(observed: ObservedTarget, decision_id: str, settled: _Settled) -> Verdict | None:
    """An earlier run told something else of a decision that the target names; what it asked for is not known here."""
    if settled.at_s is None:
        return None
    return Verdict(
        decision_id=decision_id,
        endpoint=observed.endpoint,
        at_s=settled.at_s,
        result=OutcomeResult.APPLIED,
        detail="found applied on the target",
    )
