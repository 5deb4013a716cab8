"""What the workers' decisions have to equal: one controller a partition, fed with the same log from end to end."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from aiokafka import ConsumerRecord

from records.decisions import ScalingDecision
from streams.endpoints.effects import TickEffects
from streams.shell.controller_source import ControllerSource
from streams.shell.memory_reader import CompactedPartition
from streams.shell.merge_order import MergeOrder
from streams.shell.worker_metrics import WorkerMetrics
from tests.worker.pipeline import Pipeline
from wire.topics import TELEMETRY_TOPICS

ByPartition = Mapping[int, list[ConsumerRecord]]


async def undisturbed_decisions(pipeline: Pipeline) -> dict[str, list[ScalingDecision]]:
    """By endpoint, from the log of `policies` and the telemetry, read in the order of time; no clock moves these."""
    decisions: defaultdict[str, list[ScalingDecision]] = defaultdict(list)
    for effects in await undisturbed_ticks(pipeline):
        decisions[effects.endpoint].extend(effects.decisions)
    return dict(decisions)


async def undisturbed_ticks(pipeline: Pipeline) -> Iterator[TickEffects]:
    """The ticks of these decisions, each made when it is asked for: those of an endpoint in their order."""
    policies = by_partition(await pipeline.read("policies"))
    telemetry = {topic: by_partition(await pipeline.read(topic)) for topic in TELEMETRY_TOPICS}
    return _ticks(pipeline.partitions, policies, telemetry)


def _ticks(partitions: int, policies: ByPartition, telemetry: Mapping[str, ByPartition]) -> Iterator[TickEffects]:
    for partition in range(partitions):
        source = ControllerSource(partition, partitions, WorkerMetrics())
        remembered = CompactedPartition()
        for message in policies.get(partition, []):
            remembered.add(message)
            remembered.next_offset = message.offset + 1
        source.restore({"controllers": CompactedPartition(), "policies": remembered}, now_s=0.0)
        order = MergeOrder(TELEMETRY_TOPICS)
        for topic, messages in telemetry.items():
            if partition in messages:
                order.add(topic, messages[partition], 0, 0.0)
        while (piece := order.take(dict.fromkeys(TELEMETRY_TOPICS, 0.0))) is not None:
            yield from source.feed(*piece, now_s=0.0)


def by_partition(messages: Sequence[ConsumerRecord]) -> ByPartition:
    found: defaultdict[int, list[ConsumerRecord]] = defaultdict(list)
    for message in messages:
        found[message.partition].append(message)
    return found
