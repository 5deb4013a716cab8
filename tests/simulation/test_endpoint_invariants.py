"""What holds for an endpoint whatever is asked of it: the same bytes, requests conserved, records that are true."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from records.enums import ReplicaState, Source
from records.telemetry import ReplicaChanged, RequestSample, TargetObserved
from simulation.faults import FaultKind
from tests.simulation.endpoint_runs import Run, a_spec
from wire.codec import encode


def troubled(run: Run) -> bytes:
    """A run with calls and faults, as bytes."""
    run.until(5)
    run.scale(5)
    run.until(20)
    run.fault(FaultKind.DIE, "chat-1")
    run.fault(FaultKind.REPORTS_LATE, None, share=0.5)
    run.mark("chat-0", deadline_s=3.0)
    run.scale(3)
    run.until(50)
    return b"\n".join(encode(record) for record in run.told)


def test_the_same_seed_and_calls_give_the_same_bytes() -> None:
    assert troubled(Run()) == troubled(Run())


@pytest.mark.parametrize("other", [lambda: Run(seed=2), lambda: Run(instance="j")])
def test_another_seed_or_instance_gives_others(other: Callable[[], Run]) -> None:
    assert troubled(Run()) != troubled(other())


def test_the_requests_are_the_same_however_many_replicas_there_are() -> None:
    few, many = Run(a_spec(replicas=1)), Run(a_spec(replicas=6))
    for run in (few, many):
        run.until(30)
    offered = [
        [row.arrivals + row.rejections for row in run.endpoint.summary.as_object(0)["seconds"]] for run in (few, many)
    ]
    assert offered[0] == offered[1]
    assert few.endpoint.summary.outcomes.ttft_within_slo < many.endpoint.summary.outcomes.ttft_within_slo


CALLS = st.sampled_from(["scale", "mark", "die", "hang", "resume", "slow", "fail_starts"])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.tuples(CALLS, st.integers(0, 5), st.integers(1, 10)), max_size=6),
    rate=st.sampled_from([0.5, 20.0, 120.0]),
    seed=st.integers(0, 2**32),
)
def test_whatever_is_called_requests_are_conserved_and_records_are_true(
    steps: list[tuple[str, int, int]], rate: float, seed: int
) -> None:
    run = Run(a_spec(rate=rate), seed=seed)
    for call, number, seconds in steps:
        names = list(run.endpoint.replica_names)
        match call:
            case "scale":
                run.scale(number)
            case "mark" if names:
                run.mark(names[number % len(names)], deadline_s=float(number))
            case "fail_starts":
                run.fault(FaultKind.FAIL_STARTS, count=max(1, number))
            case kind:
                serving = [replica for replica in names if run.states(replica)[-1:] and _serves(run, replica)]
                if serving:
                    run.fault(FaultKind(kind) if kind != "mark" else FaultKind.RESUME, serving[number % len(serving)])
        for _ in range(seconds):
            run.until(run.now_s + 1)
            told = run.endpoint.summary.as_object()
            assert told["arrivals"] == sum(told[name] for name in ("completions", "aborted", "errors", "inflight"))
            assert told["first_tokens"] <= told["arrivals"]
    _check_records(run)


def _serves(run: Run, replica: str) -> bool:
    newest = [change.state for change in run.of(ReplicaChanged) if change.replica == replica][-1]
    return newest in (ReplicaState.READY, ReplicaState.DRAINING)


def _check_records(run: Run) -> None:
    """Samples come from replicas that said they serve, in the epoch that they said; the target counts what is told."""
    identities = Counter(
        (s.replica, s.epoch, s.source, s.reporter, s.at_s) for s in run.of(RequestSample) if s.source is Source.ENGINE
    )
    assert set(identities.values()) <= {1}
    by_second: dict[int, list[Any]] = {}
    for record in run.told:
        by_second.setdefault(record.at_s, []).append(record)
    states: dict[str, tuple[str, str]] = {}
    for second in sorted(by_second):
        for change in run.of(ReplicaChanged, by_second[second]):
            states[change.replica] = (change.state, change.epoch)
        serving = {
            (replica, epoch)
            for replica, (state, epoch) in states.items()
            if state in (ReplicaState.READY, ReplicaState.DRAINING)
        }
        assert {(s.replica, s.epoch) for s in run.engine_samples(by_second[second])} == serving
        for target in run.of(TargetObserved, by_second[second]):
            kinds = Counter(state for state, _ in states.values() if state != ReplicaState.GONE)
            assert target.status_replicas == sum(kinds.values())
            assert target.ready_replicas == kinds[ReplicaState.READY]
