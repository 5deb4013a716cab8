"""What to tell who gave a session timeout that Kafka refuses."""

from wire.admin import session_timeouts_ms
from wire.kafka import KafkaAccess


async def session_timeout_told(access: KafkaAccess, given_s: float) -> str:
    """The value, and the range that the brokers allow where they tell it."""
    given = f"--session-timeout-seconds: {given_s:g}, allowed by Kafka"
    range_ms = await session_timeouts_ms(access)
    names = "group.min.session.timeout.ms to group.max.session.timeout.ms"
    if range_ms is None:
        return f"{given}: its {names}"
    return f"{given}: {range_ms[0] / 1000:g} to {range_ms[1] / 1000:g} ({names})"
