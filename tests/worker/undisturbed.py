"""What the workers' decisions have to equal: one controller a partition, fed with the same log from end to end."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from aiokafka import ConsumerRecord

from records.decisions import ScalingDecision
from streams.controller_source import ControllerSource
from streams.memory_reader import CompactedPartition
from streams.worker_metrics import WorkerMetrics
from tests.worker.pipeline import Pipeline


async def undisturbed_decisions(pipeline: Pipeline) -> dict[str, list[ScalingDecision]]:
    """By endpoint, from the log of `policies` and `telemetry.requests` alone; no clock moves these ticks."""
    policies = by_partition(await pipeline.read("policies"))
    samples = by_partition(await pipeline.read("telemetry.requests"))
    decisions: defaultdict[str, list[ScalingDecision]] = defaultdict(list)
    for partition in range(pipeline.partitions):
        source = ControllerSource(partition, pipeline.partitions, WorkerMetrics())
        remembered = CompactedPartition()
        for message in policies.get(partition, []):
            remembered.add(message)
            remembered.next_offset = message.offset + 1
        source.restore({"controllers": CompactedPartition(), "policies": remembered}, now_s=0.0)
        messages = samples.get(partition, [])
        for effects in source.feed("telemetry.requests", messages, now_s=0.0) if messages else []:
            decisions[effects.endpoint].extend(effects.decisions)
    return dict(decisions)


def by_partition(messages: Sequence[ConsumerRecord]) -> Mapping[int, list[ConsumerRecord]]:
    found: defaultdict[int, list[ConsumerRecord]] = defaultdict(list)
    for message in messages:
        found[message.partition].append(message)
    return found
