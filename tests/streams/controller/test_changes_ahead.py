"""Records with a clock far ahead: of changes the newest counts, and none after such a one would, for years."""

import random
from typing import Any

import pytest

from records.enums import OutcomeResult, ReplicaState
from records.fields import SECOND_MAX
from records.outcomes import Outcome
from records.telemetry import GpuSample, ReplicaChanged, TargetObserved
from streams.controller.controller import PartitionController
from streams.endpoints.effects import Count
from tests.streams.controller.line import Line, as_bytes, feed_all, policy, read_again, sample, started

START_S, END_S, BAD_S = 1_000, 120, 60
POLICY = policy(metrics=[{"name": "inflight_requests", "target": 1}, {"name": "gpu_utilization", "target": 0.7}])
DECIDED_S = START_S + 40
"""The tick whose decision is applied."""


def line(decision_id: str, ahead_s: int | None) -> Line:
    """Good records of every kind; at BAD_S one of each that is so far ahead, if any."""
    made = Line()
    for second in range(END_S):
        at_s = START_S + second
        made.samples([sample(at_s)])
        made.add("telemetry.gpus", GpuSample(endpoint="chat", replica="r1", gpu="0", at_s=at_s, gpu_utilization=0.5))
        if second == BAD_S and ahead_s is not None:
            for topic, record in changes(at_s + ahead_s, decision_id, 9):
                made.add(topic, record, at_s + 1.0)
        if second % 30 == 5:
            for topic, record in changes(at_s, decision_id, 2 + second // 30):
                made.add(topic, record, at_s + 1.0)
    return made


def changes(at_s: int, decision_id: str, spec: int) -> list[tuple[str, Any]]:
    epoch = str(spec)
    gpu = GpuSample(endpoint="chat", replica="r1", gpu="0", at_s=at_s, seq=1, gpu_utilization=spec / 10)
    outcome = Outcome(
        endpoint="chat",
        decision_id=decision_id,
        decision_topic="decisions.scaling",
        actuator="a",
        at_s=at_s,
        result=OutcomeResult.APPLIED,
        observed=spec,
    )
    return [
        ("telemetry.replicas", ReplicaChanged(endpoint="chat", replica="r2", at_s=at_s, state=ReplicaState.STARTING)),
        (
            "telemetry.replicas",
            ReplicaChanged(endpoint="chat", replica="r3", at_s=at_s, epoch=epoch, state=ReplicaState.READY),
        ),
        ("telemetry.targets", TargetObserved(endpoint="chat", at_s=at_s, spec_replicas=spec)),
        ("telemetry.gpus", gpu),
        ("outcomes", outcome),
    ]


@pytest.fixture(scope="module")
def decision_id() -> str:
    made = feed_all(started(POLICY), line("0" * 64, None).arrivals)
    return next(one.decisions[0].decision_id for one in made if one.at_s == DECIDED_S)


@pytest.mark.parametrize("ahead_s", [61, 3600, SECOND_MAX - START_S - BAD_S])
def test_they_are_counted_and_change_nothing(decision_id: str, ahead_s: int) -> None:
    controller = started(POLICY)
    made = feed_all(controller, line(decision_id, ahead_s).arrivals, random.Random(1))
    without = feed_all(started(POLICY), line(decision_id, None).arrivals, random.Random(1))
    assert controller.counts[Count.TOO_FAR_AHEAD] == 5
    assert [one.decisions for one in made] == [one.decisions for one in without]
    assert made[-1].signal.outcome is not None
    assert made[-1].signal.outcome.observed == made[-1].signal.spec_replicas == 2 + END_S // 30 - 1


def test_nor_after_a_kill(decision_id: str) -> None:
    arrivals = line(decision_id, 3600).arrivals
    whole = feed_all(started(POLICY), arrivals)
    for number in (11, 13, 20):
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore([whole[number - 1].memory], [POLICY])
        assert as_bytes(feed_all(controller, read_again(plan, arrivals))) == as_bytes(whole[number:])
