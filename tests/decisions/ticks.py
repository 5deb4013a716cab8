"""Signals and policies as the decision tests write them, and an endpoint that carries out what is decided."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from decisions.chain import policy_hash
from decisions.metrics import metric_key
from decisions.scaling import decide_scaling
from records.decisions import ScalingDecision
from records.enums import SupplySource, ValueState
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal, SignalValue, SupplySignal

T0 = 1_700_000_100
"""A tick, and a multiple of 300 s."""

Reading = float | str | SignalValue
"""A fresh value, the name of a state without one, or the value as it is."""


def policy_of(**keys: Any) -> EndpointPolicy:
    """Make a policy as its document would: in-flight requests at 8 a replica, 1 to 40 replicas."""
    document = {"endpoint": "chat", "minReplicas": 1, "maxReplicas": 40, "metrics": [{"name": "inflight_requests"}]}
    return msgspec.convert(document | keys, EndpointPolicy)


def value_of(reading: Reading, measured: int) -> SignalValue:
    if isinstance(reading, SignalValue):
        return reading
    if isinstance(reading, str):
        return SignalValue(value=None, state=ValueState(reading), coverage=1.0 if reading == "undefined" else 0.0)
    return SignalValue(value=reading, state=ValueState.FRESH, coverage=1.0, measured=measured)


def signal_of(
    policy: EndpointPolicy,
    readings: Mapping[str, Reading],
    *,
    spec: int | None = 4,
    slow: Mapping[str, Reading] | None = None,
    at_s: int = T0,
    **fields: Any,
) -> EndpointSignal:
    """One tick. `slow` are the readings of the down window where they differ; `fields` go to the signal as they are."""
    supply = fields.pop("supply", None) or SupplySignal(source=SupplySource.OBSERVED, ready=spec or 0)
    windows = {
        str(policy.scale_down.window_seconds): {**readings, **(slow or {})},
        str(policy.scale_up.window_seconds): readings,
    }
    return EndpointSignal(
        endpoint=policy.endpoint,
        at_s=at_s,
        processed_s=at_s + 3.0,
        offsets={},
        supply=supply,
        windows={
            window: {key: value_of(reading, supply.ready) for key, reading in values.items()}
            for window, values in windows.items()
        },
        spec_replicas=spec,
        **fields,
    )


def decide(
    policy: EndpointPolicy, signal: EndpointSignal, memory: ScalingMemory | None = None
) -> tuple[ScalingDecision, ScalingMemory]:
    return decide_scaling(policy, policy_hash(policy), signal, memory or ScalingMemory())


def settled(at_s: int = T0, **fields: Any) -> ScalingMemory:
    """The memory of an endpoint that has been watched for a day without a gap, and needed nothing within 300 s."""
    return ScalingMemory(evidence_from_s=at_s - 86_400, **fields)


class Endpoint:
    """An endpoint whose actuator sets the spec at once, and whose replicas are ready at once.

    `load` turns the tick and the replicas into readings of both windows.
    """

    def __init__(self, policy: EndpointPolicy, replicas: int, memory: ScalingMemory | None = None) -> None:
        self.policy = policy
        self.replicas = replicas
        self.memory = memory or ScalingMemory()
        self.at_s = T0
        self.decisions: list[ScalingDecision] = []

    def tick(self, readings: Mapping[str, Reading], *, apply: bool = True, **fields: Any) -> ScalingDecision:
        signal = signal_of(self.policy, readings, spec=self.replicas, at_s=self.at_s, **fields)
        decision, self.memory = decide(self.policy, signal, self.memory)
        self.decisions.append(decision)
        self.at_s += 5
        if apply:
            self.replicas = decision.desired
        return decision

    def run(self, ticks: int, readings: Callable[[int, int], Mapping[str, Reading]]) -> list[int]:
        """Run so many ticks with `readings(tick, replicas)`; give the replicas after each."""
        return [self.tick(readings(tick, self.replicas)).desired for tick in range(ticks)]


def keys_of(policy: EndpointPolicy) -> list[str]:
    return [metric_key(metric) for metric in policy.metrics]


def what(decision: ScalingDecision) -> tuple[str, int, str]:
    return decision.action, decision.desired, decision.reason


def in_flight(value: Reading) -> dict[str, Reading]:
    return {"inflight_requests": value}
