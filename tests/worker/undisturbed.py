"""What the workers' decisions have to equal: one controller a partition, fed with the same log from end to end."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from aiokafka import ConsumerRecord

from records.decisions import ScalingDecision
from streams.shell.controller_source import ControllerSource
from streams.shell.inputs import TELEMETRY_TOPICS
from streams.shell.memory_reader import CompactedPartition
from streams.shell.merge_order import MergeOrder
from streams.shell.worker_metrics import WorkerMetrics
from tests.worker.pipeline import Pipeline


async def undisturbed_decisions(pipeline: Pipeline) -> dict[str, list[ScalingDecision]]:
    """By endpoint, from the log of `policies` and the telemetry, read in the order of time; no clock moves these."""
    policies = by_partition(await pipeline.read("policies"))
    telemetry = {topic: by_partition(await pipeline.read(topic)) for topic in TELEMETRY_TOPICS}
    decisions: defaultdict[str, list[ScalingDecision]] = defaultdict(list)
    for partition in range(pipeline.partitions):
        source = ControllerSource(partition, pipeline.partitions, WorkerMetrics())
        remembered = CompactedPartition()
        for message in policies.get(partition, []):
            remembered.add(message)
            remembered.next_offset = message.offset + 1
        source.restore({"controllers": CompactedPartition(), "policies": remembered}, now_s=0.0)
        order = MergeOrder(TELEMETRY_TOPICS)
        for topic, messages in telemetry.items():
            if partition in messages:
                order.add(topic, messages[partition], 0)
        while (piece := order.take(TELEMETRY_TOPICS)) is not None:
            for effects in source.feed(*piece, now_s=0.0):
                decisions[effects.endpoint].extend(effects.decisions)
    return dict(decisions)


def by_partition(messages: Sequence[ConsumerRecord]) -> Mapping[int, list[ConsumerRecord]]:
    found: defaultdict[int, list[ConsumerRecord]] = defaultdict(list)
    for message in messages:
        found[message.partition].append(message)
    return found
