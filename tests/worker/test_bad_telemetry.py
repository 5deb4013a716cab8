"""Each kind of bad telemetry once a second, as messages of the log: told or left out by count, and neighbours decide
what they would have decided without it."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from records.decisions import ScalingDecision
from records.enums import ValueState
from records.telemetry import RequestSample
from streams.shell.controller_source import ControllerSource
from streams.shell.worker_metrics import WorkerMetrics
from tests.streams.controller.line import policy, sample
from tests.wire.messages import FRAME_HEADERS, Consumed
from wire.batches import decode_messages
from wire.codec import encode
from wire.frames import encode_frames

TOPIC = "telemetry.requests"
START_S, SECONDS = 1_700_000_000, 60
BOUNDS = ([100.0, 1000.0], [50.0, 400.0, 2000.0])
POLICIES = [
    policy("alpha", metrics=[{"name": "inflight_requests", "target": 8}, {"name": "queue_depth", "target": 2}]),
    policy("beta"),
    policy("chat", metrics=[{"name": "inflight_requests", "target": 8}, {"name": "ttft", "target": 500}]),
]
Value = tuple[bytes | None, tuple[tuple[str, bytes], ...]]
"""A message's value and its headers."""
Bad = Callable[[int], list[Value]]
"""What comes in the second `at_s` beside the good samples; `chat` is its endpoint, and r2 its replica."""


def as_json(*samples: RequestSample) -> list[Value]:
    return [(encode(each), ()) for each in samples]


def as_frames(*samples: RequestSample) -> list[Value]:
    return [(frame.value, FRAME_HEADERS) for frame in encode_frames(samples)]


def framed(*batches: pa.RecordBatch) -> list[Value]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return [(bytes(sink.getvalue()), FRAME_HEADERS)]


def columns(second: int, **others: Any) -> dict[str, Any]:
    """Two rows: r2 and r3, with 4 requests each."""
    named = {"endpoint": ["chat"] * 2, "replica": ["r2", "r3"], "at_s": [second] * 2, "source": ["engine"] * 2}
    load = {"epoch": ["e1"] * 2, "running": [4.0, 4.0], "waiting": [0.0, 0.0]}
    known = {name: pa.array([1, 1] if name[0] in "ac" else [0, 0]) for name in ("arrivals", "completions", "errors")}
    return {**named, **load, **known, "aborted": pa.array([0, 0]), **others}


def frame(second: int, **others: Any) -> list[Value]:
    return framed(pa.record_batch({name: pa.array(value) for name, value in columns(second, **others).items()}))


def reordered_with_extra_columns(at_s: int) -> list[Value]:
    odd = pa.array([[{"x": 1}], None])
    found = {"nested": odd, "views": pa.array(["a", None], pa.string_view()), **columns(at_s)}
    return framed(pa.record_batch({name: pa.array(found[name]) for name in sorted(found, reverse=True)}))


def dictionary(indices: Sequence[int], values: Sequence[Any]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values), safe=False)


def dictionaries_that_differ(at_s: int) -> list[Value]:
    """The second batch of the stream replaces the dictionary of the first."""
    parts = []
    for number, names in enumerate((["r9", "r2"], ["r3", "r8"])):
        rows = {name: pa.array(value).slice(number, 1) for name, value in columns(at_s).items()}
        parts.append(pa.record_batch({**rows, "replica": dictionary([1 - number], names)}))
    return framed(*parts)


def a_column_twice(at_s: int) -> list[Value]:
    found = columns(at_s)
    arrays = [*(pa.array(value) for value in found.values()), pa.array([9.0, 9.0])]
    return framed(pa.RecordBatch.from_arrays(arrays, names=[*found, "running"]))


def with_counts(at_s: int, counts: Sequence[int | None]) -> list[Value]:
    """A histogram of which the second row has these counts."""
    histogram = pa.array([[1, 1, 1], counts], pa.list_(pa.uint32()))
    batch = pa.record_batch({name: pa.array(value) for name, value in columns(at_s, ttft_ms=histogram).items()})
    place = batch.schema.get_field_index("ttft_ms")
    bounds = batch.schema.field(place).with_metadata({"explicit_bounds": json.dumps(BOUNDS[0])})
    return framed(pa.RecordBatch.from_arrays(batch.columns, schema=batch.schema.set(place, bounds)))


def changing_bounds(at_s: int) -> list[Value]:
    bounds = BOUNDS[at_s % 2]
    histogram = {"explicit_bounds": bounds, "bucket_counts": [0, 1] + [0] * (len(bounds) - 1), "sum": 90.0}
    return as_frames(sample(at_s, "r2", ttft_ms=histogram))


def r2(at_s: int, shown_s: int | None = None, **fields: Any) -> list[Value]:
    """r2's sample of a second, received when it was over, by a clock that shows another one."""
    return as_json(sample(at_s if shown_s is None else shown_s, "r2", received_s=at_s + 1.0, **fields))


@dataclass(frozen=True, kw_only=True)
class Case:
    """`dead`: reason and field of the dead letters of one second; `left_out` by kind, over the whole run, at least.

    `chat`: what its in-flight metric has at the end, r1's 4 requests and what else is believed.
    """

    bad: Bad
    dead: Sequence[tuple[str, str | None]] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    chat: tuple[ValueState, float | None] = (ValueState.FRESH, 4.0)


S = ValueState
CASES = {
    "reordered and extra columns": Case(bad=reordered_with_extra_columns, chat=(S.FRESH, 12.0)),
    "dictionaries that differ": Case(bad=dictionaries_that_differ, chat=(S.FRESH, 12.0)),
    "a column twice": Case(bad=a_column_twice, dead=[("invalid", "running")]),
    "an index outside its dictionary": Case(
        bad=lambda at_s: frame(at_s, replica=dictionary([0, 7], ["r2", "r3"])), dead=[("malformed", None)]
    ),
    "a dictionary of numbers": Case(
        bad=lambda at_s: frame(at_s, replica=dictionary([0, 1], [2, 3])), dead=[("wrong_type", "replica")]
    ),
    "a null in a dictionary": Case(
        bad=lambda at_s: frame(at_s, replica=dictionary([0, 1], ["r2", None])),
        dead=[("missing_field", "replica")],
        chat=(S.FRESH, 8.0),
    ),
    "counts in a dictionary": Case(
        bad=lambda at_s: frame(at_s, arrivals=dictionary([0, 0], [1])), dead=[("wrong_type", "arrivals")]
    ),
    "a null among a histogram's counts": Case(
        bad=lambda at_s: with_counts(at_s, [1, None, 1]),
        dead=[("wrong_type", "ttft_ms.bucket_counts[1]")],
        chat=(S.FRESH, 8.0),
    ),
    "a count too few": Case(
        bad=lambda at_s: with_counts(at_s, [1, 1]), dead=[("invalid", "ttft_ms")], chat=(S.FRESH, 8.0)
    ),
    "a null for a time": Case(
        bad=lambda at_s: frame(at_s, at_s=pa.array([at_s, None])), dead=[("missing_field", "at_s")], chat=(S.FRESH, 8.0)
    ),
    "nulls for counts": Case(
        bad=lambda at_s: frame(at_s, running=pa.array([None, None], pa.float64())), chat=(S.PARTIAL, 4.0)
    ),
    "JSON as a frame": Case(bad=lambda at_s: [(encode(sample(at_s, "r2")), FRAME_HEADERS)], dead=[("malformed", None)]),
    "a frame as JSON": Case(
        bad=lambda at_s: [(value, ()) for value, _ in as_frames(sample(at_s, "r2"))], dead=[("malformed", None)]
    ),
    "bounds that change": Case(bad=changing_bounds, chat=(S.FRESH, 8.0)),
    "two processes of two epochs": Case(
        bad=lambda at_s: as_json(sample(at_s, "r2", epoch="a"), sample(at_s, "r2", epoch="b")),
        chat=(S.SUSPECT, None),
    ),
    "two processes of one identity": Case(
        bad=lambda at_s: as_json(sample(at_s, "r2"), sample(at_s, "r2", running=50.0)),
        left_out={"duplicate": SECONDS},
        chat=(S.FRESH, 8.0),
    ),
    "duplicates after a rewind": Case(
        bad=lambda at_s: [value for back_s in range(10) for value in r2(at_s - back_s)],
        left_out={"duplicate": 9 * (SECONDS - 1)},
        chat=(S.FRESH, 8.0),
    ),
    "90 s behind": Case(bad=lambda at_s: r2(at_s, at_s - 90), chat=(S.FRESH, 8.0)),
    "1 h behind": Case(bad=lambda at_s: r2(at_s, at_s - 3600), chat=(S.FRESH, 8.0)),
    "90 s ahead": Case(bad=lambda at_s: r2(at_s, at_s + 90), left_out={"too_far_ahead": SECONDS}),
    "1 h ahead": Case(bad=lambda at_s: r2(at_s, at_s + 3600), left_out={"too_far_ahead": SECONDS}),
    "drifting": Case(bad=lambda at_s: r2(at_s, at_s - (at_s - START_S) // 4), chat=(S.SUSPECT, None)),
    "jumping": Case(bad=lambda at_s: r2(at_s, at_s - 40 * (at_s // 3 % 2)), chat=(S.SUSPECT, None)),
}


class Tally:
    """Stands for a counter of OpenTelemetry."""

    def __init__(self) -> None:
        self.by_kind: Counter[str] = Counter()

    def add(self, amount: int, attributes: Mapping[str, str]) -> None:
        self.by_kind[attributes.get("kind", "")] += amount


class Partition:
    """The only one: what a worker makes of its messages."""

    def __init__(self) -> None:
        metrics: Any = WorkerMetrics()
        self.undecodable, self.left_out = Tally(), Tally()
        metrics.undecodable, metrics.left_out = self.undecodable, self.left_out
        self._source = ControllerSource(0, 1, metrics)
        self._offset = 0
        self.reasons: Counter[tuple[str, str | None]] = Counter()
        self.decisions: list[ScalingDecision] = []
        for each in POLICIES:
            self.feed("policies", START_S - 1.0, [(encode(each), ())], each.endpoint)

    def feed(self, topic: str, now_s: float, values: Sequence[Value], endpoint: str = "chat") -> None:
        messages: list[Any] = []
        stamped_ms, key = int(now_s * 1000), endpoint.encode()
        for value, headers in values:
            self._offset += 1
            messages.append(Consumed(topic, value, self._offset, stamped_ms, key, headers))
        letters = decode_messages(topic, topic, 0, messages).errors
        self.reasons.update((letter.reason, letter.field) for letter in letters)
        for effects in self._source.feed(topic, messages, now_s):
            self.decisions += effects.decisions

    def of(self, endpoint: str) -> list[ScalingDecision]:
        return [decision for decision in self.decisions if decision.endpoint == endpoint]


def run(bad: Bad) -> Partition:
    """A minute of good samples: JSON of alpha and of chat's r1, frames of beta; the bad ones among them."""
    partition = Partition()
    for at_s in range(START_S, START_S + SECONDS):
        good = as_json(sample(at_s, endpoint="alpha", waiting=float(at_s % 3)), sample(at_s, endpoint="chat"))
        good += as_frames(*(sample(at_s, f"r{number}", endpoint="beta") for number in range(5)))
        partition.feed(TOPIC, at_s + 1.0, [*good[:1], *bad(at_s), *good[1:]])
    return partition


@pytest.fixture(scope="module")
def undisturbed() -> Partition:
    return run(lambda _: [])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_telemetry_is_told_and_harms_no_neighbour(case: Case, undisturbed: Partition) -> None:
    found = run(case.bad)
    assert found.reasons == Counter({each: count * SECONDS for each, count in Counter(case.dead).items()})
    assert found.undecodable.by_kind.total() == len(case.dead) * SECONDS
    for kind, least in case.left_out.items():
        assert found.left_out.by_kind[kind] >= least, found.left_out.by_kind
    for neighbour in ("alpha", "beta"):
        assert len(found.of(neighbour)) >= SECONDS // 5 - 1
        assert msgspec.json.encode(found.of(neighbour)) == msgspec.json.encode(undisturbed.of(neighbour))
    inflight = found.of("chat")[-1].candidates[0]
    assert (inflight.state, inflight.observed) == case.chat
