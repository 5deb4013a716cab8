"""The topics that a worker reads, by their logical names; all of them have the same number of partitions."""

from wire.topics import TELEMETRY_TOPICS

INPUT_TOPICS = (*TELEMETRY_TOPICS, "policies", "outcomes")
MEMORY_TOPICS = ("controllers", "policies")
"""Compacted topics that are read to their end before a partition is worked on."""
