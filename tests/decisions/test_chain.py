"""Canonical JSON and the hashes: msgspec's encoder must give what the rfc8785 library gives, byte for byte."""

import hashlib
import json
import math

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from decisions import chain
from records.decisions import Candidate, Floors, ScalingDecision, SkippedTicks, Supply, Victim
from records.enums import MetricName, Mode, ScalingAction, ScalingReason, ValueState
from records.policy import EndpointPolicy
from tests.decisions.ticks import policy_of

finite = st.floats(allow_nan=False, allow_infinity=False)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ['":1.0,', '\\":1.0}', "ends with \\", '"decision_id":"",', "\x00\x1f\x7f", "\u2028 \U0001f600", "1.0,2.0]"]
)
candidates = st.builds(
    Candidate,
    metric=st.sampled_from(MetricName),
    percentile=st.none(),
    window_s=st.sampled_from([20, 300]),
    observed=st.none() | finite,
    state=st.sampled_from(ValueState),
    coverage=st.floats(0, 1),
    target=st.none() | finite | st.integers(0, 2000).map(float),
    proposed=st.none() | st.integers(0, 2**32),
    rejected_because=st.none() | text,
)
decisions = st.builds(
    ScalingDecision,
    endpoint=text,
    at_s=st.integers(0, 2**53),
    decision_id=text,
    previous_id=st.none() | text,
    policy_hash=text,
    mode=st.sampled_from(Mode),
    action=st.sampled_from(ScalingAction),
    reason=st.sampled_from(ScalingReason),
    bound=st.none(),
    detail=text,
    current=st.integers(0, 2**32),
    desired=st.integers(0, 2**32),
    candidates=st.lists(candidates, max_size=3).map(tuple),
    floors=st.builds(Floors, minimum=st.integers(0, 9)),
    supply=st.builds(Supply, **dict.fromkeys(Supply.__struct_fields__, st.integers(0, 9))),
    gpus=st.none() | st.integers(0, 9),
    victims=st.lists(st.builds(Victim, replica=text, inflight=st.none() | finite, reason=text), max_size=2).map(tuple),
    drain_deadline_s=st.none() | finite,
    skipped=st.none() | st.builds(SkippedTicks, first_tick=st.integers(0, 9), last_tick=st.integers(0, 9)),
)


@settings(max_examples=300, deadline=None)
@given(decisions)
def test_the_fast_path_gives_the_librarys_bytes(decision: ScalingDecision) -> None:
    try:
        expected = rfc8785.dumps(msgspec.to_builtins(decision))
    except rfc8785.CanonicalizationError:
        with pytest.raises(ValueError, match="domain"):
            chain.canonical_json(decision)
    else:
        assert chain.canonical_json(decision) == expected


@settings(max_examples=200, deadline=None)
@given(decisions)
def test_an_id_is_the_hash_of_the_record_without_it(decision: ScalingDecision) -> None:
    document = json.loads(msgspec.json.encode(decision))
    del document["decision_id"]
    try:
        expected = hashlib.sha256(rfc8785.dumps(document)).hexdigest()
    except rfc8785.CanonicalizationError:
        return
    assert chain.decision_id(decision) == expected


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_has_no_canonical_form(number: float) -> None:
    victim = Victim(replica="a", inflight=number, reason="")
    with pytest.raises(ValueError, match="representable"):
        chain.canonical_json(victim)
    with pytest.raises(ValueError, match="finite"):
        chain.rounded(number)


@pytest.mark.parametrize("count", [2**53, -(2**53), 2**64])
def test_counts_beyond_a_doubles_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="domain"):
        chain.canonical_json(SkippedTicks(first_tick=count, last_tick=0))


@pytest.mark.parametrize(
    ("value", "digits"),
    [(1 / 3, 0.333333333), (123456789.49, 123456789.0), (1e15 + 1, 1e15), (0.0, 0.0), (2.5e-10, 2.5e-10)],
)
def test_computed_numbers_keep_nine_digits(value: float, digits: float) -> None:
    assert chain.rounded(value) == digits


def test_a_policy_hash_speaks_of_meaning_not_of_spelling() -> None:
    plain = policy_of()
    spelled = policy_of(mode="act", scaleUp={"windowSeconds": 20, "maxFactor": 2}, concurrency={"target": 8})
    assert chain.policy_hash(plain) == chain.policy_hash(spelled)
    assert chain.policy_hash(plain) != chain.policy_hash(policy_of(maxReplicas=41))
    assert chain.policy_hash(plain) == hashlib.sha256(rfc8785.dumps(msgspec.to_builtins(plain))).hexdigest()
    again = msgspec.json.decode(msgspec.json.encode(plain), type=EndpointPolicy)
    assert chain.policy_hash(plain) == chain.policy_hash(again)
