"""A tick has the same bytes whether its endpoint is read alone or with others, and whichever way it is read."""

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

from streams.controller.controller import PartitionController
from streams.endpoints.effects import TickEffects
from streams.endpoints.standing import Kind
from streams.signals import standing_windows
from streams.signals.standing import Kinds
from tests.seeds import seeds
from tests.streams.controller.line import as_bytes, feed_all, policy, started
from tests.streams.controller.steady_line import steady_line

ENDPOINTS = 12
SECONDS = 130


def _by_endpoint(effects: Sequence[TickEffects]) -> dict[str, list[bytes]]:
    found = defaultdict(list)
    for one, encoded in zip(effects, as_bytes(effects), strict=True):
        found[one.endpoint].append(encoded)
    return found


@pytest.mark.parametrize("seed", seeds(30, quick=6))
def test_reading_together_or_alone_gives_the_same_bytes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    line, policies = steady_line(seed, ENDPOINTS, SECONDS)
    sizes: list[int] = []
    taken = standing_windows.StandingWindows.__init__

    def noted(windows: standing_windows.StandingWindows, members: standing_windows.Members, *rest: object) -> None:
        sizes.append(len(members))
        taken(windows, members, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(standing_windows.StandingWindows, "__init__", noted)
    together = feed_all(started(*policies), line.arrivals, random.Random(seed))
    by_endpoint = _by_endpoint(together)
    assert max(sizes) > 1
    assert sum(sizes) > len(together) / 10, "too few ticks were read together for this to say anything"
    one_policy = policies[seed % ENDPOINTS]
    alone = _by_endpoint(feed_all(started(one_policy), line.arrivals, random.Random(seed + 1)))
    assert alone[one_policy.endpoint] == by_endpoint[one_policy.endpoint]
    monkeypatch.setattr(Kinds, "of", lambda *_: None)
    one_by_one = feed_all(started(*policies), line.arrivals, random.Random(seed + 2))
    assert as_bytes(one_by_one) == as_bytes(together)


def test_endpoints_whose_targets_differ_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    line, _ = steady_line(1, 4, 60)
    names = sorted({arrival.record.endpoint for arrival in line.arrivals})
    policies = [
        policy(name, metrics=[{"name": "inflight_requests", "target": 2 + number}]) for number, name in enumerate(names)
    ]
    kinds = set()
    of = Kinds.of

    def noted(known: Kinds, *rest: object) -> Kind | None:
        found = of(known, *rest)  # type: ignore[arg-type]  # passed on as they came
        kinds.add(found)
        return found

    monkeypatch.setattr(Kinds, "of", noted)
    feed_all(started(*policies), line.arrivals, random.Random(1))
    assert len(kinds) == 1
    assert None not in kinds


@pytest.mark.parametrize("seed", seeds(10, quick=2))
def test_time_that_passes_at_once_makes_the_ticks_of_time_that_passes_bit_by_bit(seed: int) -> None:
    line, policies = steady_line(seed, ENDPOINTS, 60)

    def fed() -> PartitionController:
        controller = started(*policies)
        feed_all(controller, line.arrivals, random.Random(seed))
        return controller

    at_once, bit_by_bit = fed(), fed()
    begun_s = at_once.processed_s or 0.0
    whole = list(at_once.advance(begun_s + 40))
    pieces = [one for second in range(1, 41) for one in bit_by_bit.advance(begun_s + second)]
    assert [(one.endpoint, one.at_s, one.signal.windows) for one in whole] == [
        (one.endpoint, one.at_s, one.signal.windows) for one in pieces
    ]
