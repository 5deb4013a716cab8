"""Sides of a comparison that did not do the same work are told: the check of sums fails where it should."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.exact_sums import SCALE, ExactSums, UnequalSumsError
from bench.worker_line import ENDPOINTS, Fleet
from records.decisions import Candidate, Floors, ScalingDecision, Supply
from records.enums import MetricName, Mode, ScalingAction, ScalingReason, ValueState
from streams.windows.columns import SCALAR_FIELDS

FIRST_S, SECONDS, SIZE_S = 1_700_000_000, 12, 10
Lines = list[list[str]]


def sums_of_a_fleet() -> ExactSums:
    sums = ExactSums(FIRST_S, SECONDS)
    for _ in sums.counted(Fleet().samples(FIRST_S, SECONDS, replicas=2, full=False)):
        pass
    return sums


def windows_as_the_peer_writes_them(sums: ExactSums) -> Lines:
    """Its own order of fields, and sums in floating point with their rounding."""
    lines = [list(reversed(SCALAR_FIELDS))]
    for endpoint in ENDPOINTS:
        for start_s in range(FIRST_S - SIZE_S + 5, FIRST_S + SECONDS, 5):
            *values, samples = sums.of(endpoint, start_s, start_s + SIZE_S).tolist()
            scaled = [repr(value / SCALE + 1e-9) for value in reversed(values)]
            lines.append([endpoint, str(SIZE_S), str(start_s), *scaled, repr(float(samples))])
    return lines


def written(lines: Lines, folder: Path) -> Path:
    file = folder / "sums.tsv"
    file.write_text("".join("\t".join(line) + "\n" for line in lines))
    return file


def add_a_ten_thousandth(lines: Lines) -> None:
    lines[5][7] = repr(float(lines[5][7]) + 1 / SCALE)


def count_one_twice(lines: Lines) -> None:
    lines[9][-1] = repr(float(lines[9][-1]) + 1)


def lose_the_newest(lines: Lines) -> None:
    lines.pop()


def test_equal_windows_pass(tmp_path: Path) -> None:
    sums = sums_of_a_fleet()
    lines = windows_as_the_peer_writes_them(sums)
    assert sums.check_windows(written(lines, tmp_path), [SIZE_S]) == len(lines) - 1


@pytest.mark.parametrize("spoil", [add_a_ten_thousandth, count_one_twice, lose_the_newest])
def test_other_windows_are_told(spoil: Callable[[Lines], None], tmp_path: Path) -> None:
    sums = sums_of_a_fleet()
    lines = windows_as_the_peer_writes_them(sums)
    spoil(lines)
    with pytest.raises(UnequalSumsError, match="endpoint-"):
        sums.check_windows(written(lines, tmp_path), [SIZE_S])


def decision(observed: float | None) -> ScalingDecision:
    candidate = Candidate(
        metric=MetricName.INFLIGHT_REQUESTS,
        percentile=None,
        window_s=SIZE_S,
        observed=observed,
        state=ValueState.FRESH,
        coverage=1.0,
        target=8.0,
        proposed=1,
        rejected_because=None,
    )
    return ScalingDecision(
        endpoint=ENDPOINTS[3],
        at_s=FIRST_S + SIZE_S,
        decision_id="0" * 64,
        previous_id=None,
        policy_hash="0" * 64,
        mode=Mode.ACT,
        action=ScalingAction.HOLD,
        reason=ScalingReason.WITHIN_TARGET,
        bound=None,
        detail="",
        current=2,
        desired=2,
        candidates=(candidate,),
        floors=Floors(minimum=1),
        supply=Supply(ready=2, starting=0, draining=0, unschedulable=0, failed=0),
        gpus=None,
    )


def test_what_a_decision_observed_is_held_to_the_exact_mean() -> None:
    sums = sums_of_a_fleet()
    found = sums.of(ENDPOINTS[3], FIRST_S, FIRST_S + SIZE_S)
    inside = int(found[SCALAR_FIELDS.index("running")] + found[SCALAR_FIELDS.index("waiting")])
    mean = inside / SCALE / SIZE_S
    assert mean > 0
    assert sums.check_decisions([decision(mean)]) == 1
    with pytest.raises(UnequalSumsError, match="inflight_requests"):
        sums.check_decisions([decision(mean + 1e-6)])


def test_decisions_that_observed_nothing_say_nothing() -> None:
    with pytest.raises(UnequalSumsError, match="no decision observed anything"):
        sums_of_a_fleet().check_decisions([decision(None)])
