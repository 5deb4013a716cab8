"""What stands in `controllers` and `policies` and is no good record: nobody's is left out, an endpoint's own stops."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from aiokafka import ConsumerRecord
from structlog.testing import capture_logs

from records.memory import ControllerMemory
from records.policy import EndpointPolicy
from streams.endpoints.effects import TickEffects
from streams.shell.controller_source import ControllerSource
from streams.shell.memory_reader import CompactedPartition
from streams.shell.merge_order import MergeOrder
from streams.shell.tick_source import StartPositions
from streams.shell.unreadable_memory import UnreadableMemoryError
from streams.shell.worker_metrics import WorkerMetrics
from tests.worker.pipeline import samples
from tests.worker.test_worker import policy
from wire.batch_limits import REFUSED_HEADER
from wire.codec import encode
from wire.kafka import partition_of
from wire.topics import key_of

FIRST_S = 10_000
KILLED_S = FIRST_S + 60
SECONDS = 90
PARTITIONS = 4
PARTITION = 1
OWN, OTHER, ABSENT = [f"e{number}" for number in range(40) if partition_of(f"e{number}", PARTITIONS) == PARTITION][:3]
"""Two endpoints of the partition with policies, and one without."""
FOREIGN = next(f"e{number}" for number in range(40) if partition_of(f"e{number}", PARTITIONS) != PARTITION)
TOPICS = ("telemetry.requests", "policies")
TOO_LARGE = ((REFUSED_HEADER, b"too_large: a batch of 70000 records"),)
DAMAGED = ((REFUSED_HEADER, b"malformed: a batch whose checksum is another than that of its bytes"),)
FAR = {"policies": 10**9, "telemetry.requests": 10**9}


class Log:
    """Messages of one topic of the partition, stamped as they come."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.messages: list[ConsumerRecord] = []

    def add(self, key: bytes | None, value: bytes | None, stamped_s: float = FIRST_S, headers: Any = ()) -> None:
        made = ConsumerRecord(
            topic=f"pre.{self.topic}",
            partition=PARTITION,
            offset=len(self.messages),
            timestamp=int(stamped_s * 1000),
            timestamp_type=0,
            key=key,
            value=value,
            checksum=None,
            serialized_key_size=0,
            serialized_value_size=0,
            headers=headers,
        )
        self.messages.append(made)

    def write(self, record: Any, stamped_s: float = FIRST_S) -> None:
        self.add(key_of(record).encode(), encode(record), stamped_s)

    def compacted(self) -> CompactedPartition:
        made = CompactedPartition()
        for message in self.messages:
            made.add(message)
        made.next_offset = len(self.messages)
        return made


@dataclass
class Partition:
    """The logs that a worker had worked on until KILLED_S, and what it had decided by then."""

    requests: Log
    policies: Log
    controllers: Log
    decided: list[TickEffects]

    def restored(self) -> tuple[ControllerSource, StartPositions]:
        source = ControllerSource(PARTITION, PARTITIONS, WorkerMetrics())
        memory = {"controllers": self.controllers.compacted(), "policies": self.policies.compacted()}
        return source, source.restore(memory, now_s=0.0)

    def take_over(self, *later: tuple[float, EndpointPolicy]) -> list[TickEffects]:
        """What the next owner makes of all that is in the logs; it is there already when `later` policies come."""
        source, start = self.restored()
        for stamped_s, each in later:
            self.policies.write(each, stamped_s)
        order = MergeOrder(TOPICS)
        since_ms = start.times_s.get("telemetry.requests", 0.0) * 1000
        order.add("telemetry.requests", [each for each in self.requests.messages if each.timestamp >= since_ms], 0, 0.0)
        if followed := self.policies.messages[start.offsets["policies"] :]:
            order.add("policies", followed, 0, 0.0)
        made: list[TickEffects] = []
        while (piece := order.take(dict.fromkeys(TOPICS, 0.0))) is not None:
            made += source.feed(*piece, now_s=0.0)
        return made


@pytest.fixture(scope="module")
def whole() -> list[TickEffects]:
    """The ticks of one owner from the first second to the last."""
    return new_partition([]).take_over()


@pytest.fixture
def partition(whole: list[TickEffects]) -> Partition:
    return new_partition([one for one in whole if one.at_s < KILLED_S])


def new_partition(decided: list[TickEffects]) -> Partition:
    made = Partition(Log("telemetry.requests"), Log("policies"), Log("controllers"), decided)
    for endpoint in (OWN, OTHER):
        made.policies.write(policy(endpoint))
    for sample in samples([OWN, OTHER], FIRST_S, SECONDS):
        made.requests.write(sample, sample.received_s or 0.0)
    for effects in decided:
        made.controllers.write(effects.memory)
    return made


def said(effects: Iterable[TickEffects]) -> list[tuple[Any, ...]]:
    return [(one.endpoint, one.at_s, one.decisions) for one in effects]


def memory(endpoint: str, **offsets: int) -> bytes:
    return msgspec.json.encode({"endpoint": endpoint, "at_s": 5, "offsets": offsets, "scaling": {}, "supply": {}})


JUNK_MEMORIES: dict[str, tuple[bytes | None, bytes | None, Any]] = {
    "no_key": (None, memory(OWN), ()),
    "no_key_no_value": (None, None, ()),
    "too_large_a_batch": (None, b"", TOO_LARGE),
    "a_key_that_is_no_text": (b"\xff\xfe", b"junk", ()),
    "an_empty_key": (b"", memory(OWN), ()),
    "a_good_memory_under_a_key_that_is_no_text": (b"\xff", memory(OWN), ()),
    "unreadable_of_another_partition": (FOREIGN.encode(), b"junk", ()),
    "good_of_another_partition": (FOREIGN.encode(), memory(FOREIGN, **FAR), ()),
    "ours_under_the_key_of_another_partition": (FOREIGN.encode(), memory(OWN, **FAR), ()),
    "unreadable_without_a_policy": (ABSENT.encode(), b"{", ()),
    "ours_under_a_key_without_a_policy": (ABSENT.encode(), memory(OWN, **FAR), ()),
}


@pytest.mark.parametrize("name", JUNK_MEMORIES)
def test_what_is_nobodys_memory_changes_nothing(name: str, partition: Partition, whole: list[TickEffects]) -> None:
    undisturbed = partition.restored()[1]
    key, value, headers = JUNK_MEMORIES[name]
    offset = len(partition.controllers.messages)
    for _ in range(2):
        partition.controllers.add(key, value, headers=headers)
    with capture_logs() as told:
        assert partition.restored()[1] == undisturbed
    warnings = [entry for entry in told if entry["event"] == "records_left_out"]
    (warning,) = warnings
    assert (warning["log_level"], warning["topic"], warning["partition"]) == ("warning", "pre.controllers", PARTITION)
    assert warning["first_offset"] in (offset, offset + 1)
    assert warning["count"] == (2 if key is None else 1)
    assert said(partition.take_over()) == said(whole[len(partition.decided) :])


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.pop(name)


def with_values(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(values)


def spoilt(good: ControllerMemory, spoil: Callable[[dict[str, Any]], None]) -> bytes:
    document = msgspec.json.decode(encode(good))
    spoil(document)
    return msgspec.json.encode(document)


UNREADABLE: dict[str, tuple[Callable[[ControllerMemory], bytes], str]] = {
    "empty": (lambda _: b"", "the value is empty (empty)"),
    "text": (lambda _: b"junk\n\x1b[31m", "(malformed)"),
    "not_utf_8": (lambda _: b"\xff\xfe", "(malformed)"),
    "nested": (lambda _: b'{"a":' * 100_000, "nested too deeply (malformed)"),
    "large": (lambda _: b"[" + b"1," * 500_000 + b"1]", "Expected `object`, got `array` (wrong_type)"),
    "missing": (lambda good: spoilt(good, without("at_s")), "at_s: None: Object missing required field"),
    "wrong": (lambda good: spoilt(good, with_values(scaling=5)), "scaling: 5: Expected `object`, got `int`"),
    "of_another": (lambda _: memory(OTHER), f'endpoint: "{OTHER}": Expected the message\'s key'),
    "newer": (
        lambda good: spoilt(good, with_values(scaling=[], version=2, forecast={})),
        "a newer version has written it, with fields that this one does not know (forecast, version): run that version",
    ),
    "newer_within": (
        lambda good: spoilt(good, with_values(supply={"zones": [], "starts_s": 5}, at_s="x")),
        "with fields that this one does not know (supply.zones): run that version",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_endpoints_own_memory_that_cannot_be_read_stops_in_one_line(name: str, partition: Partition) -> None:
    value, why = UNREADABLE[name]
    good = next(one.memory for one in reversed(partition.decided) if one.endpoint == OWN)
    offset = len(partition.controllers.messages)
    partition.controllers.add(OWN.encode(), value(good))
    with pytest.raises(UnreadableMemoryError) as stopped:
        partition.restored()
    line = str(stopped.value)
    assert line.startswith(f"pre.controllers, partition {PARTITION}, offset {offset}, key {OWN}: ")
    assert why in line
    assert f"headrace policy apply --delete {OWN}" in line
    assert line.isprintable()
    assert len(line) < 1000
    assert ("newer version" in line) == name.startswith("newer")
    partition.controllers.write(good)
    assert [one.endpoint for one in partition.take_over()].count(OWN) > 0


def test_all_endpoints_whose_memory_cannot_be_read_are_named(partition: Partition) -> None:
    for endpoint in (OWN, OTHER):
        partition.controllers.add(endpoint.encode(), b"{")
    with pytest.raises(UnreadableMemoryError, match=f"key {OWN}: .*; the same of {OTHER};"):
        partition.restored()


def test_an_endpoint_whose_policy_cannot_be_read_either_was_not_deleted(partition: Partition) -> None:
    partition.controllers.add(OWN.encode(), b"{")
    partition.policies.add(OWN.encode(), b"{", stamped_s=KILLED_S + 5)
    with pytest.raises(UnreadableMemoryError, match=f"key {OWN}: "):
        partition.restored()


def test_a_damaged_batch_stops_until_newer_memories_stand_after_it(
    partition: Partition, whole: list[TickEffects]
) -> None:
    partition.policies.write(policy(ABSENT))  # It has not ticked yet: nothing of it can be lost.
    partition.controllers.add(None, b"?", headers=DAMAGED)
    with pytest.raises(UnreadableMemoryError, match=f"without a key: a batch whose checksum.*; the same of {OTHER};"):
        partition.restored()
    for effects in whole[len(partition.decided) :][:2]:
        partition.controllers.write(effects.memory)
    assert said(partition.take_over()) == said(whole[len(partition.decided) + 2 :])


def test_an_endpoint_whose_policy_was_deleted_stops_nobody_and_begins_anew_with_its_next_policy(
    partition: Partition, whole: list[TickEffects]
) -> None:
    """Nothing is decided twice: not even the ticks that its deleted policy would have had until then."""
    partition.controllers.add(OWN.encode(), b"{")
    partition.policies.add(OWN.encode(), None, stamped_s=KILLED_S + 5)
    left = whole[len(partition.decided) :]
    others = [one for one in left if one.endpoint == OTHER]
    assert said(partition.take_over()) == said(others)
    again_s = KILLED_S + 12
    again = partition.take_over((again_s, policy(OWN)))
    assert said(one for one in again if one.endpoint == OTHER) == said(others)
    own = [one for one in again if one.endpoint == OWN]
    assert [one.at_s for one in own] == [one.at_s for one in left if one.endpoint == OWN and one.at_s > again_s]
    assert own[0].decisions[0].previous_id is None
    with pytest.raises(UnreadableMemoryError):
        partition.restored()
    partition.controllers.write(own[0].memory)
    partition.restored()


JUNK_POLICIES: Sequence[tuple[bytes | None, bytes | None]] = [
    (None, encode(policy(OWN))),
    (None, None),
    (b"\xff", encode(policy(OWN))),
    (b"\xff", None),
    (ABSENT.encode(), None),
    (ABSENT.encode(), encode(msgspec.structs.replace(policy(OWN), min_replicas=9))),
    (FOREIGN.encode(), None),
    (FOREIGN.encode(), encode(policy(FOREIGN))),
    (OTHER.encode(), b""),
    (OTHER.encode(), encode(msgspec.structs.replace(policy(OWN), min_replicas=9))),
    (OTHER.encode(), b'{"endpoint":"' + b"x" * 2_000_000 + b'"}'),
]


@pytest.mark.parametrize("stamped_s", [FIRST_S, KILLED_S + 12.5], ids=["before", "after"])
@pytest.mark.parametrize("place", range(len(JUNK_POLICIES)))
def test_what_is_nobodys_policy_changes_nothing(
    place: int, stamped_s: float, partition: Partition, whole: list[TickEffects]
) -> None:
    """Read by the owner of the time, or by the next one; a policy that cannot be read leaves the one under it."""
    key, value = JUNK_POLICIES[place]
    partition.policies.add(key, value, stamped_s=stamped_s)
    if stamped_s < KILLED_S:
        partition.controllers.messages.clear()
        for effects in partition.decided:
            offsets = {**effects.memory.offsets, "policies": len(partition.policies.messages)}
            partition.controllers.write(msgspec.structs.replace(effects.memory, offsets=offsets))
    assert [(one[0], one[1], desired(one[2])) for one in said(partition.take_over())] == [
        (one[0], one[1], desired(one[2])) for one in said(whole[len(partition.decided) :])
    ]


def desired(decisions: Sequence[Any]) -> list[int]:
    return [decision.desired for decision in decisions]


def test_a_policy_is_what_its_key_says(partition: Partition) -> None:
    changed: EndpointPolicy = msgspec.structs.replace(policy(OWN), min_replicas=9)
    partition.policies.write(changed, stamped_s=KILLED_S + 12.5)
    minima = {one.endpoint: desired(one.decisions)[0] for one in partition.take_over()}
    assert minima[OWN] >= 9 > minima[OTHER]
