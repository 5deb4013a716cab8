"""The end of every demonstration: nothing is written to Kafka any more, and the sink keeps the rest."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.clock import monotonic_s
from headrace.demo.audit import TopicAudit, audit, read_sent
from headrace.demo.guards import REFRESH_S, SETTLE_S
from headrace.demo.plan import DemoPlan
from wire.kafka import KafkaAccess


async def settle(plan: DemoPlan, access: KafkaAccess, drain_sink: Callable[[], Awaitable[None]]) -> list[TopicAudit]:
    """Wait until the tables have what is in Kafka (for SETTLE_S at most), end the sink, and count.

    Raises aiokafka's KafkaError, StorageError, CannotRunError.
    """
    sent = await read_sent(access, plan.names)
    deadline_s = monotonic_s() + SETTLE_S
    while monotonic_s() < deadline_s:
        audits = await asyncio.to_thread(audit, sent, plan.names, plan.tables)
        if not any(one.missing for one in audits):
            break
        await asyncio.sleep(REFRESH_S)
    await drain_sink()
    return await asyncio.to_thread(audit, sent, plan.names, plan.tables)
