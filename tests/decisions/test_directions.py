"""One tick of an endpoint that has been watched long enough: what is done, why, and what limited it."""

from typing import Any

import msgspec
import pytest

from records.enums import SupplySource, ValueState
from records.scaling_memory import Recommendation
from records.signals import DownBlocker, SignalValue, StartingReplica, SupplySignal
from tests.decisions.ticks import T0, Reading, decide, policy_of, settled, signal_of

PAIR = {"metrics": [{"name": "inflight_requests"}, {"name": "model_unit_utilization"}]}
TTFT = {"metrics": [{"name": "ttft", "target": 500}]}
PARTIAL = SignalValue(value=8.0, state=ValueState.PARTIAL, coverage=0.5, measured=5)


class Case(msgspec.Struct, kw_only=True):
    """`load` in flight and, for a pair of metrics, model-unit utilisation; `expect`: action, desired, reason, bound."""

    load: Reading
    units: Reading | None = None
    slow_load: Reading | None = None
    spec: int | None = 10
    keys: dict[str, Any] = msgspec.field(default_factory=dict)
    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    memory: dict[str, Any] = msgspec.field(default_factory=dict)
    expect: tuple[str, int, str, str | None]


def supply(ready: int, **counts: Any) -> dict[str, Any]:
    return {"supply": SupplySignal(source=SupplySource.OBSERVED, ready=ready, **counts)}


def ages(*seconds: int) -> tuple[StartingReplica, ...]:
    return tuple(StartingReplica(replica=f"new-{index}", age_s=age) for index, age in enumerate(seconds))


def needed(replicas: int, ago_s: int) -> dict[str, Any]:
    return {"recommendations": (Recommendation(at_s=T0 - ago_s, replicas=replicas),)}


NEVER = {"evidence_from_s": None}

CASES = {
    # up: to the largest proposal, limited by max(current * maxFactor, current + maxStep)
    "up to what is needed": Case(load=120.0, expect=("scale_up", 15, "metric", None)),
    "up by the factor": Case(load=400.0, expect=("scale_up", 20, "metric", "up_limit")),
    "up by the step": Case(load=400.0, spec=2, expect=("scale_up", 6, "metric", "up_limit")),
    "up by an odd factor": Case(
        load=400.0,
        spec=3,
        keys={"scaleUp": {"maxFactor": 2.5, "maxStep": 1}},
        expect=("scale_up", 7, "metric", "up_limit"),
    ),
    "up from zero": Case(load=9.0, spec=0, keys={"minReplicas": 0}, expect=("scale_up", 2, "metric", None)),
    "up on one partial value": Case(
        load=SignalValue(value=96.0, state=ValueState.PARTIAL, coverage=0.4, measured=4),
        expect=("scale_up", 12, "metric", None),
    ),
    "up though another is unknown": Case(
        load=96.0, units="unknown", keys=PAIR, expect=("scale_up", 12, "metric", None)
    ),
    "up on the largest of two": Case(load=40.0, units=0.9, keys=PAIR, expect=("scale_up", 12, "metric", None)),
    "up during a rollout": Case(load=120.0, fields={"rollout": True}, expect=("scale_up", 15, "metric", None)),
    "up without history": Case(load=120.0, memory=NEVER, expect=("scale_up", 15, "metric", None)),
    "up not by the slow window": Case(load=80.0, slow_load=400.0, expect=("hold", 10, "within_target", None)),
    "up capped by the maximum": Case(load=320.0, spec=30, expect=("scale_up", 40, "metric", None)),
    "up beyond the maximum": Case(load=800.0, spec=30, expect=("scale_up", 40, "metric", "maximum")),
    "up at the maximum": Case(load=800.0, spec=40, expect=("hold", 40, "maximum", "maximum")),
    # nothing to change
    "within target": Case(load=80.0, expect=("hold", 10, "within_target", None)),
    "within the tolerance": Case(load=8.0, units=0.8, keys=PAIR, expect=("hold", 10, "within_target", None)),
    "starting": Case(load=80.0, fields=supply(6, starting=4), expect=("hold", 10, "starting", None)),
    "starting too long": Case(
        load=80.0,
        fields=supply(6, starting=4, starting_replicas=ages(400, 400, 10, 10)),
        expect=("hold", 10, "starting", None),
    ),
    "unschedulable": Case(load=80.0, fields=supply(6, unschedulable=4), expect=("hold", 10, "unschedulable", None)),
    "failed": Case(load=80.0, fields=supply(6, failed=4, failed_starts=12), expect=("hold", 10, "failed_starts", None)),
    "failed once": Case(load=80.0, fields=supply(9, failed=1, failed_starts=1), expect=("hold", 10, "starting", None)),
    "no more of what fails": Case(
        load=160.0, fields=supply(3, failed=7, failed_starts=21), expect=("hold", 10, "failed_starts", None)
    ),
    "one that fails among many does not stop growth": Case(
        load=160.0, fields=supply(9, failed=1, failed_starts=3), expect=("scale_up", 20, "metric", None)
    ),
    "unschedulable ones do not stop growth": Case(
        load=96.0, fields=supply(8, unschedulable=2), expect=("scale_up", 12, "metric", None)
    ),
    # down: to the largest of the window, at most the fraction
    "down to what is needed": Case(load=48.0, expect=("scale_down", 6, "metric", None)),
    "down by the fraction": Case(load=8.0, expect=("scale_down", 5, "metric", "max_fraction")),
    "down by one at least": Case(
        load=8.0, spec=3, keys={"scaleDown": {"maxFraction": 0.1}}, expect=("scale_down", 2, "metric", "max_fraction")
    ),
    "down to the window's largest": Case(
        load=8.0, memory=needed(8, 295), expect=("scale_down", 8, "metric", "stabilisation")
    ),
    "down past what was needed before": Case(
        load=48.0, memory=needed(9, 300), expect=("scale_down", 6, "metric", None)
    ),
    "down no farther than the slow window": Case(
        load=8.0, slow_load=56.0, expect=("scale_down", 7, "metric", "stabilisation")
    ),
    "stabilising": Case(load=8.0, memory=needed(10, 100), expect=("hold", 10, "stabilising", "stabilisation")),
    "stabilising never turns up": Case(
        load=8.0, memory=needed(30, 100), expect=("hold", 10, "stabilising", "stabilisation")
    ),
    "down to the slow window past the ticks": Case(
        load=8.0, slow_load=72.0, memory=needed(8, 100), expect=("scale_down", 9, "metric", "stabilisation")
    ),
    "stabilising by the slow window": Case(
        load=8.0, slow_load=400.0, expect=("hold", 10, "stabilising", "stabilisation")
    ),
    "down to the minimum": Case(
        load=0.0, spec=3, keys={"minReplicas": 2}, expect=("scale_down", 2, "metric", "max_fraction")
    ),
    "down stopped by the minimum": Case(
        load=0.0, spec=10, keys={"minReplicas": 7}, expect=("scale_down", 7, "metric", "minimum")
    ),
    "at the minimum": Case(load=0.0, spec=1, expect=("hold", 1, "minimum", "minimum")),
    "never to zero": Case(load=0.0, spec=1, keys={"minReplicas": 0}, expect=("hold", 1, "minimum", "minimum")),
    "at zero": Case(load=0.0, spec=0, keys={"minReplicas": 0}, expect=("hold", 0, "within_target", None)),
    # down needs all
    "down with an unknown value": Case(load=8.0, units="unknown", keys=PAIR, expect=("hold", 10, "unknown", None)),
    "down with a stale value": Case(load=8.0, units="stale", keys=PAIR, expect=("hold", 10, "unknown", None)),
    "down with a suspect value": Case(load=8.0, units="suspect", keys=PAIR, expect=("hold", 10, "suspect", None)),
    "down with a partial value": Case(load=PARTIAL, expect=("hold", 10, "insufficient_evidence", None)),
    "down with a partial slow value": Case(
        load=8.0, slow_load=PARTIAL, expect=("hold", 10, "insufficient_evidence", None)
    ),
    "down with an unknown slow value": Case(load=8.0, slow_load="unknown", expect=("hold", 10, "unknown", None)),
    "down with an undefined one": Case(
        load=8.0, units="undefined", keys=PAIR, expect=("scale_down", 5, "metric", "max_fraction")
    ),
    "down with all undefined": Case(load="undefined", expect=("scale_down", 5, "metric", "max_fraction")),
    "down before a whole window": Case(
        load=8.0, memory={"evidence_from_s": T0 - 290}, expect=("hold", 10, "insufficient_evidence", None)
    ),
    "down after a whole window": Case(
        load=48.0, memory={"evidence_from_s": T0 - 295}, expect=("scale_down", 6, "metric", None)
    ),
    "down in a rollout": Case(load=8.0, fields={"rollout": True}, expect=("hold", 10, "rollout", None)),
    **{
        f"down against {kind}": Case(
            load=8.0,
            fields={"down_blockers": (DownBlocker(kind=kind, replica="chat-3"),)},
            expect=("hold", 10, reason, None),
        )
        for kind, reason in {
            "coverage": "insufficient_evidence",
            "restart": "insufficient_evidence",
            "rebuild": "insufficient_evidence",
            "rollout": "rollout",
            "suspect": "suspect",
        }.items()
    },
    "down with a value measured on nothing": Case(
        load=8.0,
        units=SignalValue(value=0.1, state=ValueState.FRESH, coverage=1.0),
        keys=PAIR,
        expect=("hold", 10, "insufficient_evidence", None),
    ),
    "a suspect source before an unknown value": Case(
        load=8.0,
        units="unknown",
        keys=PAIR,
        fields={"down_blockers": (DownBlocker(kind="suspect", replica="chat-3"),)},
        expect=("hold", 10, "suspect", None),
    ),
    "the most telling blocker": Case(
        load=8.0,
        fields={"down_blockers": (DownBlocker(kind="restart"), DownBlocker(kind="rollout"))},
        expect=("hold", 10, "rollout", None),
    ),
    # no evidence
    "unknown": Case(load="unknown", expect=("hold", 10, "unknown", None)),
    "stale": Case(load="stale", expect=("hold", 10, "unknown", None)),
    "suspect": Case(load="suspect", units="unknown", keys=PAIR, expect=("hold", 10, "suspect", None)),
    "unknown and undefined": Case(load="unknown", units="undefined", keys=PAIR, expect=("hold", 10, "unknown", None)),
    "unknown and undefined at zero": Case(
        load="unknown", units="undefined", spec=0, keys=PAIR | {"minReplicas": 0}, expect=("hold", 0, "unknown", None)
    ),
    "nothing that scales": Case(
        load=8.0, keys={"metrics": [{"name": "cache_hit_rate"}]}, expect=("hold", 10, "unknown", None)
    ),
    # floors and the maximum hold always
    "unknown below the minimum": Case(
        load="unknown", spec=1, keys={"minReplicas": 3}, expect=("scale_up", 3, "minimum", "minimum")
    ),
    "unknown above the maximum": Case(load="unknown", spec=60, expect=("scale_down", 40, "maximum", "maximum")),
    "unknown below what is provisioned": Case(
        load="unknown", keys={"provisionedConcurrency": 100}, expect=("scale_up", 13, "provisioned", "provisioned")
    ),
    "down stopped by what is provisioned": Case(
        load=8.0, keys={"provisionedConcurrency": 56}, expect=("scale_down", 7, "metric", "provisioned")
    ),
    "more provisioned than the maximum": Case(
        load="unknown", keys={"provisionedConcurrency": 9999}, expect=("scale_up", 40, "provisioned", "maximum")
    ),
    "up less than the minimum": Case(
        load=9.0, spec=1, keys={"minReplicas": 6}, expect=("scale_up", 6, "minimum", "minimum")
    ),
    # off
    "bounds are equal": Case(
        load=800.0, keys={"minReplicas": 10, "maxReplicas": 10}, expect=("hold", 10, "autoscaling_off", None)
    ),
    "bounds are equal and elsewhere": Case(
        load=800.0, keys={"minReplicas": 12, "maxReplicas": 12}, expect=("scale_up", 12, "minimum", "minimum")
    ),
    "mode off": Case(load=800.0, keys={"mode": "off"}, expect=("hold", 10, "autoscaling_off", None)),
    "mode off out of bounds": Case(
        load=8.0, spec=60, keys={"mode": "off"}, expect=("hold", 60, "autoscaling_off", None)
    ),
    "advise decides": Case(load=120.0, keys={"mode": "advise"}, expect=("scale_up", 15, "metric", None)),
    # cycles: T0 is a multiple of 60, not of 35
    "up at a cycle": Case(load=120.0, keys={"scaleUp": {"everySeconds": 60}}, expect=("scale_up", 15, "metric", None)),
    "up between cycles": Case(
        load=120.0,
        keys={"scaleUp": {"everySeconds": 35, "windowSeconds": 60}},
        expect=("hold", 10, "stabilising", "stabilisation"),
    ),
    "down between cycles": Case(
        load=8.0, keys={"scaleDown": {"everySeconds": 35}}, expect=("hold", 10, "stabilising", "stabilisation")
    ),
    "floors between cycles": Case(
        load=120.0,
        spec=1,
        keys={"scaleUp": {"everySeconds": 35}, "minReplicas": 2},
        expect=("scale_up", 2, "minimum", "minimum"),
    ),
    # before the first TargetObserved
    "ready replicas stand for the target": Case(
        load=48.0, spec=None, fields=supply(10), expect=("scale_down", 6, "metric", None)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_tick(case: Case) -> None:
    policy = policy_of(**case.keys)
    readings = {"inflight_requests": case.load}
    if case.units is not None:
        readings["model_unit_utilization"] = case.units
    slow = None if case.slow_load is None else {"inflight_requests": case.slow_load}
    signal = signal_of(policy, readings, spec=case.spec, slow=slow, **case.fields)
    memory = msgspec.structs.replace(settled(), **case.memory)
    decision, _ = decide(policy, signal, memory)
    assert (decision.action, decision.desired, decision.reason, decision.bound) == case.expect
    assert decision.current == (case.spec if case.spec is not None else 10)
    assert decision.detail
