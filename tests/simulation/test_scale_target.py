"""Compare-and-set: no change is lost, whoever makes them in whatever order."""

from dataclasses import dataclass

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from simulation.scale_target import (
    MARK_EXPIRES_S,
    Accepted,
    Conflict,
    DrainRequest,
    Refused,
    ScaleRequest,
    ScaleTarget,
    Target,
)

UID = "6f1c1a52-0000-5000-8000-000000000001"


def a_target(spec: int = 2, spec_max: int = 10, uid: str = UID) -> ScaleTarget:
    return ScaleTarget("chat", spec, spec_max, uid)


def ask(target: ScaleTarget, spec: int, decision: str | None = None, version: str | None = None) -> object:
    current = target.target.resource_version
    request = ScaleRequest(spec_replicas=spec, resource_version=version or current, decision_id=decision)
    return target.compare_and_set(request)


@pytest.mark.parametrize(
    ("spec", "decision", "versions", "generations"),
    [
        pytest.param(3, "b", 1, 1, id="another-count"),
        pytest.param(3, None, 1, 1, id="another-count-by-hand"),
        pytest.param(2, "b", 1, 0, id="the-same-count-by-another-decision"),
        pytest.param(2, None, 0, 0, id="the-same-count-by-hand"),
        pytest.param(2, "a", 0, 0, id="the-decision-applied-already"),
        pytest.param(5, "a", 0, 0, id="the-decision-applied-already-with-another-count"),
        pytest.param(0, "b", 1, 1, id="none"),
        pytest.param(10, "b", 1, 1, id="the-most"),
    ],
)
def test_what_an_accepted_request_changes(spec: int, decision: str | None, versions: int, generations: int) -> None:
    target = a_target(1)
    ask(target, 2, "a")
    before = target.target
    answer = ask(target, spec, decision)
    assert isinstance(answer, Accepted)
    assert answer.target == target.target
    assert answer.changed == bool(versions)
    assert (target.target.resource_version != before.resource_version) == bool(versions)
    assert target.target.generation == before.generation + generations
    assert target.target.spec_replicas == (2 if decision == "a" else spec)
    assert target.target.decision_id == (decision or "a")


def test_an_old_version_is_refused_with_the_target_as_it_is() -> None:
    target = a_target()
    old = target.target.resource_version
    ask(target, 5, "a")
    answer = ask(target, 3, "b", old)
    assert isinstance(answer, Conflict)
    assert answer.target == target.target
    assert old in answer.error
    assert target.target.spec_replicas == 5


def test_a_decision_applied_already_is_answered_whatever_its_version() -> None:
    target = a_target()
    old = target.target.resource_version
    ask(target, 5, "a")
    assert ask(target, 5, "a", old) == Accepted(target=target.target, changed=False)


@pytest.mark.parametrize("spec", [-1, 11, 10_000])
def test_a_count_out_of_bounds_is_named_with_the_bounds(spec: int) -> None:
    target = a_target()
    assert ask(target, spec) == Refused(error=f"spec_replicas: {spec}, allowed: 0 to 10")
    assert target.target.spec_replicas == 2


def test_versions_differ_between_two_starts() -> None:
    other = a_target(uid="6f1c1a52-0000-5000-8000-000000000002")
    assert a_target().target.resource_version != other.target.resource_version


def test_the_status_changes_no_version() -> None:
    target = a_target()
    before = target.target
    after = target.observe(status_replicas=3, ready_replicas=1, generation=1)
    assert after == msgspec.structs.replace(before, status_replicas=3, ready_replicas=1)


def test_marks_are_in_the_order_of_the_newest_call_and_expire() -> None:
    target = a_target()
    target.mark(DrainRequest(replicas=("a", "b"), deadline_s=30), 100.0)
    target.mark(DrainRequest(replicas=("d", "c"), deadline_s=40), 110.0)
    assert [mark.replica for mark in target.marks(120.0)] == ["d", "c", "a", "b"]
    target.mark(DrainRequest(replicas=("b",), deadline_s=50), 130.0)
    assert [(mark.replica, mark.deadline_s) for mark in target.marks(131.0)] == [
        *(("b", 50), ("d", 40), ("c", 40), ("a", 30))
    ]
    assert [mark.replica for mark in target.marks(100.0 + MARK_EXPIRES_S)] == ["b", "d", "c"]
    target.unmark("d")
    assert [mark.replica for mark in target.marks(161.0)] == ["b", "c"]


@dataclass
class Client:
    """Adds one replica at a time, as the newest target it read says; so every accepted change is one more."""

    seen: Target
    added: int = 0
    number: int = 0

    def read(self, target: ScaleTarget) -> None:
        self.seen = target.target

    def write(self, target: ScaleTarget, name: str) -> None:
        self.number += 1
        request = ScaleRequest(
            spec_replicas=self.seen.spec_replicas + 1,
            resource_version=self.seen.resource_version,
            decision_id=f"{name}{self.number}",
        )
        before = target.target
        match target.compare_and_set(request):
            case Accepted(changed=True):
                assert self.seen.resource_version == before.resource_version
                assert self.seen.spec_replicas == before.spec_replicas
                self.added += 1
            case Conflict():
                assert target.target == before
                assert self.seen.resource_version != before.resource_version
            case other:
                raise AssertionError(other)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["read", "write"])), max_size=60))
def test_two_clients_in_any_order_lose_no_update(steps: list[tuple[str, str]]) -> None:
    target = a_target(spec=0, spec_max=100)
    clients = {name: Client(target.target) for name in "ab"}
    versions = [target.target.resource_version]
    for name, step in steps:
        if step == "read":
            clients[name].read(target)
        else:
            clients[name].write(target, name)
        if target.target.resource_version != versions[-1]:
            versions.append(target.target.resource_version)
    added = sum(client.added for client in clients.values())
    assert target.target.spec_replicas == added
    assert target.target.generation == 1 + added
    assert len(set(versions)) == len(versions) == 1 + added
