"""One line lets no more than a week pass, and its ticks come out one by one."""

import json
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from headrace.replay import Replay
from records.enums import BadInput
from records.outcomes import DeadLetter
from streams.controller.controller import PartitionController
from streams.controller.tick_maker import DueTick, TickMaker
from streams.endpoints.effects import TickEffects
from tests.replay.test_replay_command import engine
from tests.streams.controller.line import policy
from tests.streams.controller.random_line import POLICIES, random_line

DAY_S = 86_400
FAR_S = 253_402_300_799
FAR_LINES = [
    (engine(FAR_S), "received_s"),
    (engine(1010, received_s=FAR_S), "received_s"),
    (json.dumps({"topic": "clock", "received_s": FAR_S}), "received_s"),
    (json.dumps({"topic": "clock", "received_s": FAR_S, "behind": True}), "received_s"),
    (json.dumps({"topic": "clock", "received_s": 1010.0, "last_tick": FAR_S}), "last_tick"),
]


class Written(Exception):  # noqa: N818  # no error: the first record ends the replay
    pass


def _replayed(lines: list[str]) -> list[tuple[str, msgspec.Struct]]:
    made: list[tuple[str, msgspec.Struct]] = []
    replay = Replay((policy("alpha"),), lambda topic, record: made.append((topic, record)), source="file:t.jsonl")
    for line in lines:
        replay.take(line.encode())
    replay.finish()
    return made


@pytest.mark.parametrize(("far", "field"), FAR_LINES)
def test_a_line_far_in_the_future_becomes_a_dead_letter(far: str, field: str) -> None:
    good = [engine(at_s) for at_s in range(1000, 1030)]
    made = _replayed([*good[:10], far, *good[10:]])
    (letter,) = [record for _, record in made if isinstance(record, DeadLetter)]
    assert (letter.offset, letter.reason, letter.field) == (11, BadInput.OUT_OF_RANGE, field)
    assert letter.value is not None
    assert int(float(letter.value)) in (FAR_S, FAR_S + 1)
    assert letter.detail is not None
    assert letter.detail.startswith("Expected `float` <= 6058")
    assert [one for one in made if one[0] != "deadletters"] == _replayed(good)


def test_a_week_is_in_reach_and_no_more() -> None:
    end = 1001.0 + 7 * DAY_S
    replay = Replay((), lambda topic, record: None, source="file:t.jsonl")
    replay.take(engine(1000).encode())
    replay.take(json.dumps({"topic": "clock", "received_s": end + 0.1}).encode())
    assert replay.dead_letters == 1
    replay.take(json.dumps({"topic": "clock", "received_s": end}).encode())
    assert replay.dead_letters == 1


@pytest.mark.parametrize("line", [json.dumps({"topic": "clock", "received_s": 500_000}), engine(499_999)])
def test_ticks_of_a_long_time_come_out_as_they_are_made(line: str) -> None:
    """The first of 100,000 is written before the others are made: the writer ends it there."""
    made: list[msgspec.Struct] = []

    def write(topic: str, record: msgspec.Struct) -> None:
        made.append(record)
        raise Written

    replay = Replay((policy("alpha"),), write, source="file:t.jsonl")
    replay.take(engine(1000).encode())
    replay.take(engine(1001).encode())
    replay.take(json.dumps({"topic": "clock", "received_s": 1003.0}).encode())
    with pytest.raises(Written):
        replay.take(line.encode())
    assert len(made) == 1


def test_ticks_are_made_second_by_second_in_the_order_of_their_times(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, str]] = []
    make = TickMaker.make

    def noted(maker: TickMaker, due: Sequence[DueTick]) -> list[TickEffects]:
        effects = make(maker, due)
        made.extend((one.at_s, one.endpoint) for one in effects)
        return effects

    controller = PartitionController(0, lambda endpoint: True)
    controller.restore((), POLICIES)
    for one in random_line(1, 120).arrivals:
        controller.feed(one.topic, [one.record], np.array([one.offset]), np.array([one.received_s]))
    monkeypatch.setattr(TickMaker, "make", noted)
    taken = []
    for effects in controller.advance((controller.processed_s or 0.0) + 400.0):
        taken.append((effects.at_s, effects.endpoint))
        assert len(made) <= len(taken) + len(POLICIES), "one of each endpoint may wait for the others'"
    assert taken == sorted(made)
    assert len(taken) > 100
