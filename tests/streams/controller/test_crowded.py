"""More of an endpoint than has room: what is left out may be load, so for a window it does not go down."""

import random
from collections.abc import Callable, Iterable

import pytest

from records.enums import ReplicaState, ScalingReason
from records.telemetry import GpuSample, ReplicaChanged
from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from tests.streams.controller.line import Line, as_bytes, feed_all, policy, read_again, sample, started

START_S, CROWDED_S, END_S = 1_000, 100, 480
LAST_REFUSED_S = START_S + CROWDED_S - 1
POLICIES = (policy(), policy("quiet"))


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    """Two of three replicas have room; the third is there for the first while. A neighbour has one."""
    monkeypatch.setattr("streams.controller.sample_intake.SERIES_MAX", 2)
    made = Line()
    for second in range(END_S):
        replicas = ("r1", "r2", "r3") if second < CROWDED_S else ("r1", "r2")
        made.samples(sample(START_S + second, replica, running=1.0) for replica in replicas)
        made.samples([sample(START_S + second, endpoint="quiet")])
    return made


def refused_until_s(ticks: Iterable[TickEffects], endpoint: str) -> dict[int, int | None]:
    """By tick."""
    found = {}
    for one in ticks:
        if one.endpoint == endpoint:
            told = [blocker.until_s for blocker in one.signal.down_blockers if blocker.kind == "refused"]
            found[one.at_s] = told[0] if told else None
    return found


def test_an_endpoint_of_which_samples_are_left_out_does_not_go_down(line: Line) -> None:
    ticks = feed_all(started(*POLICIES), line.arrivals, random.Random(1))
    assert set(refused_until_s(ticks, "quiet").values()) == {None}
    for at_s, until_s in refused_until_s(ticks, "chat").items():
        assert (until_s is not None) == (at_s - 300 <= LAST_REFUSED_S)
        if LAST_REFUSED_S + 5 < at_s <= LAST_REFUSED_S + 300:
            assert until_s == LAST_REFUSED_S + 301
    reasons = {one.at_s: one.decisions[-1].reason for one in ticks if one.endpoint == "chat"}
    assert reasons[START_S + CROWDED_S + 295] is ScalingReason.INSUFFICIENT_EVIDENCE
    assert reasons[START_S + CROWDED_S + 300] is ScalingReason.METRIC


def test_neither_the_cut_of_polls_nor_a_kill_changes_it(line: Line) -> None:
    whole = feed_all(started(*POLICIES), line.arrivals)
    for cut in range(3):
        assert as_bytes(feed_all(started(*POLICIES), line.arrivals, random.Random(cut))) == as_bytes(whole)
    for number in (20, 50, 120):
        newest = {one.endpoint: one.memory for one in whole[:number]}
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore(newest.values(), POLICIES)
        again = feed_all(controller, read_again(plan, line.arrivals), random.Random(number))
        assert as_bytes(again) == as_bytes(whole[number:])


def crowd_of_replicas(line: Line, at_s: int) -> None:
    for name in ("r1", "r2"):
        line.add(
            "telemetry.replicas", ReplicaChanged(endpoint="chat", replica=name, at_s=at_s, state=ReplicaState.READY)
        )


def crowd_of_gpus(line: Line, at_s: int) -> None:
    for gpu in ("0", "1"):
        line.add("telemetry.gpus", GpuSample(endpoint="chat", replica="r1", gpu=gpu, at_s=at_s))


def crowd_of_bounds(line: Line, at_s: int) -> None:
    for number in (1, 2):
        histogram = {"explicit_bounds": [float(number)], "bucket_counts": [1, 1]}
        line.samples([sample(at_s, f"r{number}", ttft_ms=histogram)])


@pytest.mark.parametrize(
    ("crowd", "limit"),
    [
        (crowd_of_replicas, "streams.endpoints.supply.REPLICAS_MAX"),
        (crowd_of_gpus, "streams.endpoints.gpus.GPUS_MAX"),
        (crowd_of_bounds, "streams.controller.sample_intake.BOUNDS_MAX"),
    ],
)
def test_whatever_has_no_room_forbids_going_down(
    crowd: Callable[[Line, int], None], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit, 1)
    line = Line()
    for at_s in range(START_S, START_S + 400):
        line.samples([sample(at_s)])
        if at_s == START_S + 50:
            crowd(line, at_s)
    metrics = [{"name": "inflight_requests", "target": 8}, {"name": "gpu_utilization", "target": 0.8}]
    ticks = feed_all(started(policy(metrics=metrics)), line.arrivals, random.Random(1))
    assert {at_s for at_s, until_s in refused_until_s(ticks, "chat").items() if until_s is not None} == set(
        range(START_S + 50, START_S + 351, 5)
    )


def test_what_is_said_of_the_future_forbids_nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is further ahead than a minute is not looked at."""
    monkeypatch.setattr("streams.endpoints.supply.REPLICAS_MAX", 1)
    line = Line()
    for at_s in range(START_S, START_S + 400):
        line.samples([sample(at_s)])
        if at_s == START_S + 50:
            for name in ("r1", "r2"):
                record = ReplicaChanged(endpoint="chat", replica=name, at_s=at_s + 60, state=ReplicaState.READY)
                line.add("telemetry.replicas", record, at_s + 1.0)
    told = refused_until_s(feed_all(started(policy()), line.arrivals), "chat")
    assert told[START_S + 300] == START_S + 51 + 301
    assert told[START_S + 355] is None
