"""Step 0 and the steps up with a target that is slow to follow, and news of it in every order (decisions.md)."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decisions.applied import REPEAT_S
from decisions.limits import most_after_up
from records.decisions import ScalingDecision
from records.enums import OutcomeResult, ScalingAction, ScalingReason
from records.signals import EndpointSignal
from tests.decisions.target_model import NOT_APPLIED, TICK_S, Delays, Loop, Tick, untold, within
from tests.decisions.ticks import T0, decide, policy_of, settled

PER_REPLICA = 8.0
"""The policies' target of in-flight requests."""
UP_WINDOW_S = 20
NEEDED = 57


def burst(replicas: int, begins_s: int) -> Callable[[int], float]:
    """What the up window's mean shows of a load for so many replicas, which is a hundredfold from `begins_s` on."""
    return lambda at_s: replicas * PER_REPLICA * (1 + 99 * min(1.0, max(0, at_s - begins_s) / UP_WINDOW_S))


@settings(deadline=None)
@given(replicas=st.integers(1, 60), begins_s=st.integers(T0 - TICK_S + 1, T0), seed=st.integers(0, 2**32))
def test_a_hundredfold_load_is_followed_within_a_minute_if_the_target_follows_within_five_seconds(
    replicas: int, begins_s: int, seed: int
) -> None:
    """10 20 40 80 160 320 640 1000: what a tick decided is carried out and observed before the next tick is made."""
    rng, need = random.Random(seed), replicas * 100
    delays = Delays(act=within(rng, TICK_S - 0.5), observe=within(rng, 0.5), tell=within(rng, 3.0 * TICK_S))
    loop = Loop(policy=policy_of(maxReplicas=2 * need), spec=replicas, delays=delays, load=burst(replicas, begins_s))
    made = loop.run(60 // TICK_S)
    reached_s = next(decision.at_s for decision in made if decision.desired >= need)
    assert reached_s - begins_s <= 60
    assert made[-1].current == need


@pytest.mark.parametrize(("ticks_late", "reached_s"), [(1, 35), (2, 65), (3, 95)])
def test_each_step_waits_for_the_one_before_to_be_observed(ticks_late: int, reached_s: int) -> None:
    """10 10 20 20 40 40 ...: an actuator that takes longer than a tick costs so many ticks a step, and no more."""
    delays = Delays(act=lambda: TICK_S * ticks_late - 0.1, observe=lambda: 0.1, tell=lambda: 60.0)
    loop = Loop(policy=policy_of(maxReplicas=2000), spec=10, delays=delays, load=burst(10, T0))
    made = loop.run(30)
    assert next(decision.at_s for decision in made if decision.desired == 1000) - T0 == reached_s


def random_loop(seed: int) -> Loop:
    """A load that jumps up and falls, an actuator that may take three ticks, and news that comes in any order."""
    rng = random.Random(seed)
    levels = [rng.randint(1, 300) for _ in range(20)]
    failing = rng.choice((0.0, 0.3, 0.7))
    return Loop(
        policy=policy_of(
            maxReplicas=400,
            scaleUp={"everySeconds": 5 if seed % 2 else 15},
            scaleDown={"windowSeconds": 60, "everySeconds": 5 if seed % 3 else 15},
        ),
        spec=rng.randint(1, 40),
        delays=Delays(
            act=within(rng, 3.0 * TICK_S),
            observe=within(rng, 2.0 * TICK_S),
            tell=within(rng, 4.0 * TICK_S),
            tick=within(rng, 1.0),
        ),
        load=lambda at_s: levels[(at_s - T0) // 100 % len(levels)] * PER_REPLICA,
        answer=lambda: rng.choice(NOT_APPLIED) if rng.random() < failing else OutcomeResult.APPLIED,
    )


@pytest.fixture(params=range(10), ids=lambda seed: f"seed{seed}", scope="module")
def loop(request: pytest.FixtureRequest) -> Loop:
    made = random_loop(request.param)
    made.run(400)
    assert len(made.applied) > 20
    return made


def test_no_step_up_is_farther_than_the_limit_from_what_was_observed(loop: Loop) -> None:
    for tick in loop.ticks:
        assert tick.decision.current == tick.signal.spec_replicas
        if tick.decision.action is ScalingAction.SCALE_UP:
            assert tick.decision.desired <= most_after_up(loop.policy.scale_up, tick.decision.current)


def test_repeats_never_compound_on_the_target(loop: Loop) -> None:
    """Whichever repeat is carried out, and however often."""
    spec = loop.applied[0].current
    for decision in loop.applied:
        if decision.action is ScalingAction.SCALE_UP:
            assert decision.desired <= most_after_up(loop.policy.scale_up, max(spec, decision.current))
        spec = decision.desired


def test_what_our_own_actuator_did_is_never_somebody_elses(loop: Loop) -> None:
    assert all(tick.decision.reason is not ScalingReason.TARGET_CHANGED for tick in loop.ticks)


def test_an_unapplied_step_up_is_repeated_while_the_load_asks_for_it(loop: Loop) -> None:
    repeats = 0
    for before, tick in pairwise(loop.ticks):
        if before.decision.action is ScalingAction.SCALE_UP and _is_open(before, tick):
            assert _step(tick.decision) == _step(before.decision)
            repeats += 1
    assert repeats > 0


def _is_open(before: Tick, tick: Tick) -> bool:
    """Nothing has been heard of a decision that is less than a minute old, and nothing else has changed."""
    outcome = tick.signal.outcome
    told = outcome is not None and outcome.result is OutcomeResult.APPLIED
    same = before.decision.current == tick.decision.current and _asks(before.signal) == _asks(tick.signal)
    pending = before.memory.pending
    return same and not told and pending is not None and tick.decision.at_s - pending.at_s <= REPEAT_S


def test_repeats_are_one_decision_for_a_minute_at_most(loop: Loop) -> None:
    longest_s = 0
    for tick in loop.ticks:
        pending = tick.memory.pending
        if pending is not None and tick.decision.action is not ScalingAction.HOLD:
            assert (pending.action, pending.desired) == (tick.decision.action, tick.decision.desired)
            longest_s = max(longest_s, tick.decision.at_s - pending.at_s)
    assert TICK_S <= longest_s <= REPEAT_S


def test_what_was_not_carried_out_changes_nothing(loop: Loop) -> None:
    """The same ticks without those outcomes give the same steps; the words for people, and so the ids, may differ."""
    memory = settled()
    ids: dict[str, str] = {}
    for tick in loop.ticks:
        without, memory = decide(loop.policy, untold(tick.signal, ids), memory)
        ids[tick.decision.decision_id] = without.decision_id
        assert _step(without) == _step(tick.decision)


@pytest.mark.parametrize("seed", range(10), ids=lambda seed: f"seed{seed}")
def test_the_target_settles_at_what_is_needed_once_attempts_succeed(seed: int) -> None:
    loop = random_loop(seed)
    loop.run(100)
    loop.load, loop.answer = lambda _: NEEDED * PER_REPLICA, lambda: OutcomeResult.APPLIED
    made = loop.run(60)
    assert loop.spec == NEEDED
    assert {decision.action for decision in made[-5:]} == {ScalingAction.HOLD}


def _asks(signal: EndpointSignal) -> float | None:
    return signal.windows[str(UP_WINDOW_S)]["inflight_requests"].value


def _step(decision: ScalingDecision) -> tuple[str, int, int, str, str | None]:
    return decision.action, decision.current, decision.desired, decision.reason, decision.bound
