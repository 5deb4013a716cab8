"""The audit of the chaos run finds what it is there for: each fault is planted alone into what was told."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.line.chaos_audit import Told, compare

FIRST_S, TICKS = 1_000, 8
LAST_TICK_S = FIRST_S + 5 * (TICKS - 1)
Decision = dict[str, Any]


class Copy:
    """What was told, to be spoilt."""

    def __init__(self) -> None:
        self.decisions = {name: [_decision(name, number) for number in range(TICKS)] for name in ("a", "b")}
        self.windows = {name: [(FIRST_S + 5 * n, f"{name} {n}") for n in range(TICKS)] for name in ("a", "b")}

    def told(self) -> Told:
        return Told(decisions=self.decisions, windows=self.windows)

    def hold(self, number: int, reason: str) -> None:
        """Endpoint a's decision as another one would be, and the ids after it."""
        self.decisions["a"][number] |= {"action": "hold", "desired": 2, "reason": reason, "decision_id": "other"}
        self.decisions["a"][number + 1]["previous_id"] = "other"


def _decision(endpoint: str, number: int) -> Decision:
    return {
        "endpoint": endpoint,
        "at_s": FIRST_S + 5 * number,
        "decision_id": f"{endpoint}{number}",
        "previous_id": f"{endpoint}{number - 1}" if number else None,
        "action": "scale_up",
        "reason": "metric",
        "current": 1,
        "desired": number,
        "skipped": None,
    }


def _tick_removed(copy: Copy) -> None:
    del copy.decisions["a"][3]
    copy.decisions["a"][3]["previous_id"] = "a2"


def _tick_doubled(copy: Copy) -> None:
    again = copy.decisions["a"][3] | {"decision_id": "again", "previous_id": "a3"}
    copy.decisions["a"].insert(4, again)
    copy.decisions["a"][5]["previous_id"] = "again"


def _chain_broken(copy: Copy) -> None:
    copy.decisions["a"][3]["previous_id"] = "else"


def _decision_changed(copy: Copy) -> None:
    copy.decisions["a"][3]["desired"] = 7


def _held_without_saying_why(copy: Copy) -> None:
    copy.hold(3, "within_target")


def _sample_lost(copy: Copy) -> None:
    copy.windows["a"][3] = (FIRST_S + 15, "one sample less")


def _signal_removed(copy: Copy) -> None:
    del copy.windows["a"][3]


def _signal_doubled(copy: Copy) -> None:
    copy.windows["a"].insert(3, copy.windows["a"][3])


def _endpoint_silent(copy: Copy) -> None:
    del copy.decisions["b"]


def _begins_late(copy: Copy) -> None:
    del copy.decisions["a"][0]
    copy.decisions["a"][0]["previous_id"] = None


def _ends_early(copy: Copy) -> None:
    del copy.decisions["a"][-1]


FAULTS: list[Callable[[Copy], None]] = [
    *(_tick_removed, _tick_doubled, _chain_broken, _decision_changed, _held_without_saying_why, _sample_lost),
    *(_signal_removed, _signal_doubled, _endpoint_silent, _begins_late, _ends_early),
]


def test_the_undisturbed_run_is_equal_to_itself() -> None:
    assert compare(Copy().told(), Copy().told(), LAST_TICK_S) == {}


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_fault_is_found(plant: Callable[[Copy], None]) -> None:
    spoilt = Copy()
    plant(spoilt)
    with pytest.raises(AssertionError):
        compare(spoilt.told(), Copy().told(), LAST_TICK_S)


def test_holds_that_say_what_they_lack_are_counted() -> None:
    copy = Copy()
    copy.hold(3, "insufficient_evidence")
    assert compare(copy.told(), Copy().told(), LAST_TICK_S) == {"a": [FIRST_S + 15]}


def test_the_same_for_another_reason_counts_where_ticks_were_held_before() -> None:
    copy = Copy()
    copy.decisions["a"][4]["reason"] = "target_changed"
    with pytest.raises(AssertionError):
        compare(copy.told(), Copy().told(), LAST_TICK_S)
    copy.hold(2, "unknown")
    assert compare(copy.told(), Copy().told(), LAST_TICK_S) == {"a": [FIRST_S + 10, FIRST_S + 20]}


def _three_skipped() -> Copy:
    copy = Copy()
    copy.hold(4, "skipped")
    copy.decisions["a"][4]["skipped"] = {"first_tick": FIRST_S + 10, "last_tick": FIRST_S + 20}
    copy.decisions["a"][4]["previous_id"] = "a1"
    del copy.decisions["a"][2:4]
    return copy


def test_skipped_ticks_are_counted_each() -> None:
    skipped = [FIRST_S + 10, FIRST_S + 15, FIRST_S + 20]
    assert compare(_three_skipped().told(), Copy().told(), LAST_TICK_S) == {"a": skipped}


def test_the_first_decision_after_a_skip_may_tell_what_changed_and_no_other_may() -> None:
    copy = _three_skipped()
    copy.decisions["a"][3] |= {"action": "hold", "desired": 2, "reason": "target_changed"}
    skipped = [FIRST_S + 10, FIRST_S + 15, FIRST_S + 20]
    assert compare(copy.told(), Copy().told(), LAST_TICK_S) == {"a": [*skipped, FIRST_S + 25]}
    copy.decisions["a"][4] |= {"action": "hold", "desired": 2, "reason": "target_changed"}
    with pytest.raises(AssertionError):
        compare(copy.told(), Copy().told(), LAST_TICK_S)
