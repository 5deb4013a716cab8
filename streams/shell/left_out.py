"""Counts what compacted topics hold besides good records of their partition, and tells each kind of it once."""

from collections import defaultdict
from collections.abc import Iterable

import structlog
from aiokafka import ConsumerRecord

from streams.endpoints.effects import Count
from streams.shell.remembered import Rejected
from streams.shell.worker_metrics import WorkerMetrics

KEY_BYTES_TOLD = 100

log = structlog.get_logger()


class LeftOut:
    """Nothing of it is decided, and nothing of it moves where reading starts."""

    def __init__(self, metrics: WorkerMetrics) -> None:
        self._metrics = metrics

    def tell(self, topic: str, rejected: Iterable[Rejected], foreign: Iterable[ConsumerRecord] = ()) -> None:
        """`foreign` are good records of endpoints of other partitions; `topic` is the logical name."""
        kinds: defaultdict[str, list[tuple[ConsumerRecord, str]]] = defaultdict(list)
        for one in rejected:
            kinds[one.error.reason.value].append((one.message, str(one.error)))
            self._metrics.undecodable.add(1, {"topic": topic, "reason": one.error.reason.value})
        for message in foreign:
            kinds[Count.WRONG_PARTITION.value].append((message, "its endpoint is in another partition"))
            self._metrics.left_out.add(1, {"kind": Count.WRONG_PARTITION.value})
        for reason, found in kinds.items():
            message, why = min(found, key=lambda it: it[0].offset)
            log.warning(
                "records_left_out",
                topic=message.topic,
                partition=message.partition,
                reason=reason,
                count=len(found),
                first_offset=message.offset,
                key=None if message.key is None else message.key[:KEY_BYTES_TOLD].decode(errors="replace"),
                why=why,
            )
