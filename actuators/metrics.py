"""What an actuator counts; exposed by whoever owns the process."""

from collections.abc import Iterable

from opentelemetry.metrics import get_meter

from records.enums import OutcomeResult
from wire import zero_counts

_meter = get_meter("headrace.actuators")

outcomes = _meter.create_counter("headrace_actuator_outcomes", description="Outcomes written, by result")
calls = _meter.create_counter("headrace_actuator_calls", description="Calls to scale targets, by call and result")
conflicts = _meter.create_counter(
    "headrace_actuator_conflicts", description="Compare-and-sets refused since the target had changed"
)
retries = _meter.create_counter("headrace_actuator_retries", description="Attempts to carry out a decision once more")
decision_to_applied = _meter.create_histogram(
    "headrace_actuator_decision_to_applied",
    unit="s",
    description="From a decision's tick to its change of the target, event seconds",
    explicit_bucket_boundaries_advisory=(1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0),
)
read_to_applied = _meter.create_histogram(
    "headrace_actuator_read_to_applied",
    unit="s",
    description="From reading a decision to its change of the target, real seconds",
    explicit_bucket_boundaries_advisory=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0),
)
undecodable = _meter.create_counter(
    "headrace_actuator_undecodable", description="Messages that are no record, by topic; the sink keeps them"
)
misplaced = _meter.create_counter(
    "headrace_actuator_misplaced", description="Decisions in another partition than their endpoint's, left out"
)
broken_chains = _meter.create_counter(
    "headrace_actuator_broken_chains", description="Decisions that do not follow the one before"
)
open_decisions = _meter.create_gauge(
    "headrace_actuator_open_decisions", description="Decisions read that have no outcome yet"
)


def begin_at_zero(topics: Iterable[str]) -> None:
    """All counters but those of calls, which a port has; `topics` are those read."""
    for counter in (conflicts, retries, misplaced, broken_chains):
        zero_counts.begin_at_zero(counter)
    zero_counts.begin_at_zero(outcomes, result=OutcomeResult)
    zero_counts.begin_at_zero(undecodable, topic=topics)
