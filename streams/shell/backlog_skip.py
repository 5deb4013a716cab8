"""Leaves a backlog unread that cannot be caught up: newest time wins, where samples come faster than they are taken.

Only topics that fill windows are skipped. What policies, replicas, targets and outcomes say stays true until they say
something else, and is read in full.
"""

from collections.abc import Mapping

import structlog
from faust.types import TP

from records.signals import SkippedRecords
from streams.controller.rebuild import WINDOW_TOPICS
from streams.shell.owner_ports import OwnerPorts
from streams.shell.tick_source import TickSource

log = structlog.get_logger()


async def skip_backlog(
    ports: OwnerPorts, source: TickSource, partition: int, positions: Mapping[TP, int]
) -> dict[TP, int]:
    """Set reading of a partition to the present, and tell its source; `positions` are the next offsets to feed, and
    those from where each topic is read now are returned.

    Nothing may be fed meanwhile. Raises KafkaError.
    """
    windowed = {tp: ports.names.logical(tp.topic) for tp in positions}
    ends = await ports.offsets.ends([tp for tp, topic in windowed.items() if topic in WINDOW_TOPICS])
    now_s = ports.clock()
    skipped = [
        SkippedRecords(topic=windowed[tp], first_offset=positions[tp], end_offset=end, until_s=now_s)
        for tp, end in ends.items()
        if end > positions[tp]
    ]
    source.skip(skipped, now_s)
    offsets = {tp: max(offset, ends.get(tp, 0)) for tp, offset in positions.items()}
    await ports.reader.rewind(partition, offsets)
    for one in skipped:
        ports.metrics.skipped.add(one.end_offset - one.first_offset, {"topic": one.topic})
    messages = {one.topic: one.end_offset - one.first_offset for one in skipped}
    log.warning("backlog_skipped", partition=partition, messages=messages)
    return offsets
