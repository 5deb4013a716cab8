"""A whole endpoint second by second: what it reports is what happened."""

from collections import Counter

import pytest

from records.enums import Source
from records.telemetry import GpuSample, ReplicaChanged, RequestSample, TargetObserved
from simulation.faults import FaultKind, FaultRequest
from simulation.lifecycle import REPEAT_S
from simulation.reporting_faults import ReportFaultKind
from simulation.scale_target import Refused
from simulation.scenario import ReportsSpec
from tests.simulation.endpoint_runs import FIRST_S, Run, a_spec


def test_every_replica_and_gpu_is_told_each_second_once() -> None:
    run = Run()
    run.until(40)
    samples = run.engine_samples()
    assert Counter((s.replica, s.at_s - FIRST_S) for s in samples) == {
        (f"chat-{number}", second): 1 for number in range(2) for second in range(40)
    }
    gpus = run.of(GpuSample)
    assert Counter((g.replica, g.at_s) for g in gpus) == Counter((s.replica, s.at_s) for s in samples)
    assert len({g.gpu for g in gpus}) == 2
    assert {sample.seq for sample in samples if sample.at_s == FIRST_S + 7} == {7}
    assert [sum(s.e2e_ms.bucket_counts) for s in samples if s.e2e_ms] == [s.completions for s in samples]
    assert sum(s.completions or 0 for s in samples) > 400
    gateway = [sample for sample in run.of(RequestSample) if sample.source is Source.ROUTER]
    assert [(s.replica, s.reporter, s.waiting, s.at_s - FIRST_S) for s in gateway] == [
        ("", "gateway", 0.0, second) for second in range(40)
    ]


def test_a_scale_up_is_seen_as_it_happens() -> None:
    run = Run()
    run.until(5)
    run.scale(4)
    before = run.endpoint.target.target
    assert (before.generation, before.observed_generation) == (2, 1)
    first = run.until(6)
    assert [(c.replica, c.state) for c in run.of(ReplicaChanged, first)] == [
        ("chat-2", "requested"),
        ("chat-3", "requested"),
    ]
    (target,) = run.of(TargetObserved, first)
    assert (target.at_s, target.spec_replicas, target.status_replicas, target.ready_replicas) == (FIRST_S + 5, 4, 4, 2)
    assert (target.generation, target.observed_generation, target.rollout) == (2, 2, False)
    run.until(20)
    assert run.states("chat-3") == [(5, "requested", "0"), (6, "starting", "0"), (16, "ready", "0")]
    assert [t.ready_replicas for t in run.of(TargetObserved)] == [2, 2, 4]
    first_samples = {s.replica: s.at_s - FIRST_S for s in reversed(run.engine_samples())}
    assert first_samples == {"chat-0": 0, "chat-1": 0, "chat-2": 16, "chat-3": 16}
    assert run.endpoint.summary.gpu_seconds == 20 * 2 + 2 * 14


def test_what_does_not_change_is_repeated_with_its_own_time_and_seq() -> None:
    run = Run()
    run.until(2 * REPEAT_S + 1)
    changes = [c for c in run.of(ReplicaChanged) if c.replica == "chat-1"]
    assert [(c.at_s - FIRST_S, c.state) for c in changes] == [(0, "ready"), (30, "ready"), (60, "ready")]
    assert [t.at_s - FIRST_S for t in run.of(TargetObserved)] == [0, 30, 60]
    assert [t.seq for t in run.of(TargetObserved)] == [1, 2, 3]
    assert len({c.seq for c in run.of(ReplicaChanged)}) == len(run.of(ReplicaChanged))


def test_a_marked_replica_leaves_first_and_its_requests_end_well() -> None:
    run = Run(a_spec(rate=6.0))
    run.until(10)
    run.mark("chat-0")
    run.scale(1)
    run.until(45)
    (_, draining_s), (_, gone_s) = [
        (state, at_s) for at_s, state, _ in run.states("chat-0") if state in ("draining", "gone")
    ]
    assert draining_s == 10
    samples = [s for s in run.engine_samples() if s.replica == "chat-0" and s.at_s >= FIRST_S + 10]
    assert [s.at_s - FIRST_S for s in samples] == list(range(10, gone_s))
    assert sum(s.arrivals or 0 for s in samples) == 0
    assert run.endpoint.summary.outcomes.aborted == 0
    assert sum(s.completions or 0 for s in samples) > 0
    assert run.states("chat-1") == [(0, "ready", "0")]


def test_requests_beyond_the_deadline_are_aborted_and_counted() -> None:
    run = Run(a_spec(rate=60.0))
    run.until(10)
    held = run.engine_samples()[-1]
    run.mark("chat-1", deadline_s=1.0)
    run.scale(1)
    run.until(12)
    assert run.states("chat-1")[-1] == (11, "gone", "0")
    assert (held.running or 0) > 3
    assert run.endpoint.summary.outcomes.aborted > 0


def test_a_mark_that_is_too_old_counts_no_more() -> None:
    run = Run(a_spec(rate=0.0, replicas=3))
    run.until(5)
    run.mark("chat-0")
    run.until(66)
    run.scale(2)
    run.until(67)
    assert run.states("chat-0") == [(0, "ready", "0")]
    assert run.states("chat-2")[-1] == (66, "draining", "0")


def test_a_replica_that_dies_starts_again_as_the_next_epoch() -> None:
    run = Run()
    run.until(10)
    run.fault(FaultKind.DIE, "chat-0")
    run.until(40)
    assert run.states("chat-0") == [
        *((0, "ready", "0"), (10, "failed", "0")),
        *((20, "requested", "1"), (21, "starting", "1"), (31, "ready", "1")),
    ]
    epochs = {s.at_s - FIRST_S: s.epoch for s in run.engine_samples() if s.replica == "chat-0"}
    assert set(epochs) == {*range(10), *range(31, 40)}
    assert epochs[9] != epochs[31]
    assert epochs[9].split("/")[0] == epochs[31].split("/")[0]
    assert {t.spec_replicas for t in run.of(TargetObserved)} == {2}
    assert [t.ready_replicas for t in run.of(TargetObserved)][:3] == [2, 1, 2]
    assert run.endpoint.summary.outcomes.errors > 0


def test_a_replica_that_hangs_says_what_it_last_said_until_it_goes_on() -> None:
    run = Run()
    run.until(10)
    run.fault(FaultKind.HANG, "chat-1")
    run.until(20)
    hung = [s for s in run.engine_samples() if s.replica == "chat-1" and s.at_s >= FIRST_S + 11]
    assert {(s.arrivals, s.completions, s.output_tokens) for s in hung} == {(0, 0, 0)}
    assert run.states("chat-1") == [(0, "ready", "0")]
    run.fault(FaultKind.RESUME, "chat-1")
    run.until(40)
    after = [s for s in run.engine_samples() if s.replica == "chat-1" and s.at_s >= FIRST_S + 20]
    assert sum(s.completions or 0 for s in after) > 0


def test_a_slow_replica_is_slower_than_its_sibling() -> None:
    run = Run(a_spec(rate=4.0))
    run.fault(FaultKind.SLOW, "chat-1", factor=8.0)
    run.until(40)
    steps = Counter[str]()
    for sample in run.engine_samples():
        steps[sample.replica] += sample.steps or 0
    assert steps["chat-1"] < steps["chat-0"] / 3


def test_failing_starts_are_told_and_tried_again() -> None:
    run = Run()
    run.fault(FaultKind.FAIL_STARTS, count=1)
    run.until(1)
    run.scale(3)
    run.until(60)
    states = [(state, restarts) for _, state, restarts in run.states("chat-2")]
    assert states == [
        *(("requested", "0"), ("starting", "0"), ("failed", "0")),
        *(("requested", "1"), ("starting", "1"), ("ready", "1")),
    ]


@pytest.mark.parametrize(
    ("kind", "seconds_told"),
    [
        (FaultKind.REPORTS_GAP, {second: 1 for second in range(30) if not 10 <= second < 15}),
        (FaultKind.REPORTS_LATE, dict.fromkeys(range(30), 1)),
        (FaultKind.REPORTS_DUPLICATE, {second: 1 + (10 <= second < 15) for second in range(30)}),
    ],
)
def test_faults_of_reports(kind: FaultKind, seconds_told: dict[int, int]) -> None:
    run = Run()
    run.until(10)
    run.fault(kind, "chat-0", seconds=5, delay_s=3)
    told = {second: run.until(second + 1) for second in range(10, 30)}
    faulty = [s for s in run.engine_samples() if s.replica == "chat-0"]
    assert Counter(s.at_s - FIRST_S for s in faulty) == seconds_told
    assert len([s for s in run.engine_samples() if s.replica == "chat-1"]) == 30
    if kind is FaultKind.REPORTS_LATE:
        late = [s for s in run.engine_samples(told[13]) if s.replica == "chat-0"]
        assert [s.at_s - FIRST_S for s in late] == [10]


def test_faults_of_reports_for_the_whole_run() -> None:
    gap = ReportsSpec(kind=ReportFaultKind.GAP, share=0.25)
    run = Run(a_spec(rate=0.0, reports=(gap,)))
    run.until(150)
    assert 180 < len(run.engine_samples()) < 270
    assert len(run.of(TargetObserved)) == 5


@pytest.mark.parametrize(
    ("kind", "replica", "error"),
    [
        (FaultKind.DIE, None, "replica: null, allowed with die: chat-0, chat-1"),
        (FaultKind.HANG, "chat-9", "replica: 'chat-9', allowed with hang: chat-0, chat-1"),
        (FaultKind.SLOW, "chat-2", "replica: 'chat-2', allowed with slow: chat-0, chat-1"),
        (FaultKind.REPORTS_GAP, "x", "replica: 'x', allowed with reports_gap: chat-0, chat-1, chat-2"),
        (FaultKind.FAIL_STARTS, "chat-0", "replica: 'chat-0', allowed with fail_starts: none now"),
    ],
)
def test_a_fault_of_what_is_not_there_is_refused(kind: FaultKind, replica: str | None, error: str) -> None:
    run = Run()
    run.scale(3)
    run.until(3)
    assert run.endpoint.inject(FaultRequest(kind=kind, replica=replica)) == Refused(error=error)


def test_two_faults_at_once_of_one_replica_do_no_harm() -> None:
    run = Run()
    run.until(3)
    run.fault(FaultKind.DIE, "chat-0")
    run.fault(FaultKind.DIE, "chat-0")
    run.fault(FaultKind.HANG, "chat-0")
    run.until(30)
    assert [state for _, state, _ in run.states("chat-0")] == ["ready", "failed", "requested", "starting", "ready"]


def test_requests_without_a_replica_wait_at_the_gateway_until_one_is_ready() -> None:
    run = Run(a_spec(rate=2.0, replicas=0))
    run.until(6)
    gateway = run.of(RequestSample)
    assert {sample.replica for sample in gateway} == {""}
    assert sum(sample.arrivals or 0 for sample in gateway) > 0
    assert (gateway[-1].waiting or 0) > 0
    assert len({sample.epoch for sample in gateway}) == 1
    run.scale(1)
    run.until(60)
    assert run.of(RequestSample)[-1].waiting == 0.0
    outcomes = run.endpoint.summary.outcomes
    assert outcomes.queued > 10
    assert outcomes.completions > 50
    assert outcomes.slo_kept_share is not None
    assert outcomes.slo_kept_share < 0.9


def test_clients_that_wait_at_the_gateway_lose_patience_too() -> None:
    run = Run(a_spec(rate=3.0, replicas=0))
    run.until(60)
    told = run.endpoint.summary.as_object()
    assert told["aborted"] > 50
    assert told["arrivals"] == told["aborted"] + told["inflight"]
    assert sum(sample.aborted or 0 for sample in run.of(RequestSample)) == told["aborted"]


def test_seconds_are_simulated_once_and_in_order() -> None:
    run = Run()
    run.until(3)
    for wrong in (FIRST_S + 2, FIRST_S + 4):
        with pytest.raises(ValueError, match=f"second: {wrong}, the next one is {FIRST_S + 3}"):
            run.endpoint.advance(wrong)
