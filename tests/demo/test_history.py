"""What the page and the summary say, from tables whose every number is known."""

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from headrace.demo.fleet.facts import burst_facts
from headrace.demo.fleet.history import EndpointHistory, read_histories
from headrace.demo.fleet.served import Served
from headrace.demo.fleet.words import burst_words
from records.decisions import Floors, ScalingDecision, Supply
from records.enums import MetricName, Mode, OutcomeResult, ReplicaState, ScalingAction, ScalingReason, Source
from records.histogram import Histogram
from records.outcomes import Outcome
from records.policy import Concurrency, EndpointPolicy, Metric, ScaleTargetRef, Slo
from records.telemetry import ReplicaChanged, RequestSample, TargetObserved
from tests.demo.made_tables import write_tables

T = 1_800_000_000
SECONDS, BEGINS, ENDS = 240, 60, 180
BOUNDS = (100.0, 500.0, 1000.0)

POLICY = EndpointPolicy(
    endpoint="burst",
    scale_target_ref=ScaleTargetRef(kind="Deployment", name="burst"),
    min_replicas=1,
    max_replicas=9,
    metrics=(Metric(name=MetricName.INFLIGHT_REQUESTS),),
    concurrency=Concurrency(target=10.0),
    slo=Slo(ttft_p95_ms=500.0),
)


def sample(second: int, replica: str, **rest: object) -> RequestSample:
    return RequestSample(endpoint="burst", replica=replica, at_s=T + second, source=Source.ENGINE, **rest)  # type: ignore[arg-type]  # any of its fields


def ttft(*counts: int) -> Histogram:
    return Histogram(explicit_bounds=BOUNDS, bucket_counts=counts, sum=None)


def samples() -> Iterator[RequestSample]:
    """One replica all the time, a second from 100 on; 4 requests/s, in the burst 40 of which 30 are turned away
    until there are two."""
    for second in range(SECONDS):
        is_burst = BEGINS <= second < ENDS
        is_short = is_burst and second < 100
        rejections = 30 if is_short else 0
        tokens = ttft(0, 5, 5, 0) if is_short else ttft(3, 1, 0, 0)
        arrivals = 40 - rejections if is_burst else 4
        busy = 12.0 if is_burst else 2.0
        yield sample(second, "burst-0", arrivals=arrivals, running=busy, waiting=1.0, rejections=0, ttft_ms=tokens)
        yield sample(second, "", rejections=rejections, waiting=0.0)
        if second >= 100:
            yield sample(second, "burst-1", arrivals=0, running=busy, waiting=0.0, aborted=int(second == 150))


def changed(second: int, replica: str, state: ReplicaState) -> ReplicaChanged:
    return ReplicaChanged(endpoint="burst", replica=replica, at_s=T + second, state=state, epoch="a", seq=second)


def decision(second: int, action: ScalingAction, current: int, desired: int) -> ScalingDecision:
    return ScalingDecision(
        endpoint="burst",
        at_s=T + second,
        decision_id=f"{second:064x}",
        previous_id=None,
        policy_hash="0" * 64,
        mode=Mode.ACT,
        action=action,
        reason=ScalingReason.METRIC if action is not ScalingAction.HOLD else ScalingReason.WITHIN_TARGET,
        bound=None,
        detail=f"{action.value} at {second}",
        current=current,
        desired=desired,
        candidates=(),
        floors=Floors(minimum=1),
        supply=Supply(ready=1, starting=0, draining=0, unschedulable=0, failed=0),
        gpus=None,
    )


def lives() -> Iterator[msgspec.Struct]:
    """The second replica is asked for 10 s after the burst began, on a node a second later, ready at 100, and gone at
    220; repeats change nothing."""
    yield changed(0, "burst-0", ReplicaState.READY)
    yield changed(30, "burst-0", ReplicaState.READY)
    for second, state in (
        (70, ReplicaState.REQUESTED),
        (71, ReplicaState.STARTING),
        (100, ReplicaState.READY),
        (130, ReplicaState.READY),
        (210, ReplicaState.DRAINING),
        (220, ReplicaState.GONE),
        (235, ReplicaState.GONE),
    ):
        yield changed(second, "burst-1", state)
    for second, spec in ((0, 1), (70, 3), (209, 1)):
        yield TargetObserved(endpoint="burst", at_s=T + second, spec_replicas=spec)
    yield decision(65, ScalingAction.HOLD, 1, 1)
    yield decision(70, ScalingAction.SCALE_UP, 1, 3)
    yield decision(205, ScalingAction.SCALE_DOWN, 3, 1)
    yield Outcome(
        decision_id=f"{70:064x}",
        decision_topic="decisions.scaling",
        endpoint="burst",
        actuator="fleet",
        at_s=T + 71,
        result=OutcomeResult.APPLIED,
        observed=3,
    )


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> EndpointHistory:
    root = write_tables(tmp_path_factory.mktemp("made") / "tables", [*samples(), *lives()])
    (found,) = read_histories(root, [POLICY], {"burst": 4})
    return found


def test_what_came_is_added_up_by_second(history: EndpointHistory) -> None:
    assert (history.first_s, history.last_s) == (T, T + SECONDS)
    assert history.requests.tolist() == [4.0] * 60 + [40.0] * 120 + [4.0] * 60
    assert history.turned_away.sum() == 40 * 30
    assert history.aborted.sum() == 1
    assert history.in_flight[[0, 80, 120]].tolist() == [3.0, 13.0, 25.0]
    assert history.within_slo[[0, 80]].tolist() == [4.0, 5.0]
    assert history.ttft_p95_ms[[0, 7]].tolist() == pytest.approx([420.0, 950.0])


def test_replicas_are_counted_by_state(history: EndpointHistory) -> None:
    assert history.ready.tolist() == [1] * 100 + [2] * 110 + [1] * 30
    assert (history.starting.sum(), history.draining.sum()) == (30, 10)
    assert history.startups_s == (30,)
    assert history.desired.tolist() == [1] * 70 + [3] * 139 + [1] * 31
    assert history.gpu_hours == pytest.approx(4 * (240 + 149) / 3600)
    assert history.peak_replicas == math.ceil(25 / 10)
    assert history.static_gpu_hours == pytest.approx(4 * 3 * 240 / 3600)


def test_decisions_are_told_with_what_came_of_them(history: EndpointHistory) -> None:
    assert [(one.at_s - T, one.desired, one.result) for one in history.decisions] == [
        (70, 3, "applied"),
        (205, 1, None),
    ]
    assert history.reasons == {("hold", "within_target"): 1, ("scale_up", "metric"): 1, ("scale_down", "metric"): 1}


def test_the_burst_is_followed_or_not(history: EndpointHistory) -> None:
    facts = burst_facts(history, T + BEGINS, T + ENDS)
    assert (facts.in_flight, facts.need, facts.over_s) == (25.0, 3, 30)
    assert (facts.desired_after_s, facts.below_need_s) == (10, 29)
    assert facts.ready_after_s is None, "two were ready, three were needed"
    assert "ready never" in burst_words(history, facts, None, acts=True)
    assert facts.within_slo_during == pytest.approx((40 * 5 + 80 * 4) / (40 * 10 + 80 * 4 + 40 * 30))


def test_a_need_of_which_much_was_turned_away_is_not_known(history: EndpointHistory) -> None:
    """What is in flight then is what there was room for."""
    facts = burst_facts(history, T + BEGINS, T + 100)
    assert (facts.need, facts.desired_after_s, facts.below_need_s) == (None, None, None)
    assert "never reached its need" in burst_words(history, facts, None, acts=True)


def test_the_words_have_the_numbers(history: EndpointHistory) -> None:
    served = Served(endpoint="burst", requests=1000, completed=700, turned_away=290, given_up=10, within_slo=650)
    off = burst_words(history, burst_facts(history, T + BEGINS, T + ENDS), served, acts=False)
    assert "2 replicas served all the time" in off
    assert "The SLO was broken: during the burst 27.1 %" in off
    assert (
        "Of 1,000 requests 65.0 % got their first token within the SLO; 290 were turned away and 10 were given" in off
    )


def test_an_endpoint_without_samples_has_no_history(tmp_path: Path) -> None:
    root = write_tables(tmp_path / "tables", lives())
    assert read_histories(root, [POLICY], {"burst": 4}) == []


def test_no_request_is_no_share_of_requests() -> None:
    assert Served(endpoint="x", requests=0, completed=0, turned_away=0, given_up=0, within_slo=0).slo_share is None


def test_seconds_without_tokens_have_no_percentile(tmp_path: Path) -> None:
    silent = [sample(second, "burst-0", arrivals=0, running=0.0, waiting=0.0) for second in range(20)]
    root = write_tables(tmp_path / "tables", [*silent, *lives()])
    (found,) = read_histories(root, [POLICY], {"burst": 1})
    assert np.isnan(found.ttft_p95_ms).all()
