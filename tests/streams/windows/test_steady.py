"""Batches that simply go on are written the quick way, others the general one; both give what naive windows have."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from records.enums import Source
from records.histogram import Histogram
from records.telemetry import RequestSample
from streams.windows.columns import SampleColumns
from streams.windows.identities import Identities, KnownIdentities
from streams.windows.steady import SteadyWriter
from tests.streams.windows.sample_strategies import CROWDED_NAMES, NAMES, START_S, VARIANTS
from tests.streams.windows.test_windows_against_naive import ENDPOINTS, SPAN_S, Pair
from wire.frames import decode_frame, encode_frames

SECONDS = 30
QUIRKS = ("none",) * 6 + (
    "twice",
    "again",
    "replaced",
    "late",
    "ahead",
    "reordered",
    "missing",
    "restarted",
    "two seconds",
    "skipped",
    "gateway",
    "alias",
    "many",
    "bounds",
)
COUNTED = tuple(
    Histogram(explicit_bounds=bounds, bucket_counts=(count,) * (len(bounds) + 1), sum=1.5)
    for bounds, count in (((10.0, 20.0), 3), ((10.0, 20.0), 300), ((5.0,), 2))
)
"""Small counts, counts that need wider rings, and other bounds."""


SERIES = tuple(
    {
        (*(*name.values(),)[:4], name["reporter"] or name["replica"]): name
        for name in NAMES
        if name["reporter"] != "r2"
    }.values()
)
"""Each series once; no more than two reporters of one source, so that means are exact."""


class Agent:
    """Sends the same few series in the same order each second."""

    def __init__(self, random: Random) -> None:
        self._names = random.sample([name for name in SERIES if name["replica"]], random.randrange(1, 6))
        self._full = random.choice(("values", "histograms", "neither"))
        self._sent: list[RequestSample] = []

    def second(self, random: Random, at_s: int, quirk: str) -> list[RequestSample]:
        found = [self._sample(random, name, at_s) for name in self._names]
        match quirk:
            case "twice":
                found += [msgspec.structs.replace(random.choice(found), seq=random.randrange(3))]
            case "again":
                found = self._sent[-random.randrange(1, 5) :] + found
            case "replaced":
                found += [msgspec.structs.replace(each, seq=each.seq + 1, steps=77) for each in self._sent[-2:]]
            case "late":
                found += [self._sample(random, name, at_s - SPAN_S - 5) for name in self._names[:1]]
            case "ahead":
                found += [self._sample(random, name, at_s + SPAN_S - 3) for name in self._names[:1]]
            case "reordered":
                random.shuffle(found)
            case "missing":
                del found[0]
            case "restarted":
                self._names = [name | {"epoch": str(random.randrange(5))} for name in self._names]
            case "two seconds":
                found += [self._sample(random, name, at_s + 1) for name in self._names]
            case "skipped":
                found = []
            case "alias":
                found += [msgspec.structs.replace(each, reporter=each.replica) for each in found if not each.reporter]
            case "many" | "bounds":
                histogram = COUNTED[1 if quirk == "many" else 2]
                found = [msgspec.structs.replace(each, ttft_ms=histogram) for each in found]
            case "gateway":
                found += [self._sample(random, random.choice(SERIES), at_s)]
        self._sent += found
        return found

    def _sample(self, random: Random, name: dict[str, Any], at_s: int) -> RequestSample:
        variant = VARIANTS[random.randrange(len(VARIANTS)) if self._full == "values" else random.randrange(2)]
        if self._full == "histograms":
            variant = {"ttft_ms": COUNTED[0], "e2e_ms": COUNTED[0]}
        return RequestSample(**name, **variant, at_s=at_s, seq=random.randrange(3))


def add_framed(pair: Pair, known: KnownIdentities, batch: Sequence[RequestSample]) -> None:
    """The batch in frames, whose order is what counts."""
    for frame in encode_frames(batch):
        decoded = decode_frame("telemetry.requests", frame.value).batch
        received_s = np.array([sample.at_s + 1.0 for sample in frame.samples])
        columns = SampleColumns.from_arrow(decoded, received_s, known.of(decoded))
        pair.reports.append(pair.windows.add(columns))
        for sample in frame.samples:
            pair.naive[sample.endpoint].add(sample)


@pytest.mark.parametrize("seed", range(30))
def test_the_quick_way_and_the_general_one_give_what_the_naive_windows_have(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    write = SteadyWriter.write

    def count(self: SteadyWriter, columns: SampleColumns) -> bool:
        taken.append(write(self, columns))
        return taken[-1]

    monkeypatch.setattr(SteadyWriter, "write", count)
    # A series with a sample that waits is not steady before that one's turn.
    quirks = QUIRKS if seed % 2 else tuple(quirk for quirk in QUIRKS if quirk != "ahead")
    random, pair, known = Random(seed), Pair(), KnownIdentities()
    agents = [Agent(random) for _ in range(random.randrange(1, 4))]
    for at_s in range(START_S, START_S + SECONDS):
        for agent in agents:
            add_framed(pair, known, agent.second(random, at_s, random.choice(quirks)))
        for endpoint in ENDPOINTS:
            if at_s % 5 == 0 and (at_s > START_S + 20 or seed % 2 == 0):
                pair.keep_from(endpoint, at_s + 6 - (SPAN_S if seed % 3 else 20))
    pair.check(START_S + SECONDS - 14, START_S + SECONDS + 2)
    pair.check_counts()
    assert any(taken) or seed % 2
    assert not all(taken)


def test_the_same_names_are_the_same_object_and_others_are_not() -> None:
    known = KnownIdentities()
    batch = [RequestSample(**name, at_s=START_S) for name in NAMES[:40:3]]

    def of(rows: Sequence[RequestSample]) -> Identities:
        (frame,) = encode_frames(rows)
        decoded = decode_frame("telemetry.requests", frame.value).batch
        found = known.of(decoded)
        expected = Identities.of_frame(decoded)
        assert found.series == expected.series
        assert found.code.tolist() == expected.code.tolist()
        return found

    first = of(batch)
    assert of([msgspec.structs.replace(sample, at_s=START_S + 1, steps=3) for sample in batch]) is first
    for changed in (
        batch[1:],
        batch[::-1],
        [*batch[:-1], msgspec.structs.replace(batch[-1], reporter="r9")],
        [*batch[:-1], msgspec.structs.replace(batch[-1], reporter=None if batch[-1].reporter else "a")],
        [*batch[:-1], msgspec.structs.replace(batch[-1], endpoint=batch[-1].endpoint + "x")],
    ):
        assert of(changed) is not first
    assert of(batch) is first


def test_names_that_read_alike_one_after_the_other_are_told_apart() -> None:
    known = KnownIdentities()
    found = []
    for replicas in (("ab", "c"), ("a", "bc")):
        rows = [RequestSample(endpoint="chat", replica=name, at_s=1, source=Source.ENGINE) for name in replicas]
        (frame,) = encode_frames(rows)
        found.append(known.of(decode_frame("telemetry.requests", frame.value).batch))
    assert [[identity[1] for identity in one.series] for one in found] == [["ab", "c"], ["a", "bc"]]


def test_of_many_batches_the_ones_that_came_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.windows.identities.ROWS_KNOWN_MAX", 10)
    known = KnownIdentities()
    batches = []
    for number in range(5):
        rows = [
            RequestSample(endpoint="chat", replica=f"{number}-{row}", at_s=1, source=Source.ENGINE) for row in range(3)
        ]
        (frame,) = encode_frames(rows)
        batches.append(decode_frame("telemetry.requests", frame.value).batch)
    found = [known.of(batch) for batch in batches]
    assert [known.of(batch) is one for batch, one in zip(batches[2:], found[2:], strict=True)] == [True] * 3
    assert known.of(batches[0]) is not found[0]


@pytest.mark.parametrize("count", [254, 255, 65_534, 65_535, 2**32 - 2])
def test_counts_that_outgrow_their_rings_are_kept(count: int) -> None:
    pair = Pair()
    pair.keep_from("chat", START_S)
    identities = None
    for at_s, counts in ((START_S, 1), (START_S + 1, 2), (START_S + 2, count), (START_S + 3, 3)):
        histogram = Histogram(explicit_bounds=(5.0,), bucket_counts=(counts, counts), sum=None)
        batch = [RequestSample(**name, at_s=at_s, ttft_ms=histogram) for name in CROWDED_NAMES[:2]]
        columns = SampleColumns.from_records(batch, np.zeros(2))
        identities = identities or columns.identities
        assert pair.windows.add(replace(columns, identities=identities)).accepted == 2
        for sample in batch:
            pair.naive[sample.endpoint].add(sample)
    pair.check(START_S, START_S + 5)


def test_series_that_ended_come_back_beside_those_that_took_their_place() -> None:
    pair = Pair()
    first, second = (
        [RequestSample(endpoint="chat", replica=name, at_s=0, source=Source.ENGINE) for name in names]
        for names in ("ab", "cd")
    )
    columns: dict[int, SampleColumns] = {}
    for at_s, names in ((0, first), (1, first), (70, second), (71, second), (72, first), (73, second), (74, first)):
        batch = [msgspec.structs.replace(name, at_s=START_S + at_s, steps=at_s) for name in names]
        found = SampleColumns.from_records(batch, np.zeros(2))
        known = columns.setdefault(id(names), found).identities
        pair.keep_from("chat", START_S + at_s - 40)
        assert pair.windows.add(replace(found, identities=known)).accepted == 2
        for sample in batch:
            pair.naive[sample.endpoint].add(sample)
    pair.check(START_S + 60, START_S + 76)
