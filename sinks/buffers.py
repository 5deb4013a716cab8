"""Messages of one topic that were read and are not in its table yet."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MESSAGE_OVERHEAD_BYTES = 600
"""What a message takes besides its key and value: aiokafka's record with its headers (measured, CPython 3.11)."""


@dataclass(frozen=True, kw_only=True)
class FlushRules:
    """When a topic's messages are written, in one commit.

    `age_max_s`: seconds since the oldest was read; with 10 a row is visible 5 s (median) to 11 s after it was
    produced. `messages_max` and `bytes_max` bound one commit of one topic, `memory_bytes_max` all that is read and
    not committed: above it reading pauses. `progress_max` is how many offsets without any row (aborted transactions)
    are passed before that alone is worth a commit.
    """

    age_max_s: float = 10.0
    messages_max: int = 200_000
    bytes_max: int = 64 * 1024 * 1024
    memory_bytes_max: int = 256 * 1024 * 1024
    progress_max: int = 10_000

    def __post_init__(self) -> None:
        if not 0 < self.age_max_s <= 3600:
            raise ValueError(f"age_max_s: {self.age_max_s}, allowed: above 0, up to 3600")
        for name in ("messages_max", "bytes_max", "progress_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)}, allowed: 1 or more")
        if self.memory_bytes_max < self.bytes_max:
            raise ValueError(
                f"memory_bytes_max: {self.memory_bytes_max}, allowed: bytes_max ({self.bytes_max}) or more"
            )


@dataclass(frozen=True, kw_only=True)
class PartitionBatch:
    """All messages with offsets in `[base_offset, next_offset)`; other offsets in it hold none to be had."""

    partition: int
    base_offset: int
    next_offset: int
    messages: list[Any]


@dataclass(kw_only=True)
class _Pending:
    base_offset: int
    next_offset: int
    messages: list[Any] = field(default_factory=list)


class TopicBuffer:
    """The placed partitions of one topic; `bytes` and `messages` over all of them."""

    def __init__(self) -> None:
        self._partitions: dict[int, _Pending] = {}
        self._oldest_s = float("inf")
        self.bytes = 0
        self.messages = 0

    def place(self, partition: int, base_offset: int) -> None:
        """Begins or begins again: what follows continues a table that has everything below `base_offset`."""
        self.drop(partition)
        self._partitions[partition] = _Pending(base_offset=base_offset, next_offset=base_offset)

    def drop(self, partition: int) -> None:
        pending = self._partitions.pop(partition, None)
        if pending is not None:
            self.messages -= len(pending.messages)
            self.bytes -= _size(pending.messages)
        if not self.messages:
            self._oldest_s = float("inf")

    def clear(self) -> None:
        for partition in list(self._partitions):
            self.drop(partition)

    def next_offset(self, partition: int) -> int:
        return self._partitions[partition].next_offset

    def add(self, partition: int, messages: Sequence[Any], next_offset: int, now_s: float) -> None:
        """Messages that follow those before, in order; `next_offset` is the consumer's position after them."""
        pending = self._partitions[partition]
        pending.next_offset = max(pending.next_offset, next_offset)
        if messages:
            pending.messages.extend(messages)
            self.messages += len(messages)
            self.bytes += _size(messages)
            self._oldest_s = min(self._oldest_s, now_s)

    def due(self, rules: FlushRules, now_s: float) -> bool:
        if now_s - self._oldest_s >= rules.age_max_s:
            return True
        return (
            self.messages >= rules.messages_max or self.bytes >= rules.bytes_max or self._passed >= rules.progress_max
        )

    @property
    def _passed(self) -> int:
        """Offsets of partitions that brought no message."""
        return sum(part.next_offset - part.base_offset for part in self._partitions.values() if not part.messages)

    def take(self) -> list[PartitionBatch]:
        """Everything since the last take, partitions without any news left out."""
        batches = []
        for partition, pending in self._partitions.items():
            if pending.next_offset > pending.base_offset:
                batches.append(
                    PartitionBatch(
                        partition=partition,
                        base_offset=pending.base_offset,
                        next_offset=pending.next_offset,
                        messages=pending.messages,
                    )
                )
                pending.base_offset, pending.messages = pending.next_offset, []
        self.bytes = self.messages = 0
        self._oldest_s = float("inf")
        return batches


def _size(messages: Sequence[Any]) -> int:
    return sum(
        max(message.serialized_value_size, 0) + max(message.serialized_key_size, 0) + MESSAGE_OVERHEAD_BYTES
        for message in messages
    )
