"""Frames of the same replicas, second after second, are taken by short cuts; without these the ticks are the same."""

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from records.histogram import Histogram
from records.policy import EndpointPolicy
from records.telemetry import RequestSample
from streams.controller.rebuild import REQUESTS
from streams.controller.sample_intake import SampleIntake
from streams.controller.sample_run import SampleRun
from streams.endpoints.effects import Count
from streams.shell.sample_frames import SampleFrames
from streams.windows.columns import SampleColumns
from streams.windows.steady import SteadyWriter
from tests.streams.controller.line import as_bytes, policy, sample, started
from wire.frames import decode_frame, encode_frames

START_S = 1_700_000_090
"""A period of the intake's ends at START_S + 10."""
SECONDS = 40
POLICIES = (
    policy("alpha", metrics=[{"name": "inflight_requests", "target": 8}, {"name": "ttft", "target": 400}]),
    policy("beta", scaleDown={"windowSeconds": 60}),
    policy("gamma"),
)
LONG = policy("gamma", scaleDown={"windowSeconds": 900})
"""Its samples go into other windows than those of the others."""
QUIRKS = ("none",) * 8 + ("missing", "twice", "late", "ahead", "stranger", "astray", "restart", "two seconds", "bounds")

Message = list[RequestSample]


class Agent:
    """Reports some replicas of some endpoints each second, in one order; the clock of one may be off."""

    def __init__(self, random: Random, number: int) -> None:
        endpoints = random.sample(("alpha", "beta", "gamma"), random.choice((1, 3)))
        self._names = [(endpoint, f"{endpoint}-{number}-{place}") for endpoint in endpoints for place in range(3)]
        self._skewed = random.choice((None, *self._names))
        self._skew_s = random.choice((-20, 9, 12))
        self._epoch = "e1"

    def second(self, random: Random, at_s: int, quirk: str) -> Message:
        found = [self._sample(random, name, at_s) for name in self._names]
        match quirk:
            case "missing":
                del found[random.randrange(len(found))]
            case "twice":
                found.append(msgspec.structs.replace(found[0], seq=2, running=1.0))
            case "late":
                found.append(self._sample(random, self._names[0], at_s - random.choice((3, 30, 400))))
            case "ahead":
                found.append(self._sample(random, self._names[0], at_s + random.choice((2, 8, 100))))
            case "stranger":
                found.append(self._sample(random, ("nobody", "n"), at_s))
            case "astray":
                found.append(self._sample(random, ("elsewhere", "n"), at_s))
            case "restart":
                self._epoch = f"e{at_s}"
            case "two seconds":
                found += [self._sample(random, name, at_s + 1) for name in self._names]
            case "bounds":
                found = [self._with_bounds(each) for each in found]
        return found

    def _sample(self, random: Random, name: tuple[str, str], at_s: int) -> RequestSample:
        endpoint, replica = name
        counts = tuple(random.randrange(4) for _ in range(3))
        return sample(
            at_s + (self._skew_s if name == self._skewed else 0),
            replica,
            endpoint=endpoint,
            epoch=self._epoch,
            seq=1,
            running=random.choice((3.5, 4.0)),
            received_s=at_s + 1 + random.random(),
            ttft_ms={"explicit_bounds": [50.0, 200.0], "bucket_counts": counts, "sum": 8.5},
        )

    def _with_bounds(self, found: RequestSample) -> RequestSample:
        histogram = Histogram(explicit_bounds=(100.0,), bucket_counts=(2, 1), sum=90.0)
        return msgspec.structs.replace(found, ttft_ms=histogram)


def some_messages(seed: int) -> list[tuple[float, Message]]:
    random = Random(seed)
    agents = [Agent(random, number) for number in range(random.randrange(1, 4))]
    messages = []
    for at_s in range(START_S, START_S + SECONDS):
        for agent in agents:
            found = agent.second(random, at_s, random.choice(QUIRKS))
            messages += [(at_s + 1.5, frame.samples) for frame in encode_frames(found)]
    return messages


def ticks_of(
    messages: list[tuple[float, Message]], last: EndpointPolicy, *, by_frames: bool
) -> tuple[list[bytes], dict[Count, int]]:
    controller, frames = started(*POLICIES[:2], last), SampleFrames()
    effects = []
    for offset, (stamp_s, message) in enumerate(messages):
        (frame,) = encode_frames(message)
        found = frames.read(frame.value) if by_frames else decode_frame(REQUESTS, frame.value)
        received_s = found.received_s(stamp_s)
        columns = frames.columns(found, received_s) if by_frames else SampleColumns.from_records(message, received_s)
        effects += controller.feed(REQUESTS, columns, np.full(len(message), offset), received_s)
    effects += controller.finish()
    return as_bytes(effects), controller.counts.by_kind


@pytest.mark.parametrize("seed", range(12))
def test_short_cuts_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    messages, last = some_messages(seed), LONG if seed % 4 == 3 else POLICIES[2]
    taken: dict[str, int] = dict.fromkeys(("whole", "steady", "known"), 0)

    def counting(name: str, function: Any) -> Any:
        def counted(*arguments: Any) -> bool:
            found: bool = function(*arguments)
            taken[name] += found
            return found

        return counted

    with monkeypatch.context() as counted:
        counted.setattr(SteadyWriter, "write", counting("steady", SteadyWriter.write))
        counted.setattr(SampleIntake, "_is_known", counting("known", SampleIntake._is_known))
        whole = SampleRun.is_one_message.fget  # type: ignore[attr-defined]  # mypy takes a property for its value
        counted.setattr(SampleRun, "is_one_message", property(counting("whole", whole)))
        found, counts = ticks_of(messages, last, by_frames=True)
    with monkeypatch.context() as slow:
        slow.setattr(SteadyWriter, "write", lambda *_: False)
        slow.setattr(SampleIntake, "_is_known", lambda *_: False)
        slow.setattr(SampleRun, "is_one_message", False)
        expected, expected_counts = ticks_of(messages, last, by_frames=False)
    assert found == expected
    assert counts == expected_counts
    assert taken["whole"] > 5
    assert taken["known"] > 5
    assert taken["steady"] > 5


def test_a_second_that_was_looked_at_is_doubted_though_a_new_endpoint_comes_with_it() -> None:
    controller = started(*POLICIES[:2])
    numbers = iter(range(100))

    def feed(*message: RequestSample) -> None:
        columns = SampleColumns.from_records(message, np.array([each.at_s + 1.5 for each in message]))
        controller.feed(REQUESTS, columns, np.full(len(message), next(numbers)), columns.received_s)

    for at_s in range(1000, 1020):
        feed(sample(at_s, endpoint="alpha"))
    checks = controller._registry.states["alpha"].checks
    assert checks.looked_to > 1011
    feed(sample(1011, endpoint="alpha", replica="r2"), sample(1018, endpoint="beta"))
    assert checks.looked_to == 1010


@pytest.mark.parametrize("seed", range(20))
def test_names_are_admitted_as_they_would_be_without_memory(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few have room, and periods pass at other times for each endpoint."""
    monkeypatch.setattr("streams.controller.sample_intake.SERIES_MAX", 2)
    monkeypatch.setattr("streams.controller.sample_intake.BOUNDS_MAX", 1)
    random = Random(seed)
    batches = []
    for _ in range(4):
        names = random.sample([(endpoint, f"r{number}") for endpoint in ("alpha", "beta") for number in range(4)], 3)
        message = [sample(1, replica, endpoint=endpoint) for endpoint, replica in names]
        bounds = random.choice(((1.0,), (1.0,), (1.0,), (2.0,)))
        counted = Histogram(explicit_bounds=bounds, bucket_counts=(1, 1))
        batches.append([msgspec.structs.replace(each, ttft_ms=random.choice((None, counted))) for each in message])
    columns = [SampleColumns.from_records(batch, np.zeros(3)) for batch in batches]
    known, forgetful = SampleIntake(), SampleIntake()
    now_s, quick = 0.0, 0
    for _ in range(150):
        now_s = max(0.0, now_s + random.choice((-40.0, 0.0, 10.0, 10.0, 150.0)))
        one = replace(random.choice(columns), received_s=now_s + np.array([0.0, random.choice((0.0, 5.0)), 1.0]))
        rows = one.identities.all_rows
        quick += known._is_known(one)
        forgetful._known.clear()
        found, expected = known.admit(one, rows), forgetful.admit(one, rows)
        assert found.rows.tolist() == expected.rows.tolist()
        assert (found.refused.tolist(), found.histograms_refused) == (
            expected.refused.tolist(),
            expected.histograms_refused,
        )
    assert quick < 147


def test_a_name_that_is_heard_again_after_its_period_passed_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.controller.sample_intake.SERIES_MAX", 2)
    intake = SampleIntake()
    columns = {name: SampleColumns.from_records([sample(1, name)], np.zeros(1)) for name in ("a", "b", "c")}

    def is_admitted(name: str, received_s: float) -> bool:
        one = replace(columns[name], received_s=np.array([received_s]))
        return len(intake.admit(one, one.identities.all_rows).rows) == 1

    heard = [("a", 10.0), ("a", 20.0), ("b", 310.0), ("a", 290.0), ("b", 610.0), ("c", 620.0)]
    assert [is_admitted(*one) for one in heard] == [True] * 5 + [False]
