"""The names of the processes' consumer groups where no others are given; the rights to them follow from these."""

from wire.topics import TopicNames


def worker_group(names: TopicNames) -> str:
    """It begins the transactional ids too."""
    return f"{names.prefix}headrace-worker"


def sink_group(names: TopicNames, tables: str) -> str:
    """`tables` stands for the address of the tables; with "" the begin of all of these names."""
    return f"{names.prefix}headrace-sink-{tables}"


def actuator_group(names: TopicNames, actuator: str) -> str:
    """`actuator` is its name; with "" the begin of all of these names."""
    return f"{names.prefix}headrace-actuator-{actuator}"
