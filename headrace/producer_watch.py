"""Tells in logs and at /readyz whether records get through to Kafka."""

import asyncio
from collections.abc import Callable

import structlog

from headrace.clock import monotonic_s
from headrace.health import Health
from headrace.kafka_reach import SILENCE_MAX_S
from headrace.silence import Silence
from wire.producer import ProducerCounts, TelemetryProducer

WATCH_S = 0.5

log = structlog.get_logger("headrace.producer")


class Deliveries:
    """Tells whether what waits is acknowledged: a producer tries for minutes before it calls that an error."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._sent = 0
        self._silence = Silence(monotonic_s)

    def why_not(self, counts: ProducerCounts) -> str | None:
        """Null as long as records are acknowledged, or none wait. To be asked once a second or more often."""
        if counts.sent != self._sent or not counts.waiting:
            self._sent = counts.sent
            self._silence.hear()
        is_silent = self._silence.look() > SILENCE_MAX_S
        return f"nothing was acknowledged for more than {SILENCE_MAX_S:g} s" if is_silent else None


async def watch_producer(health: Health, producer: TelemetryProducer) -> None:
    """Say it once when records do not get through, and when they do again; ready as long as they do. Never returns.

    That records had to be dropped is said once; how many, the metrics tell.
    """
    said = None
    is_dropping = False
    deliveries = Deliveries(monotonic_s)
    while True:
        error = producer.last_error
        trouble = deliveries.why_not(producer.counts) if error is None else f"{type(error).__name__}: {error}"
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
