"""Reports that are left out, come late or come twice."""

from dataclasses import dataclass

import numpy as np
import pytest

from simulation.reporting_faults import ReportFault, ReportFaultKind, ReportingFaults


@dataclass(frozen=True)
class Sample:
    replica: str
    at_s: int


def told(*faults: tuple[ReportFault, int], seconds: int = 12, seed: int = 3) -> list[list[Sample]]:
    """What is told in each second of two replicas and the gateway."""
    reports = ReportingFaults[Sample](np.random.default_rng(seed))
    heard = []
    for second in range(seconds):
        for fault, begins in faults:
            if begins == second:
                reports.begin(fault, second)
        heard.append(reports.pass_on(second, [Sample(name, second) for name in ("a", "b", "")]))
    return heard


def test_without_a_fault_all_is_told_at_once() -> None:
    assert told(seconds=3) == [[Sample(name, second) for name in ("a", "b", "")] for second in range(3)]


def test_a_gap_leaves_out_one_replica_for_its_seconds() -> None:
    heard = told((ReportFault(kind=ReportFaultKind.GAP, seconds=3, replica="a"), 2))
    assert [sum(sample.replica == "a" for sample in one) for one in heard] == [1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    assert all(sum(sample.replica != "a" for sample in one) == 2 for one in heard)


def test_late_reports_come_in_their_order_before_those_of_the_second() -> None:
    heard = told((ReportFault(kind=ReportFaultKind.LATE, seconds=2, delay_s=4), 1))
    everyone = ("a", "b", "")
    assert heard[1] == heard[2] == []
    assert heard[5] == [Sample(name, at) for at in (1, 5) for name in everyone]
    assert heard[6] == [Sample(name, at) for at in (2, 6) for name in everyone]
    assert sum(len(one) for one in heard) == 36


def test_a_duplicate_is_told_at_once_and_again() -> None:
    heard = told((ReportFault(kind=ReportFaultKind.DUPLICATE, seconds=1, replica="", delay_s=1), 2))
    assert heard[2] == [Sample("a", 2), Sample("b", 2), Sample("", 2)]
    assert heard[3] == [Sample("", 2), Sample("a", 3), Sample("b", 3), Sample("", 3)]


def test_a_gap_counts_before_a_delay() -> None:
    gap = ReportFault(kind=ReportFaultKind.GAP, seconds=1)
    late = ReportFault(kind=ReportFaultKind.LATE, seconds=1)
    heard = told((late, 0), (gap, 0))
    assert [len(one) for one in heard] == [0, *[3] * 11]


@pytest.mark.parametrize("seed", [1, 2], ids=lambda seed: f"seed={seed}")
def test_a_share_of_the_reports_is_drawn_and_drawn_again_the_same(seed: int) -> None:
    fault = ReportFault(kind=ReportFaultKind.GAP, seconds=400, share=0.25)
    heard = told((fault, 0), seconds=400, seed=seed)
    assert heard == told((fault, 0), seconds=400, seed=seed)
    assert heard != told((fault, 0), seconds=400, seed=seed + 1)
    assert sum(len(one) for one in heard) / 1200 == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": 0}, "seconds must be at least 1, got 0"),
        ({"delay_s": 0}, "delay_s must be at least 1, got 0"),
        ({"share": 1.5}, "share must be in 0..1, got 1.5"),
        ({"share": float("nan")}, "share must be in 0..1, got nan"),
    ],
    ids=str,
)
def test_what_no_fault_can_be_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        ReportFault(**{"kind": ReportFaultKind.LATE, "seconds": 1, **changes})  # type: ignore[arg-type]  # on purpose
