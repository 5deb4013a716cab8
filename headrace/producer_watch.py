"""Tells in logs and at /readyz whether records get through to Kafka."""

import asyncio

import structlog

from headrace.health import Health
from wire.producer import TelemetryProducer

WATCH_S = 0.5

log = structlog.get_logger("headrace.producer")


async def watch_producer(health: Health, producer: TelemetryProducer) -> None:
    """Say it once when records do not get through, and when they do again; ready as long as they do. Never returns.

    That records had to be dropped is said once; how many, the metrics tell.
    """
    said = None
    is_dropping = False
    while True:
        error = producer.last_error
        trouble = None if error is None else f"{type(error).__name__}: {error}"
        if trouble is not None:
            health.expect("kafka", trouble)
        elif producer.counts.sent:
            health.meet("kafka")
        if trouble != said:
            say = log.info if trouble is None else log.warning
            say("kafka_changed", error=trouble, waiting=producer.counts.waiting)
            said = trouble
        if producer.counts.dropped and not is_dropping:
            is_dropping = True
            log.warning("records_dropped", oldest=producer.counts.oldest, too_large=producer.counts.too_large)
        await asyncio.sleep(WATCH_S)
