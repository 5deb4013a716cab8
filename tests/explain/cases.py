"""Cases as tests want them: made from signals by the decisions' own code, and explained in UTC."""

from collections.abc import Mapping
from datetime import UTC
from typing import Any

import msgspec

from headrace.explain.case import Case
from headrace.explain.explanation import as_object, explain
from records.enums import OutcomeResult
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal
from tests.decisions.test_directions import CASES
from tests.decisions.test_directions import Case as Tick
from tests.decisions.ticks import decide, policy_of, settled, signal_of
from tests.explain.checker.check import Disagreement, Records, check_lines


def case_of(policy: EndpointPolicy, signal: EndpointSignal, memory: ScalingMemory, **fields: Any) -> Case:
    decision, _ = decide(policy, signal, memory)
    return Case(**({"decision": decision, "signal": signal, "policy": policy, "memory": memory} | fields))


def tick_case(tick: Tick, **fields: Any) -> Case:
    """One of the decision tests' ticks."""
    policy = policy_of(**tick.keys)
    readings = {"inflight_requests": tick.load}
    if tick.units is not None:
        readings["model_unit_utilization"] = tick.units
    slow = None if tick.slow_load is None else {"inflight_requests": tick.slow_load}
    signal = signal_of(policy, readings, spec=tick.spec, slow=slow, **tick.fields)
    return case_of(policy, signal, msgspec.structs.replace(settled(), **tick.memory), **fields)


def named(name: str, **fields: Any) -> Case:
    return tick_case(CASES[name], **fields)


def outcome_of(case: Case, result: OutcomeResult = OutcomeResult.APPLIED, **fields: Any) -> Outcome:
    """What an actuator says of the case's decision, three seconds later."""
    values: dict[str, Any] = {
        "decision_id": case.decision.decision_id,
        "decision_topic": "decisions.scaling",
        "endpoint": case.decision.endpoint,
        "actuator": "fleet-1",
        "at_s": case.decision.at_s + 3,
        "result": result,
    }
    return Outcome(**(values | fields))


def told(case: Case) -> dict[str, Any]:
    """The object of `--json`, as plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(as_object(explain(case, UTC), {}))
    return plain


def texts(case: Case) -> list[str]:
    return [sentence.text for sentence in explain(case, UTC).sentences]


def records_of(told_object: Mapping[str, Any]) -> Records:
    names = ("decision", "signal", "policy", "outcomes", "shown_s", "last", "counterfactuals", "earliest_down_s")
    return Records(**{name: told_object[name] for name in names}, zone=UTC)


def disagreements(case: Case, lines: list[str] | None = None) -> list[Disagreement]:
    """What the checker finds in the case's sentences, or in others about the same records."""
    return check_lines(texts(case) if lines is None else lines, records_of(told(case)))
