"""Who stamps the records of a topic: processing time follows these stamps, so it should be the broker."""

from collections.abc import Iterable

from wire.admin import TopicState
from wire.topics import CO_PARTITIONED

BY_BROKER = "LogAppendTime"


def timestamp_problems(states: Iterable[TopicState]) -> list[str]:
    """One line for each input topic whose records are stamped by their senders: one sender whose clock is ahead moves
    the time of all endpoints of a partition. Right only for a pipeline whose clock is not the real one."""
    return [
        f"{state.kafka_name}: message.timestamp.type {kind}, allowed {BY_BROKER}"
        for state in states
        if state.name in CO_PARTITIONED and (kind := state.config.get("message.timestamp.type", BY_BROKER)) != BY_BROKER
    ]
