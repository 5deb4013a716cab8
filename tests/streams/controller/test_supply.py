"""What the signal says of replicas, from ReplicaChanged and from samples alone."""

from typing import Any

import pytest

from records.enums import ReplicaState, SupplySource
from records.signals import EndpointSignal
from records.telemetry import ReplicaChanged, TargetObserved
from streams.endpoints.supply import SupplyState
from tests.streams.controller.line import REQUESTS, Line, feed_all, policy, run, sample, started

R = ReplicaState


def changed(at_s: int, state: ReplicaState, replica: str = "r1", epoch: str = "e1", seq: int = 0) -> ReplicaChanged:
    return ReplicaChanged(endpoint="chat", replica=replica, epoch=epoch, at_s=at_s, state=state, seq=seq)


def signal(records: list[Any], at_s: int, **keys: Any) -> EndpointSignal:
    """That of the tick at `at_s`, time having passed to it."""
    line = Line()
    for record in records:
        line.add("telemetry.replicas" if isinstance(record, ReplicaChanged) else "telemetry.targets", record)
    controller = started(policy(**keys))
    made = [*feed_all(controller, line.arrivals), *controller.advance(at_s + 5.0)]
    return next(one.signal for one in made if one.at_s == at_s)


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        # ready, starting, draining, unschedulable, failed
        (R.REQUESTED, (0, 1, 0, 0, 0)),
        (R.UNSCHEDULABLE, (0, 0, 0, 1, 0)),
        (R.STARTING, (0, 1, 0, 0, 0)),
        (R.READY, (1, 0, 0, 0, 0)),
        (R.DRAINING, (0, 0, 1, 0, 0)),
        (R.GONE, (0, 0, 0, 0, 0)),
        (R.FAILED, (0, 0, 0, 0, 1)),
    ],
)
def test_each_state_counts_once(state: ReplicaState, counts: tuple[int, ...]) -> None:
    supply = signal([changed(1000, state)], 1010).supply
    assert (supply.ready, supply.starting, supply.draining, supply.unschedulable, supply.failed) == counts
    assert supply.source is SupplySource.OBSERVED


def test_a_state_dates_from_its_first_record_and_age_from_the_request() -> None:
    records = [changed(1000, R.REQUESTED), changed(1020, R.STARTING), changed(1050, R.STARTING)]
    (starting,) = signal(records, 1060).supply.starting_replicas
    assert starting.age_s == 60


def test_records_out_of_order_and_of_an_older_epoch_change_nothing() -> None:
    supply = SupplyState()
    for record in (
        changed(1000, R.READY, epoch="a"),
        changed(1100, R.STARTING, epoch="b"),
        changed(1110, R.READY, epoch="b"),
        changed(1105, R.STARTING, epoch="b"),
        changed(1120, R.FAILED, epoch="a"),
    ):
        supply.apply(record)
    known = supply.replicas["r1"]
    assert (known.state, known.epoch, known.since_s, known.restarted_s) == (R.READY, "b", 1110, 1100)


@pytest.mark.parametrize(("starts", "p95"), [(4, 300.0), (5, 50.0), (6, 60.0)])
def test_the_startup_p95_is_measured_from_five_starts_on(starts: int, p95: float) -> None:
    records = []
    for number in range(1, starts + 1):
        records += [
            changed(1000, R.REQUESTED, f"r{number}"),
            changed(1000 + number, R.STARTING, f"r{number}"),
            changed(1000 + 10 * number, R.READY, f"r{number}"),
        ]
    assert signal(records, 1100).supply.startup_p95_s == p95


def test_a_request_without_a_process_is_where_a_start_is_measured_from() -> None:
    supply = SupplyState()
    for record in (
        changed(1000, R.REQUESTED, epoch=""),
        changed(1030, R.STARTING, epoch="uid/0"),
        changed(1090, R.READY, epoch="uid/0"),
    ):
        supply.apply(record)
    assert supply.starts_s == (90.0,)
    assert supply.replicas["r1"].restarted_s is None


def test_three_failed_starts_make_a_replica_no_supply_until_it_is_ready() -> None:
    records = []
    for epoch in range(3):
        records += [
            changed(1000 + 10 * epoch, R.STARTING, epoch=str(epoch)),
            changed(1005 + 10 * epoch, R.FAILED, epoch=str(epoch)),
            # A repeat is no other failure.
            changed(1006 + 10 * epoch, R.FAILED, epoch=str(epoch)),
        ]
    records.append(changed(1030, R.STARTING, epoch="3"))
    supply = signal(records, 1040).supply
    assert (supply.starting, supply.failed, supply.failed_starts) == (0, 1, 3)
    supply = signal([*records, changed(1045, R.READY, epoch="3")], 1050).supply
    assert (supply.ready, supply.failed, supply.failed_starts) == (1, 0, 0)


def test_surge_replicas_of_a_rollout_are_no_supply() -> None:
    replicas = [changed(1000, R.READY, f"r{number}") for number in range(3)]
    replicas += [changed(1000, R.STARTING, "r3"), changed(1001, R.STARTING, "r4")]
    target = TargetObserved(endpoint="chat", at_s=1002, spec_replicas=4, rollout=True)
    supply = signal([*replicas, target], 1010).supply
    assert (supply.ready, supply.starting) == (3, 1)
    # Within a rollout the oldest start is the one that stays.
    assert [one.replica for one in supply.starting_replicas] == ["r3"]


@pytest.mark.parametrize(
    ("observed", "rollout"),
    [
        ({"rollout": True, "spec_replicas": 3}, True),
        ({"rollout": None, "spec_replicas": 3, "updated_replicas": 1}, True),
        ({"rollout": None, "spec_replicas": 3, "updated_replicas": 3}, False),
        ({"rollout": False, "spec_replicas": 3, "updated_replicas": 1}, False),
    ],
)
def test_a_rollout_is_told_or_follows_from_the_updated_replicas(observed: dict[str, Any], rollout: bool) -> None:
    seen = signal([TargetObserved(endpoint="chat", at_s=1000, **observed)], 1010)
    assert seen.rollout is rollout
    assert [blocker.kind for blocker in seen.down_blockers if blocker.kind == "rollout"] == ["rollout"] * rollout


def test_a_rollout_blocks_going_down_for_a_window_after_it() -> None:
    def target(at_s: int, rollout: bool) -> TargetObserved:
        return TargetObserved(endpoint="chat", at_s=at_s, spec_replicas=3, rollout=rollout)

    records = [target(1000, True), target(1030, True), target(1060, False)]
    blockers = [one for one in signal(records, 1100).down_blockers if one.kind == "rollout"]
    assert [one.until_s for one in blockers] == [1360]
    assert not [one for one in signal(records, 1360).down_blockers if one.kind == "rollout"]


def test_the_newest_target_counts_and_a_null_spec_tells_nothing() -> None:
    def target(at_s: int, spec: int | None) -> TargetObserved:
        return TargetObserved(endpoint="chat", at_s=at_s, spec_replicas=spec)

    seen = signal([target(1000, 3), target(1010, 5), target(1005, 4), target(1015, None)], 1020)
    assert (seen.spec_replicas, seen.target_at_s) == (5, 1015)


def test_replicas_known_from_samples_alone_are_ready_and_inferred() -> None:
    line = Line()
    line.samples(sample(at_s, replica) for at_s in range(1000, 1030) for replica in ("r1", "r2"))
    supply = run(line)[-1].signal.supply
    assert (supply.source, supply.ready) == (SupplySource.INFERRED, 2)


def test_a_silent_inferred_replica_leaves_while_others_speak_but_not_when_all_are_silent() -> None:
    line = Line()
    line.samples(sample(at_s, "r1") for at_s in range(1000, 1100))
    for at_s in range(1000, 1060):
        line.add(REQUESTS, sample(at_s, "r2"))
    line.arrivals.sort(key=lambda arrival: arrival.received_s)
    controller = started(policy())
    offsets = iter(range(len(line.arrivals)))
    arrivals = [type(one)(one.topic, one.record, one.received_s, next(offsets)) for one in line.arrivals]
    assert feed_all(controller, arrivals)[-1].signal.supply.ready == 1
    assert list(controller.advance(2000.0))[-1].signal.supply.ready == 1


def test_samples_of_a_replica_that_is_gone_are_no_load_and_no_supply() -> None:
    """scenarios.md A11: a deleted pod's series continues."""
    line = Line()
    for replica in ("r1", "r2"):
        line.add("telemetry.replicas", changed(1000, R.READY, replica))
    line.samples(sample(at_s, replica, running=8.0) for at_s in range(1000, 1100) for replica in ("r1", "r2"))
    line.add("telemetry.replicas", changed(1100, R.GONE, "r2"), 1101.5)
    line.samples(sample(at_s, replica, running=8.0) for at_s in range(1101, 1160) for replica in ("r1", "r2"))
    seen = run(line)[-1].signal
    assert seen.supply.ready == 1
    assert seen.windows["20"]["inflight_requests"].value == 8.0
    assert [one.replica for one in seen.drain_order] == ["r1"]


def test_a_replica_unheard_for_longer_than_patience_leaves_the_coverage() -> None:
    line = Line()
    for replica in ("r1", "r2"):
        line.add("telemetry.replicas", changed(1000, R.READY, replica))
    line.samples(sample(at_s, "r1") for at_s in range(1000, 1200))
    made = run(line, policy(patienceSeconds=120))
    by_tick = {one.at_s: one.signal for one in made}
    assert by_tick[1115].unheard == ()
    assert by_tick[1115].windows["20"]["inflight_requests"].coverage == 0.5
    assert "coverage" in {one.kind for one in by_tick[1115].down_blockers}
    assert by_tick[1125].unheard == ("r2",)
    assert by_tick[1125].windows["20"]["inflight_requests"].coverage == 1.0
    assert "coverage" not in {one.kind for one in by_tick[1125].down_blockers}
