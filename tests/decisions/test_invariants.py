"""What holds at every tick of every endpoint, whatever the telemetry says. Numbered, each with a property."""

import math
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from decisions.chain import canonical_json, decision_id
from decisions.metrics import METRICS
from records.decisions import ScalingDecision
from records.enums import ScalingAction, ScalingReason, ValueState
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal, SignalValue
from tests.decisions.stories import Told, can_propose, policies, scaled, signals, stories
from tests.decisions.ticks import Endpoint, decide, policy_of, settled, signal_of

Story = tuple[EndpointPolicy, list[Told]]
often = settings(max_examples=60, deadline=None)
FLOORS = (ScalingReason.MINIMUM, ScalingReason.MAXIMUM, ScalingReason.PROVISIONED)


@often
@given(stories())
def test_1_the_bounds_hold_always(story: Story) -> None:
    policy, told = story
    for it in told:
        least = min(max(policy.min_replicas, it.decision.floors.provisioned or 0), policy.max_replicas)
        assert least <= it.decision.desired <= policy.max_replicas


@often
@given(stories())
def test_2_a_hold_and_only_a_hold_keeps_what_is(story: Story) -> None:
    for it in story[1]:
        current, desired = it.decision.current, it.decision.desired
        expected = ScalingAction.HOLD
        if desired != current:
            expected = ScalingAction.SCALE_UP if desired > current else ScalingAction.SCALE_DOWN
        assert it.decision.action is expected


@often
@given(stories(length=4))
def test_3_down_needs_every_value_and_no_blocker(story: Story) -> None:
    for it in story[1]:
        decision, signal = it.decision, it.signal
        if decision.action is not ScalingAction.SCALE_DOWN or decision.reason in FLOORS:
            continue
        assert all(one.state in (ValueState.FRESH, ValueState.UNDEFINED) for one in decision.candidates)
        assert not signal.rollout
        assert not signal.down_blockers
        assert it.after.evidence_from_s is not None
        assert it.after.evidence_from_s <= signal.at_s - 295
        assert decision.current == (it.before.spec_seen if it.before.spec_seen is not None else decision.current)


@st.composite
def comparable_ticks(draw: st.DrawFn) -> tuple[EndpointPolicy, EndpointSignal, ScalingMemory]:
    """A tick whose values are all usable and measured on as many replicas as are asked for."""
    policy = draw(policies())
    assume(can_propose(policy))
    current = draw(st.integers(1, 40))
    signal = draw(signals(policy, current))
    windows = {
        window: {
            key: SignalValue(value=draw(st.floats(0, 1e6)), state=ValueState.FRESH, coverage=1.0, measured=current)
            for key in readings
        }
        for window, readings in signal.windows.items()
    }
    memory = draw(st.sampled_from([settled(), ScalingMemory()]))
    return policy, msgspec.structs.replace(signal, windows=windows, unheard=()), memory


@often
@given(comparable_ticks(), st.floats(1, 100))
def test_4_more_load_never_asks_for_less(
    tick: tuple[EndpointPolicy, EndpointSignal, ScalingMemory], more: float
) -> None:
    policy, signal, memory = tick
    less, _ = decide(policy, signal, memory)
    greater, _ = decide(policy, scaled(policy, signal, more), memory)
    assert greater.desired >= less.desired


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 5000), st.sampled_from([0, 1, 3]), st.sampled_from(["inflight_requests", "gpu_utilization", "ttft"])
)
def test_5_no_load_leads_to_the_minimum_in_bounded_time(replicas: int, least: int, metric: str) -> None:
    """300 s of evidence, then a halving each tick: 60 + ceil(log2(replicas)) + 1 ticks."""
    policy = policy_of(minReplicas=least, maxReplicas=5000, metrics=[{"name": metric}])
    endpoint = Endpoint(policy, replicas)
    nothing: float | str = "undefined" if metric == "ttft" else 0.0
    endpoint.run(61 + math.ceil(math.log2(replicas)), lambda tick, replicas: {metric: nothing})
    assert endpoint.replicas == min(replicas, max(1, least)) or endpoint.replicas == max(1, least)


@often
@given(stories())
def test_6_stabilisation_never_turns_the_direction(story: Story) -> None:
    policy, told = story
    for it in told:
        asked = [
            one.proposed
            for one in it.decision.candidates
            if one.window_s == policy.scale_up.window_seconds and one.proposed is not None
        ]
        if it.decision.reason is not ScalingReason.METRIC or not asked:
            continue
        if it.decision.action is ScalingAction.SCALE_UP:
            assert it.decision.desired <= max(asked)
        else:
            assert it.decision.desired >= max(asked)
            assert max(asked) < it.decision.current


@often
@given(stories())
def test_7_equal_inputs_give_equal_bytes(story: Story) -> None:
    policy, told = story
    for it in told:
        decision, after = decide(deepcopy(policy), deepcopy(it.signal), deepcopy(it.before))
        assert canonical_json(decision) == canonical_json(it.decision)
        assert msgspec.json.encode(after) == msgspec.json.encode(it.after)


def test_7_another_process_with_another_hash_seed_gives_the_same_id() -> None:
    program = (
        "from tests.decisions.ticks import *; policy = policy_of(metrics=[{'name': 'ttft'}, {'name': 'queue_depth'}]); "
        "print(decide(policy, signal_of(policy, {'ttft': 900.0, 'queue_depth': 7.0}))[0].decision_id)"
    )
    ids = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(ids) == 1


@often
@given(stories())
def test_8_every_number_is_finite_and_in_its_range(story: Story) -> None:
    for it in story[1]:
        for record in (it.decision, it.after):
            kind = type(record)
            assert msgspec.json.decode(msgspec.json.encode(record), type=kind) == record
        assert it.decision.decision_id == decision_id(it.decision)
        assert it.decision.previous_id == it.before.previous_id
        for one in it.decision.candidates:
            assert all(
                math.isfinite(number) for number in (one.observed, one.target, one.coverage) if number is not None
            )


@often
@given(stories())
def test_9_zero_and_unknown_differ(story: Story) -> None:
    policy, told = story
    signal, memory = told[0].signal, told[0].before
    zero = SignalValue(value=0.0, state=ValueState.FRESH, coverage=1.0, measured=max(1, signal.supply.ready))
    unknown = SignalValue(value=None, state=ValueState.UNKNOWN, coverage=0.0)
    known, _ = decide(policy, _with_all(signal, zero), memory)
    blind, _ = decide(policy, _with_all(signal, unknown), memory)
    assert [it.observed for it in known.candidates] == [0.0] * len(known.candidates)
    assert [it.observed for it in blind.candidates] == [None] * len(blind.candidates)
    assert known.decision_id != blind.decision_id
    if blind.reason not in FLOORS and policy.min_replicas < policy.max_replicas:
        assert blind.action is ScalingAction.HOLD
        assert blind.reason in (ScalingReason.UNKNOWN, ScalingReason.TARGET_CHANGED)
        if any(METRICS[it.name].scales for it in policy.metrics):
            assert known.reason is not ScalingReason.UNKNOWN


def _with_all(signal: EndpointSignal, value: SignalValue) -> EndpointSignal:
    windows = {window: dict.fromkeys(readings, value) for window, readings in signal.windows.items()}
    return msgspec.structs.replace(signal, windows=windows)


@often
@given(stories())
def test_10_one_cycle_goes_no_farther_than_the_policy_lets(story: Story) -> None:
    policy, told = story
    for it in told:
        decision, current = it.decision, it.decision.current
        if decision.reason is not ScalingReason.METRIC:
            continue
        most = max(math.floor(current * policy.scale_up.max_factor), current + policy.scale_up.max_step)
        least = current - max(1, math.floor(current * policy.scale_down.max_fraction))
        assert least <= decision.desired <= most


@often
@given(stories())
def test_11_one_candidate_for_each_metric_and_window_and_one_reason(story: Story) -> None:
    policy, told = story
    for it in told:
        named = [(one.metric, one.window_s) for one in it.decision.candidates]
        assert named == [(metric.name, window) for window in (20, 300) for metric in policy.metrics]
        assert sum(one.rejected_because is None for one in it.decision.candidates) <= 1
        for one in it.decision.candidates:
            usable = one.state in (ValueState.FRESH, ValueState.PARTIAL)
            assert usable or (one.observed is None and one.proposed is None)
            assert one.rejected_because is None or one.rejected_because


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=100, max_size=200))
def test_12_the_queue_of_maxima_gives_the_largest_of_the_window(loads: list[int]) -> None:
    """Against the plain definition: the largest recommendation of (T-300, T]."""
    policy = policy_of(maxReplicas=1000, scaleUp={"maxFactor": 1000})
    endpoint = Endpoint(policy, replicas=50)
    asked: list[int] = []
    for load in loads:
        decision = endpoint.tick({"inflight_requests": float(load * 8)})
        asked.append(load)
        kept = endpoint.memory.recommendations
        assert kept[0].replicas == max(asked[-60:])
        assert [it.replicas for it in kept] == sorted({it.replicas for it in kept}, reverse=True)
        assert decision.desired >= max(1, min(asked[-60:]))


def test_13_the_decision_type_has_no_field_without_meaning_here() -> None:
    """A new field of the record must be filled by the decision, or named here as a later step's."""
    policy = policy_of()
    decision, _ = decide(policy, signal_of(policy, {"inflight_requests": 8.0}))
    empty = {name for name in ScalingDecision.__struct_fields__ if getattr(decision, name) in (None, ())}
    assert empty <= {"previous_id", "bound", "gpus", "victims", "drain_deadline_s", "roles", "skipped"}
