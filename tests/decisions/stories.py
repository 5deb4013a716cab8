"""Random policies, and random ticks of one endpoint, for what must always hold."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from decisions.metrics import METRICS, metric_key, target_of
from records.decisions import ScalingDecision
from records.enums import MetricName, OutcomeResult, SupplySource, ValueState
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import (
    DownBlocker,
    DrainCandidate,
    EndpointSignal,
    ObservedOutcome,
    SignalValue,
    StartingReplica,
    SupplySignal,
)
from tests.decisions.ticks import T0, decide, policy_of, settled

USABLE = (ValueState.FRESH, ValueState.PARTIAL)


class Told(msgspec.Struct, kw_only=True):
    """One tick of a story: what went in, what came out."""

    signal: EndpointSignal
    before: ScalingMemory
    decision: ScalingDecision
    after: ScalingMemory


@st.composite
def policies(draw: st.DrawFn) -> EndpointPolicy:
    names = draw(st.lists(st.sampled_from([it.value for it in MetricName]), min_size=1, max_size=3, unique=True))
    least = draw(st.integers(0, 12))
    keys: dict[str, Any] = {
        "metrics": [{"name": name, "target": draw(st.sampled_from([0.001, 0.5, 1, 8, 500]))} for name in names],
        "minReplicas": least,
        "maxReplicas": least + draw(st.integers(0, 60)),
        "mode": draw(st.sampled_from(["act", "advise"])),
        "provisionedConcurrency": draw(st.sampled_from([0, 0, 0, 0, 50, 2**32 - 2])),
        "concurrency": {"target": draw(st.sampled_from([8.0, 8.0, 0.1, 5e-324]))},
        "scaleUp": {
            "everySeconds": draw(st.sampled_from([5, 15])),
            "maxFactor": draw(st.sampled_from([1.0, 1.7, 2.0, 1000.0])),
            "maxStep": draw(st.integers(1, 6)),
        },
        "scaleDown": {
            "everySeconds": draw(st.sampled_from([5, 15])),
            "maxFraction": draw(st.sampled_from([0.01, 0.5, 1.0])),
        },
        "respectManualSeconds": draw(st.sampled_from([0, 30])),
        "model": {"hardware": draw(st.sampled_from([None, "H100x4"]))},
    }
    return policy_of(**keys)


def fresh_values(numbers: st.SearchStrategy[float], measured: st.SearchStrategy[int]) -> st.SearchStrategy[SignalValue]:
    return st.builds(
        SignalValue, value=numbers, state=st.just(ValueState.FRESH), coverage=st.just(1.0), measured=measured
    )


def any_values() -> st.SearchStrategy[SignalValue]:
    """Values of every state, from nothing to what overflows, and some that no signal should hold."""
    numbers = st.sampled_from([0.0, 1e-300, 1e15, 1e300]) | st.floats(0, 2000) | st.floats(0, 2)
    measured = st.integers(0, 40)
    rest = [it for it in ValueState if it not in USABLE]
    return st.one_of(
        fresh_values(numbers, measured),
        st.builds(
            SignalValue,
            value=numbers | st.sampled_from([float("nan"), float("inf"), -1.0]),
            state=st.sampled_from(USABLE),
            coverage=st.floats(0, 1),
            measured=measured,
        ),
        st.builds(SignalValue, value=st.none(), state=st.sampled_from(rest), coverage=st.sampled_from([0.0, 0.5, 1.0])),
    )


def quiet_values() -> st.SearchStrategy[SignalValue]:
    """Fresh values of little load, so that a fleet may come down."""
    return fresh_values(st.sampled_from([0.0, 0.0, 0.3]) | st.floats(0, 60), st.integers(1, 20))


@st.composite
def signals(draw: st.DrawFn, policy: EndpointPolicy, spec: int | None, at_s: int = T0) -> EndpointSignal:
    plain = draw(st.booleans())
    names = [metric_key(metric) for metric in policy.metrics]
    windows = {
        str(window): {name: draw(quiet_values() if plain else any_values()) for name in names}
        for window in (policy.scale_up.window_seconds, policy.scale_down.window_seconds)
    }
    counts = st.just(0) | st.integers(0, 20)
    ages = draw(st.lists(st.integers(0, 600), max_size=0 if plain else 3))
    supply = SupplySignal(
        source=SupplySource.OBSERVED,
        ready=draw(st.integers(0, 40)),
        starting=len(ages),
        starting_replicas=tuple(StartingReplica(replica=f"s{i}", age_s=age) for i, age in enumerate(ages)),
        draining=draw(counts),
        unschedulable=0 if plain else draw(counts),
        failed=0 if plain else draw(counts),
        failed_starts=0 if plain else draw(counts),
    )
    kinds = st.lists(st.sampled_from(["coverage", "restart", "rebuild", "suspect", "rollout"]), max_size=2)
    blockers = [] if plain else draw(kinds)
    order = st.lists(st.none() | st.floats(0, 1e15), max_size=5)
    return EndpointSignal(
        endpoint=policy.endpoint,
        at_s=at_s,
        processed_s=at_s + 3.0,
        offsets={},
        supply=supply,
        windows=windows,
        spec_replicas=spec,
        rollout=not plain and draw(st.booleans()),
        down_blockers=tuple(DownBlocker(kind=kind) for kind in blockers),
        unheard=() if plain else tuple(draw(st.lists(st.sampled_from(["a", "b"]), unique=True))),
        drain_order=tuple(DrainCandidate(replica=f"r{i}", inflight=it) for i, it in enumerate(draw(order))),
        drain_p99_ms=draw(st.none() | st.floats(0, 1e15)),
    )


@st.composite
def stories(draw: st.DrawFn, length: int = 6) -> tuple[EndpointPolicy, list[Told]]:
    """A policy and a few ticks; the target follows the decisions, stays, or is moved by someone else."""
    policy = draw(policies())
    memory = settled() if draw(st.booleans()) else ScalingMemory()
    spec = draw(st.none() | st.integers(0, 60))
    told: list[Told] = []
    for index in range(draw(st.integers(1, length))):
        signal = draw(signals(policy, spec, T0 + 5 * index))
        if told and draw(st.sampled_from([True, False])):
            result = draw(st.sampled_from(OutcomeResult))
            outcome = ObservedOutcome(decision_id=told[-1].decision.decision_id, result=result, at_s=signal.at_s - 1)
            signal = msgspec.structs.replace(signal, outcome=outcome)
        decision, after = decide(policy, signal, memory)
        told.append(Told(signal=signal, before=memory, decision=decision, after=after))
        memory = after
        spec = draw(st.sampled_from([spec, decision.desired, decision.desired, 7]))
    return policy, told


def scaled(policy: EndpointPolicy, signal: EndpointSignal, factor: float) -> EndpointSignal:
    """The same tick with `factor` times the load on every value, each measured on all replicas."""
    windows = {
        window: {
            key: msgspec.structs.replace(value, value=None if value.value is None else value.value * factor)
            for key, value in readings.items()
        }
        for window, readings in signal.windows.items()
    }
    return msgspec.structs.replace(signal, windows=windows)


def can_propose(policy: EndpointPolicy) -> bool:
    return all(METRICS[it.name].scales and target_of(policy, it) is not None for it in policy.metrics)
