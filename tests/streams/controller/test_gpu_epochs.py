"""GPUs of an incarnation that no window holds: what was kept of it, and for how long, must not show."""

from collections.abc import Iterable

import pytest

from records.telemetry import GpuSample
from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from tests.streams.controller.line import Line, as_bytes, feed_all, policy, read_again, sample, started

START_S, LATE_S = 1_000, 320
POLICY = policy(metrics=[{"name": "gpu_utilization", "target": 0.7}])


def add(line: Line, at_s: int, epoch: str, received_s: float, utilization: float) -> None:
    gpu = GpuSample(endpoint="chat", replica="r1", epoch=epoch, gpu="0", at_s=at_s, gpu_utilization=utilization)
    line.add("telemetry.gpus", gpu, received_s)


def utilizations(ticks: Iterable[TickEffects]) -> list[float | None]:
    return [one.signal.windows["20"]["gpu_utilization"].value for one in ticks]


def test_a_late_sample_of_another_incarnation_hides_no_gpu() -> None:
    line = Line()
    for at_s in range(START_S, START_S + 400):
        line.samples([sample(at_s)])
        add(line, at_s, "e1", at_s + 1.0, 0.5)
        if at_s == START_S + LATE_S:
            add(line, at_s - 310, "e0", at_s + 1.0, 0.9)
    whole = feed_all(started(POLICY), line.arrivals)
    assert set(utilizations(whole)) == {0.5}
    for number in range(len(whole) - 16, len(whole) - 4):
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore([whole[number - 1].memory], [POLICY])
        assert as_bytes(feed_all(controller, read_again(plan, line.arrivals))) == as_bytes(whole[number:])


def test_an_incarnation_that_comes_back_is_the_same_for_every_owner() -> None:
    """Before it came back it was heard of only in seconds that whoever takes over has not read."""
    line = Line()
    for at_s in range(START_S, START_S + 400):
        line.samples([sample(at_s)])
        add(line, at_s, "e1", at_s + 1.0, 0.5)
        if at_s < START_S + 5 or at_s >= START_S + 360:
            add(line, at_s, "e0", at_s + 1.0, 0.9)
    whole = feed_all(started(POLICY), line.arrivals)
    assert utilizations(whole)[-1] == pytest.approx(0.9)
    for number in range(60, len(whole) - 4, 2):
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore([whole[number - 1].memory], [POLICY])
        assert as_bytes(feed_all(controller, read_again(plan, line.arrivals))) == as_bytes(whole[number:])
