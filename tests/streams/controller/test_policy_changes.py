"""A policy that makes windows longer, or asks for GPUs: they begin anew, and what was before adds nothing to them."""

from records.memory import ControllerMemory
from records.telemetry import GpuSample
from streams.controller.controller import PartitionController
from streams.endpoints.effects import PolicyDeleted, TickEffects
from tests.streams.controller.line import Line, as_bytes, feed_all, policy, read_again, sample, started

BEGIN_S, CHANGE_S, END_S = 1000, 1042, 1120
NARROW = policy(scaleDown={"windowSeconds": 300})
WIDE = policy(scaleDown={"windowSeconds": 900})


def steady_line() -> Line:
    """One replica with 6 requests running in every second; in the middle the policy changes."""
    line = Line()
    for at_s in range(BEGIN_S, END_S):
        if at_s == CHANGE_S:
            line.add("policies", WIDE, received_s=at_s + 0.5)
        line.samples([sample(at_s, running=6.0)])
    return line


def inflight(effects: list[TickEffects]) -> dict[int, set[float]]:
    """What was measured over any window, by tick."""
    found: dict[int, set[float]] = {}
    for one in effects:
        values = [values["inflight_requests"].value for values in one.signal.windows.values()]
        found[one.at_s] = {value for value in values if value is not None}
    return found


def test_longer_windows_measure_only_what_came_into_them() -> None:
    measured = inflight(feed_all(started(NARROW), steady_line().arrivals))
    assert max(measured) >= END_S - 5
    assert set().union(*measured.values()) == {6.0}
    assert all(values for tick, values in measured.items() if tick >= CHANGE_S + 10)


def test_a_kill_after_the_change_changes_nothing() -> None:
    line = steady_line()
    whole = feed_all(started(NARROW), line.arrivals)
    changed = [index for index, one in enumerate(whole) if one.at_s > CHANGE_S]
    for index in changed:
        memory: ControllerMemory = whole[index].memory
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore([memory], [WIDE])
        again = feed_all(controller, read_again(plan, line.arrivals))
        assert as_bytes(again) == as_bytes(whole[index + 1 :]), f"killed after tick {whole[index].at_s}"


def test_memory_of_windows_that_nobody_needs_any_more_is_given_back() -> None:
    line = steady_line()
    for at_s in range(END_S, END_S + 60):
        if at_s == END_S:
            line.add("policies", NARROW, received_s=at_s + 0.5)
        line.samples([sample(at_s, running=6.0)])
    widest, narrow = started(NARROW), started(NARROW)
    feed_all(widest, steady_line().arrivals)
    effects = feed_all(narrow, line.arrivals)
    assert narrow.window_bytes < widest.window_bytes / 2
    assert inflight(effects)[END_S + 50] == {6.0}


def test_gpus_that_nobody_asked_for_are_not_read_after_a_kill_either() -> None:
    """Asked for, no more, and asked for again: what is read again is what was kept."""
    plain = policy()
    gpus = policy(metrics=[{"name": "inflight_requests", "target": 8}, {"name": "gpu_utilization", "target": 0.8}])
    line = Line()
    changes = {BEGIN_S + 20: gpus, BEGIN_S + 40: plain, BEGIN_S + 60: gpus}
    for at_s in range(BEGIN_S, END_S):
        if at_s in changes:
            line.add("policies", changes[at_s], received_s=at_s + 0.5)
        busy = 0.1 if at_s < BEGIN_S + 60 else 0.5
        line.add("telemetry.gpus", GpuSample(endpoint="chat", replica="r1", gpu="0", at_s=at_s, gpu_utilization=busy))
        line.samples([sample(at_s)])
    whole = feed_all(started(plain), line.arrivals)
    last = whole[-1].signal.windows["300"]["gpu_utilization"]
    assert last.value == 0.5
    for index, one in enumerate(whole):
        policies_read = one.memory.offsets.get("policies", 0)
        known = plain if policies_read == 0 else list(changes.values())[policies_read - 1]
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore([one.memory], [known], policies_read)
        again = feed_all(controller, read_again(plan, line.arrivals))
        assert as_bytes(again) == as_bytes(whole[index + 1 :]), f"killed after tick {one.at_s}"


def test_what_came_before_a_policy_was_made_again_is_not_read_after_a_kill_either() -> None:
    """The fleet before its deletion was busy: nothing of it is in the windows of the one after."""
    gpus = policy(metrics=[{"name": "inflight_requests", "target": 8}, {"name": "gpu_utilization", "target": 0.8}])
    line = Line()
    for at_s in range(BEGIN_S, END_S + 60):
        if at_s == BEGIN_S + 40:
            line.add("policies", PolicyDeleted("chat"), received_s=at_s + 0.5)
        if at_s == BEGIN_S + 60:
            line.add("policies", gpus, received_s=at_s + 0.5)
        is_busy = at_s < BEGIN_S + 60
        share = 0.9 if is_busy else 0.5
        line.add("telemetry.gpus", GpuSample(endpoint="chat", replica="r1", gpu="0", at_s=at_s, gpu_utilization=share))
        line.samples([sample(at_s, running=900.0 if is_busy else 6.0)])
    whole = [one for one in feed_all(started(gpus), line.arrivals) if one.at_s > BEGIN_S + 60]
    assert set().union(*inflight(whole).values()) == {6.0}
    for index, one in enumerate(whole):
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore([one.memory], [gpus], one.memory.offsets["policies"])
        again = feed_all(controller, read_again(plan, line.arrivals))
        assert as_bytes(again) == as_bytes(whole[index + 1 :]), f"killed after tick {one.at_s}"
