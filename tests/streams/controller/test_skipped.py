"""What is left unread under a load beyond capacity: told, remembered, and never taken for zero."""

import random

import msgspec
import pytest

from records.enums import ScalingAction, ScalingReason, ValueState
from records.memory import ControllerMemory
from records.signals import SkippedRecords
from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from tests.seeds import seeds
from tests.streams.controller.line import REQUESTS, Line, as_bytes, feed_all, policy, read_again, sample, started
from tests.streams.controller.random_line import POLICIES, random_line
from tests.streams.controller.skips import Gap
from wire.codec import decode, encode

SECONDS = 980
BUSY = policy(metrics=[{"name": "inflight_requests", "target": 2}])


def _line() -> Line:
    line = Line()
    line.samples(sample(1000 + second) for second in range(SECONDS))
    return line


def _made(first: int, end: int, *, cut: int = 1) -> list[TickEffects]:
    line = _line()
    gap = Gap.of(line.arrivals, first, end)
    return gap.feed(started(BUSY), line.arrivals, random.Random(cut))


def test_a_gap_is_partial_then_stale_then_unknown_and_never_zero() -> None:
    made = _made(300, 700)
    states = {one.at_s: one.signal.windows["20"]["inflight_requests"].state for one in made}
    assert states[1300] is ValueState.FRESH
    assert states[1310] is ValueState.PARTIAL
    assert states[1325] is ValueState.STALE
    assert states[1650] is ValueState.UNKNOWN
    assert states[1710] is ValueState.PARTIAL
    assert states[1720] is ValueState.FRESH
    values = {value.value for one in made for window in one.signal.windows.values() for value in window.values()}
    assert values == {4.0, None}


def test_the_first_tick_after_a_gap_tells_of_it_once() -> None:
    made = _made(300, 400)
    told = {one.at_s: one.signal.skipped_records for one in made if one.signal.skipped_records}
    (skipped,) = told[1300]
    assert (skipped.topic, skipped.first_offset, skipped.end_offset) == (REQUESTS, 300, 400)
    assert list(told) == [1300]
    assert all(one.signal.offsets[REQUESTS] >= 400 for one in made if one.at_s >= 1300)


def test_offsets_of_a_long_log_are_remembered() -> None:
    memory = next(one.memory for one in _made(300, 400) if one.memory.skipped_records)
    far = SkippedRecords(topic=REQUESTS, first_offset=2**40, end_offset=2**40 + 100, until_s=1400.0)
    remembered = msgspec.structs.replace(memory, skipped_records=(far,))
    assert decode("controllers", encode(remembered)) == remembered


def test_what_is_remembered_of_a_gap_ends_when_nothing_reads_it_again() -> None:
    remembering = [one.at_s for one in _made(300, 400) if one.memory.skipped_records]
    assert remembering == list(range(1300, 1945, 5))


@pytest.mark.parametrize("seconds", [30, 58, 70, 400])
def test_decisions_hold_through_a_gap_and_go_on_behind_it(seconds: int) -> None:
    """Every tick is decided, or inside what one hold says was skipped; nothing moves on what is past."""
    made = _made(300, 300 + seconds)
    assert [one.at_s for one in made] == list(range(1005, 1000 + SECONDS, 5))
    decided = [decision for one in made for decision in one.decisions]
    covered = [one.at_s for one in decided if one.reason is not ScalingReason.SKIPPED]
    for one in decided:
        if one.skipped is not None:
            covered += range(one.skipped.first_tick, one.skipped.last_tick + 5, 5)
    assert sorted(covered) == [one.at_s for one in made]
    inside = [one for one in decided if 1325 <= one.at_s <= 1300 + seconds]
    assert all(one.action is ScalingAction.HOLD for one in inside)
    assert decided[-1].reason is decided[50].reason


def test_nothing_is_skipped_before_the_windows_are_rebuilt() -> None:
    line = _line()
    memory = feed_all(started(BUSY), line.arrivals[:300])[-1].memory
    controller = started(BUSY, memories=[memory])
    with pytest.raises(RuntimeError, match="rebuilt"):
        controller.skip(Gap.of(line.arrivals, 300, 400).skipped[0])


@pytest.mark.parametrize("seed", seeds(40, quick=2))
def test_a_kill_after_a_gap_changes_nothing(seed: int) -> None:
    """Owners are killed anywhere; once a tick of any endpoint has told of the gap, all later ones leave it out."""
    rng = random.Random(seed)
    line = random_line(seed, 300)
    gap = Gap.anywhere(line.arrivals, rng)
    whole = gap.feed(started(*POLICIES), line.arrivals, rng)
    committed: list[TickEffects] = []
    memories: dict[str, ControllerMemory] = {}
    stops = sorted(rng.randint(0, len(line.arrivals)) for _ in range(4))
    for stop in [*stops, len(line.arrivals)]:
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore(memories.values(), POLICIES)
        made = gap.feed(controller, read_again(plan, line.arrivals[:stop]), rng)
        kept = made if stop == len(line.arrivals) else made[: rng.randint(0, len(made))]
        committed += kept
        memories.update({one.endpoint: one.memory for one in kept})
    for endpoint in {one.endpoint for one in whole}:
        assert as_bytes(_of(committed, endpoint)) == as_bytes(_of(whole, endpoint))


def _of(made: list[TickEffects], endpoint: str) -> list[TickEffects]:
    return [one for one in made if one.endpoint == endpoint]
