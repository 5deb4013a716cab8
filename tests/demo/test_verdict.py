"""The first line of the closed loop's summary: whether the run shows how Headrace scales."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from headrace.demo.fleet.evidence import Evidence, Verdict, read_evidence
from headrace.demo.fleet.show import in_time_or_busy
from headrace.exit_codes import CannotRunError, ExitCode
from records.decisions import Candidate, ScalingDecision, SkippedTicks
from records.enums import MetricName, ScalingAction, ScalingReason, ValueState
from tests.demo.made_tables import write_tables
from tests.demo.test_history import POLICY, T, decision

FRESH = Evidence(endpoint="chat", fresh=95, partial=5)
HALF = Evidence(endpoint="burst", fresh=47, partial=3, blind=50)


def tick(second: int, *states: ValueState) -> ScalingDecision:
    """A hold whose metrics had these values over the window to go up, and fresh ones over the other."""
    windows = [(POLICY.scale_up.window_seconds, state) for state in states]
    windows.append((POLICY.scale_down.window_seconds, ValueState.FRESH))
    made = tuple(candidate(window_s, state) for window_s, state in windows)
    return msgspec.structs.replace(decision(second, ScalingAction.HOLD, 2, 2), candidates=made)


def candidate(window_s: int, state: ValueState) -> Candidate:
    has_value = state in (ValueState.FRESH, ValueState.PARTIAL)
    return Candidate(
        metric=MetricName.INFLIGHT_REQUESTS,
        percentile=None,
        window_s=window_s,
        observed=20.0 if has_value else None,
        state=state,
        coverage=0.5,
        target=10.0,
        proposed=2 if has_value else None,
        rejected_because="within the tolerance",
    )


def ticks() -> Iterator[ScalingDecision]:
    yield tick(0, ValueState.FRESH)
    yield tick(5, ValueState.STALE, ValueState.FRESH)
    yield tick(10, ValueState.UNDEFINED)
    yield tick(15, ValueState.PARTIAL)
    yield tick(20, ValueState.STALE)
    yield tick(25, ValueState.UNKNOWN)
    yield tick(30, ValueState.SUSPECT)
    yield msgspec.structs.replace(
        decision(60, ScalingAction.HOLD, 2, 2),
        reason=ScalingReason.SKIPPED,
        skipped=SkippedTicks(first_tick=T + 35, last_tick=T + 55),
    )


def test_ticks_are_counted_by_the_best_value_of_the_window_to_go_up(tmp_path: Path) -> None:
    root = write_tables(tmp_path / "tables", ticks())
    silent = msgspec.structs.replace(POLICY, endpoint="silent")
    assert read_evidence(root, [POLICY, silent]) == [
        Evidence(endpoint="burst", fresh=3, partial=1, blind=3 + 5),
        Evidence(endpoint="silent"),
    ]


@pytest.mark.parametrize(
    ("evidence", "is_exact", "is_fresh", "is_good"),
    [
        ([FRESH], True, True, True),
        ([FRESH], False, True, False),
        ([FRESH, HALF], True, False, False),
        ([FRESH, Evidence(endpoint="code")], True, False, False),
        ([Evidence(endpoint="burst", fresh=80, blind=20)], True, True, True),
        ([Evidence(endpoint="burst", fresh=79, partial=21)], True, False, False),
    ],
    ids=["fresh", "rows missing", "one stale", "one undecided", "just fresh", "just not"],
)
def test_the_worst_endpoint_decides(
    evidence: Sequence[Evidence], is_exact: bool, is_fresh: bool, is_good: bool
) -> None:
    verdict = Verdict(evidence=evidence, is_exact=is_exact, speed=10.0)
    assert (verdict.is_fresh, verdict.is_good) == (is_fresh, is_good)
    assert ("were NOT made from fresh signals" in verdict.words) == (not is_fresh)
    assert ("NOT every row" in verdict.words) == (not is_exact)


def test_what_was_too_little_is_told_with_its_cure() -> None:
    verdict = Verdict(evidence=[FRESH, HALF], is_exact=True, speed=10.0)
    assert "at 47 % of the 100 ticks of burst decisions were made from fresh signals, at 3 from a part" in verdict.words
    assert "make demo SPEED=5." in verdict.words
    assert "make demo SPEED=1." in replace(verdict, speed=1.5).words
    assert "SPEED" not in replace(verdict, speed=1.0).words, "nothing is slower"


@pytest.mark.parametrize(
    ("behind_s", "code"), [(964.0, ExitCode.INCOMPLETE), (3.0, ExitCode.UNAVAILABLE)], ids=["busy", "broken"]
)
async def test_what_never_comes_on_a_busy_machine_has_a_verdict_too(
    behind_s: float, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.demo.guards.SETTLE_S", 0.0)
    never = asyncio.Event()

    async def wait() -> None:
        await never.wait()

    with pytest.raises(CannotRunError) as ended:
        await in_time_or_busy(10.0, behind_s, wait(), "samples")
    assert ended.value.code is code
    assert ended.value.message.startswith("Verdict: ") == (code is ExitCode.INCOMPLETE)
    assert ("make demo SPEED=5" in ended.value.message) == (code is ExitCode.INCOMPLETE)
