"""What a decision's candidates asked for, as its record has it."""

from decisions.metrics import METRICS
from records.decisions import Candidate, ScalingDecision
from records.enums import ValueState


def up_window_s(decision: ScalingDecision) -> int | None:
    """The length of the window that goes up: candidates begin with it. Null where there is no candidate."""
    return decision.candidates[0].window_s if decision.candidates else None


def up_candidates(decision: ScalingDecision) -> tuple[Candidate, ...]:
    """Those of the window that goes up."""
    window_s = up_window_s(decision)
    return tuple(candidate for candidate in decision.candidates if candidate.window_s == window_s)


def largest(candidates: tuple[Candidate, ...]) -> Candidate | None:
    """The first of those that propose most; null where none proposes anything."""
    best: Candidate | None = None
    for candidate in candidates:
        if candidate.proposed is not None and (best is None or candidate.proposed > (best.proposed or 0)):
            best = candidate
    return best


def decided_by(decision: ScalingDecision) -> Candidate | None:
    """The candidate that the decision follows, null where none does."""
    return next((it for it in decision.candidates if it.rejected_because is None and it.proposed is not None), None)


def has_no_load(decision: ScalingDecision) -> bool:
    """Tell whether every metric that scales is undefined over the up window: a known zero load."""
    states = [it.state for it in up_candidates(decision) if METRICS[it.metric].scales]
    return bool(states) and all(state is ValueState.UNDEFINED for state in states)
