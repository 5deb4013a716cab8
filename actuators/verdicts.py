"""What becomes of a decision, before it is an Outcome on the wire; and what is to be done for one."""

from dataclasses import dataclass

from actuators.instructions import Instruction
from records.enums import OutcomeResult
from records.outcomes import Outcome


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of one decision; the fields are those of an Outcome. `at_s` is the decision's tick."""

    decision_id: str
    endpoint: str
    at_s: int
    result: OutcomeResult
    retryable: bool = False
    detail: str = ""
    observed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why a decision is not carried out yet. `result` is what its outcome will be if nothing better comes."""

    result: OutcomeResult
    detail: str


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """`told` are final, in the order in which they are to be written. `put` is to be carried out, after that."""

    told: tuple[Verdict, ...] = ()
    put: Instruction | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`age_max_s`: a decision is carried out until it is this old, in event seconds; then the worker decides anew.

    `dry_run`: nothing is changed.
    """

    age_max_s: float = 60.0
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not self.age_max_s > 0:
            raise ValueError(f"age_max_s: {self.age_max_s}, allowed above 0")


def verdict_on(
    instruction: Instruction,
    result: OutcomeResult,
    detail: str,
    *,
    observed: int | None = None,
    retryable: bool = False,
) -> Verdict:
    return Verdict(
        decision_id=instruction.decision_id,
        endpoint=instruction.endpoint,
        at_s=instruction.at_s,
        result=result,
        retryable=retryable,
        detail=detail,
        observed=observed,
    )


def superseded(instruction: Instruction, by: Instruction) -> Verdict:
    """A newer decision took its place."""
    detail = f"decision {by.short_id} of {by.at_s} took its place"
    return verdict_on(instruction, OutcomeResult.SUPERSEDED, detail)


def outcome_of(verdict: Verdict, topic: str, actuator: str, at_s: int) -> Outcome:
    """The record on the wire, of a decision on this topic; `at_s` is now."""
    return Outcome(
        decision_id=verdict.decision_id,
        decision_topic=topic,
        endpoint=verdict.endpoint,
        actuator=actuator,
        at_s=at_s,
        result=verdict.result,
        retryable=verdict.retryable,
        detail=verdict.detail,
        observed=verdict.observed,
        decision_at_s=verdict.at_s,
    )
