"""What cannot be true makes values suspect; what merely looks odd does not."""

from typing import Any

import pytest

from records.enums import ReplicaState, ValueState
from records.signals import SignalValue
from records.telemetry import ReplicaChanged, RequestSample
from tests.streams.controller.line import REQUESTS, Line, policy, run, sample


def found(line: Line, window: int = 20) -> SignalValue:
    made = run(line, policy(metrics=[{"name": "inflight_requests"}, {"name": "queue_depth"}]))
    return made[-1].signal.windows[str(window)]["inflight_requests"]


def lasting(seconds: int = 60, **fields: Any) -> Line:
    line = Line()
    line.samples(sample(1000 + second, **fields) for second in range(seconds))
    return line


def test_what_comes_and_does_not_leave_must_be_inside() -> None:
    """scenarios.md B11: requests are counted when they come, and in flight only when they are done."""
    value = found(lasting(arrivals=10, completions=0, running=4.0))
    assert (value.state, value.check, value.value) == (ValueState.SUSPECT, "conservation", None)


@pytest.mark.parametrize(
    "fields",
    [
        {"arrivals": 10, "completions": 10, "running": 40.0},
        # Two requests, or a tenth of the volume, are within what sampling may lose.
        {"arrivals": 100, "completions": 91, "running": 4.0},
        {"arrivals": 10, "completions": 4, "errors": 3, "aborted": 3, "running": 4.0},
        # An unknown count is no contradiction.
        {"arrivals": 10, "completions": None, "running": 4.0},
    ],
)
def test_what_adds_up_is_trusted(fields: dict[str, Any]) -> None:
    assert found(lasting(**fields)).state is ValueState.FRESH


@pytest.mark.parametrize("reading", ["mean", "end"])
def test_a_steep_ramp_is_no_contradiction(reading: str) -> None:
    """From 10 to 100 arrivals a second at 10 completions, whether a gauge is a mean or a reading at the end."""
    line = Line()
    inside = 40.0
    for second in range(60):
        arrivals = 10 if second < 40 else 100
        change = arrivals - 10
        running = inside + (change / 2 if reading == "mean" else change)
        inside += change
        line.samples([sample(1000 + second, arrivals=arrivals, completions=10, running=running)])
    assert found(line).state is ValueState.FRESH


def test_a_restart_takes_its_requests_with_it() -> None:
    line = lasting(30, running=40.0)
    line.samples(sample(1030 + second, epoch="e2", running=0.0, arrivals=0, completions=0) for second in range(30))
    assert found(line).state is ValueState.FRESH


def test_a_failing_second_is_suspect_for_as_long_as_a_window_holds_it() -> None:
    line = lasting(40)
    line.samples([sample(1040, arrivals=500)])
    line.samples(sample(1041 + second) for second in range(19))
    assert found(line).state is ValueState.SUSPECT
    line.samples(sample(1060 + second) for second in range(10))
    assert found(line).state is ValueState.FRESH
    assert found(line, 300).state is ValueState.SUSPECT


def test_a_late_sample_that_explains_it_takes_the_suspicion_away() -> None:
    line = lasting(40)
    line.samples([sample(1040, arrivals=500, completions=None)])
    line.samples(sample(1041 + second) for second in range(8))
    line.samples([sample(1049, arrivals=500, seq=0), *(sample(1050 + second) for second in range(8))])
    assert found(line).state is ValueState.SUSPECT
    line.add(REQUESTS, sample(1049, seq=1), 1058.5)
    line.samples(sample(1058 + second) for second in range(4))
    assert found(line).state is ValueState.FRESH


def _router(at_s: int, replica: str = "r1", **fields: Any) -> RequestSample:
    values = {"source": "router", "reporter": "gw", "completions": None, "running": None, "waiting": None, **fields}
    return sample(at_s, replica, **values)


@pytest.mark.parametrize(
    ("zero", "arrivals", "check"), [(10, 5, "all_zero_while_router_counts"), (1, 5, "conservation"), (60, 0, None)]
)
def test_all_engines_at_zero_while_a_router_counts_is_an_outage(zero: int, arrivals: int, check: str | None) -> None:
    """scenarios.md A4: everything reads 0 at the same tick, and traffic goes on elsewhere."""
    line = Line()
    for at_s in range(1000, 1060):
        nothing = {"arrivals": 0, "completions": 0, "running": 0.0, "waiting": 0.0}
        for replica in ("r1", "r2"):
            busy = {"arrivals": None, "completions": arrivals}
            line.samples([sample(at_s, replica, **(nothing if at_s >= 1060 - zero else busy))])
            line.samples([_router(at_s, replica, arrivals=arrivals)])
    assert found(line).check == check


def test_completions_without_any_replica_are_a_contradiction() -> None:
    """scenarios.md C13: the set of workers is empty, and traffic is served."""
    line = Line()
    gone = ReplicaChanged(endpoint="chat", replica="r1", epoch="e1", at_s=990, state=ReplicaState.GONE)
    line.add("telemetry.replicas", gone)
    line.samples(_router(at_s, "", epoch="g", completions=5, arrivals=5, waiting=0.0) for at_s in range(1000, 1060))
    assert found(line).check == "completions_without_replica"


@pytest.mark.parametrize(
    ("fields", "check"),
    [
        # scenarios.md B14 and B15: stuck at 42, or at 3, and nothing comes, runs or leaves.
        ({"arrivals": 0, "completions": 0, "running": 0.0, "waiting": 42.0}, "constant_queue"),
        # It drains, nothing comes, and it stays.
        ({"arrivals": 0, "completions": 1, "running": 4.0, "waiting": 42.0}, "conservation"),
        # A closed loop of clients refills it: the vLLM recording's overload is this.
        ({"arrivals": None, "completions": 5, "running": 8.0, "waiting": 16.0}, None),
        ({"arrivals": 5, "completions": 5, "running": 8.0, "waiting": 16.0}, None),
        # A hang: its requests are really there.
        ({"arrivals": 0, "completions": 0, "running": 8.0, "waiting": 16.0}, None),
    ],
)
def test_a_constant_queue(fields: dict[str, Any], check: str | None) -> None:
    value = found(lasting(**fields))
    assert value.check == check or (check == "conservation" and value.check == "constant_queue")
    assert (value.state is ValueState.SUSPECT) is (check is not None)


@pytest.mark.parametrize(
    ("low", "high", "suspect"), [(30, 5000, True), (0, 5000, False), (1, 0, False), (900, 1000, False)]
)
def test_counters_that_alternate_between_two_sequences(low: int, high: int, suspect: bool) -> None:
    line = Line()
    line.samples(
        sample(at_s, input_tokens=(high if at_s % 2 else low) + at_s % 3, running=4.0) for at_s in range(1000, 1060)
    )
    assert (found(line).check == "alternating_counters") is suspect


def test_two_processes_under_one_name_are_suspect_and_never_added() -> None:
    line = Line()
    for at_s in range(1000, 1100):
        line.samples([sample(at_s, epoch="a", running=4.0)])
        if at_s >= 1050:
            line.samples([sample(at_s, epoch="b", running=4.0)])
    made = run(line)
    signal = made[-1].signal
    assert signal.windows["20"]["inflight_requests"].check == "two_processes"
    assert {one.kind for one in signal.down_blockers} >= {"suspect", "restart"}
    assert [(one.replica, one.state) for one in signal.sources] == [("r1", ValueState.SUSPECT)]
