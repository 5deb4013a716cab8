"""A policy that is published around a take-over: ticks that came due before it know nothing of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from aiokafka import ConsumerRecord

from records.policy import EndpointPolicy
from streams.endpoints.effects import TickEffects
from streams.shell.controller_source import ControllerSource
from streams.shell.memory_reader import CompactedPartition
from streams.shell.merge_order import MergeOrder
from streams.shell.worker_metrics import WorkerMetrics
from tests.worker.pipeline import samples
from tests.worker.test_worker import policy
from wire.codec import encode

FIRST_S = 10_000
PUBLISHED_S = FIRST_S + 63.5
SECONDS = 120
TOPICS = ("telemetry.requests", "policies")


@dataclass(frozen=True)
class Logs:
    """Messages of both topics; offsets are places."""

    requests: list[ConsumerRecord]
    policies: list[ConsumerRecord]


def message(offset: int, value: bytes | None, stamped_s: float) -> ConsumerRecord:
    return ConsumerRecord(
        topic="",
        partition=0,
        offset=offset,
        timestamp=int(stamped_s * 1000),
        timestamp_type=0,
        key=b"e",
        value=value,
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=0,
        headers=(),
    )


def logs(*published: tuple[float, EndpointPolicy | None]) -> Logs:
    requests = [
        message(number, encode(sample), sample.received_s or 0.0)
        for number, sample in enumerate(samples(["e"], FIRST_S, SECONDS))
    ]
    policies = [
        message(number, None if record is None else encode(record), at_s)
        for number, (at_s, record) in enumerate(published)
    ]
    return Logs(requests, policies)


def compacted(messages: Iterable[ConsumerRecord]) -> CompactedPartition:
    made = CompactedPartition()
    for each in messages:
        made.add(each)
        made.next_offset = each.offset + 1
    return made


def ticks(found: Logs, memory: Sequence[TickEffects], policies: Sequence[ConsumerRecord]) -> list[TickEffects]:
    """Those of an owner that starts from `memory`, and from `policies` as the compacted topic has them now."""
    source = ControllerSource(0, 1, WorkerMetrics())
    remembered = [message(number, encode(one.memory), 0.0) for number, one in enumerate(memory)]
    start = source.restore({"controllers": compacted(remembered), "policies": compacted(policies)}, now_s=0.0)
    order = MergeOrder(TOPICS)
    since_ms = start.times_s.get("telemetry.requests", 0.0) * 1000
    order.add("telemetry.requests", [each for each in found.requests if each.timestamp >= since_ms], 0, 0.0)
    followed = [each for each in found.policies if each.offset >= start.offsets["policies"]]
    if followed:
        order.add("policies", followed, 0, 0.0)
    made: list[TickEffects] = []
    while (piece := order.take(dict.fromkeys(TOPICS, 0.0))) is not None:
        made += source.feed(*piece, now_s=0.0)
    return made


def said(effects: Iterable[TickEffects]) -> list[tuple[Any, ...]]:
    return [(one.at_s, one.decisions) for one in effects]


def changed(minimum: int) -> EndpointPolicy:
    return msgspec.structs.replace(policy("e"), min_replicas=minimum)


def undisturbed(found: Logs) -> list[TickEffects]:
    """One owner from the beginning, which knew the first policy and no other."""
    return ticks(found, [], found.policies[:1])


def test_a_kill_around_a_new_policy_changes_nothing() -> None:
    found = logs((FIRST_S, changed(1)), (PUBLISHED_S, changed(7)))
    whole = undisturbed(found)
    assert {decision.desired for one in whole for decision in one.decisions} >= {1, 7}
    for number in range(1, len(whole)):
        again = ticks(found, whole[:number], found.policies)
        assert said(again) == said(whole[number:]), f"after the tick {whole[number - 1].at_s}"


def test_a_kill_around_a_deletion_changes_nothing() -> None:
    found = logs((FIRST_S, changed(1)), (PUBLISHED_S, None))
    whole = undisturbed(found)
    assert whole[-1].at_s < PUBLISHED_S
    for number in range(1, len(whole)):
        assert said(ticks(found, whole[:number], found.policies)) == said(whole[number:])


def test_a_policy_of_which_compaction_left_the_newest_alone_goes_on_with_its_memory() -> None:
    found = logs((FIRST_S, changed(1)), (PUBLISHED_S, changed(7)))
    whole = undisturbed(found)
    before = [one for one in whole if one.at_s < PUBLISHED_S - 10]
    again = ticks(found, before, found.policies[1:])
    assert again[0].decisions[0].previous_id == before[-1].decisions[0].decision_id
    assert [one.at_s for one in again] == [one.at_s for one in whole[len(before) :]]
