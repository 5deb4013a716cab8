"""What a decision says of itself: each candidate's fate, and one line for people."""

from decisions.applied import Stock
from decisions.proposals import Reading
from decisions.steps import Step
from decisions.supply import GIVEN_UP_STARTS
from records.decisions import Candidate
from records.enums import OutcomeResult, ScalingAction
from records.signals import EndpointSignal

NAMES_SHOWN = 5


def describe_candidates(readings: tuple[Reading, ...], step: Step) -> tuple[Candidate, ...]:
    """Turn every reading into a candidate; the one that the step follows is not rejected."""
    return tuple(
        Candidate(
            metric=reading.term.name,
            percentile=reading.term.percentile,
            window_s=reading.window_s,
            observed=reading.observed,
            state=reading.state,
            coverage=reading.coverage,
            target=reading.term.target,
            proposed=reading.proposed,
            rejected_because=None if reading is step.decided else reading.obstacle or _rejection(reading, step),
        )
        for reading in readings
    )


def describe(signal: EndpointSignal, stock: Stock, step: Step, action: ScalingAction) -> str:
    """Tell people what was done and why, and what else they should know of the fleet."""
    if action is ScalingAction.HOLD:
        words = f"hold at {stock.current}: {step.because}"
    else:
        way = "up" if action is ScalingAction.SCALE_UP else "down"
        words = f"{way} from {stock.current} to {step.desired}: {step.because}"
    if action is not ScalingAction.HOLD and step.bound is not None:
        words += f"; limited by {step.bound.value}"
    return "; ".join((*_before(stock), words, *_after(signal, stock)))


def _before(stock: Stock) -> tuple[str, ...]:
    if stock.changed_from is None:
        return ()
    return (f"someone else changed the target from {stock.changed_from} to {stock.current}",)


def _after(signal: EndpointSignal, stock: Stock) -> list[str]:
    supply = signal.supply
    notes = []
    if not stock.is_observed:
        notes.append("the target was never observed, current is the ready replicas")
    if supply.unschedulable:
        notes.append(f"{supply.unschedulable} cannot be scheduled")
    if supply.failed_starts >= GIVEN_UP_STARTS:
        notes.append(f"{supply.failed_starts} failed starts without a ready")
    if signal.unheard:
        more = f" and {len(signal.unheard) - NAMES_SHOWN} more" if len(signal.unheard) > NAMES_SHOWN else ""
        notes.append(f"counted at their target, unheard: {', '.join(signal.unheard[:NAMES_SHOWN])}{more}")
    if _came_back(signal, stock) and signal.outcome is not None:
        notes.append(f"the last decision came back as {signal.outcome.result.value}")
    return notes


def _came_back(signal: EndpointSignal, stock: Stock) -> bool:
    """Tell whether an actuator answered the last decision, and did not carry it out."""
    outcome, pending = signal.outcome, stock.pending
    if outcome is None or pending is None or pending.applied or outcome.result is OutcomeResult.APPLIED:
        return False
    return stock.names(outcome.decision_id)


def _rejection(reading: Reading, step: Step) -> str:
    decided = step.decided
    if decided is None:
        return f"{step.reason.value} decided"
    if reading.window_s != decided.window_s:
        return f"the window of {decided.window_s} s decided"
    if reading.proposed is not None and decided.proposed is not None and reading.proposed == decided.proposed:
        return f"{decided.key} asks for as many"
    return f"{decided.key} asks for more"
