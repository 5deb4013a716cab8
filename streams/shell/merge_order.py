"""Takes the messages of a partition's topics in the order of time, as far as nothing older can still come.

Topics are fetched each at its own pace. Read as they come after an outage, a small topic would be at its end, and
processing time with it, while minutes of a large one are still unread: ticks would fall due without their samples. So
messages wait until every other topic has got as far, to the second, or is at its end. With nothing to catch up on, all
topics are at their ends, and nothing waits.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from wire.batches import Message

NOTHING_SEEN = -1


class MergeOrder:
    """Messages by logical topic; times are Kafka's timestamps, cut to whole seconds."""

    def __init__(self, topics: Iterable[str]) -> None:
        self._held: dict[str, deque[Message]] = {topic: deque() for topic in topics}
        self._seen_s = dict.fromkeys(self._held, NOTHING_SEEN)
        self._held_bytes = dict.fromkeys(self._held, 0)

    def clear(self) -> None:
        for topic, held in self._held.items():
            held.clear()
            self._seen_s[topic] = NOTHING_SEEN
            self._held_bytes[topic] = 0

    def add(self, topic: str, messages: Sequence[Message], size: int) -> None:
        """Messages of one topic, in log order, whose values have `size` bytes together."""
        self._held[topic].extend(messages)
        self._held_bytes[topic] += size
        self._seen_s[topic] = max(self._seen_s[topic], _second(messages[-1]))

    def held(self, topic: str) -> int:
        return len(self._held[topic])

    def held_bytes(self, topic: str) -> int:
        return self._held_bytes[topic]

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def take(self, at_end: Collection[str]) -> tuple[str, list[Message]] | None:
        """The next messages to read, all of one topic; null when what is held has to wait, or nothing is.

        `at_end` are the topics of which everything in the log has been added.
        """
        heads = {topic: _second(held[0]) for topic, held in self._held.items() if held}
        if not heads:
            return None
        topic = min(heads, key=lambda name: heads[name])
        others = [second for name, second in heads.items() if name != topic]
        open_ended = [self._seen_s[name] for name in self._held if name not in heads and name not in at_end]
        bounds = others + open_ended
        if not bounds:
            return topic, self._all(topic)
        until_s = min(bounds)
        return (topic, self._until(topic, until_s)) if heads[topic] <= until_s else None

    def _all(self, topic: str) -> list[Message]:
        held = self._held[topic]
        taken = list(held)
        held.clear()
        self._held_bytes[topic] = 0
        return taken

    def _until(self, topic: str, second: int) -> list[Message]:
        held, taken = self._held[topic], []
        while held and _second(held[0]) <= second:
            taken.append(held.popleft())
        self._held_bytes[topic] -= bytes_of(taken)
        return taken


def bytes_of(messages: Iterable[Message]) -> int:
    """Of the messages' values."""
    return sum(len(message.value or b"") for message in messages)


def _second(message: Message) -> int:
    return int(message.timestamp // 1000)
