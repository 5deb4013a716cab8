"""Takes the messages of a partition's topics in the order of time, as far as nothing older can still come.

Topics are fetched each at its own pace. Read as they come after an outage, a small topic would be at its end, and
processing time with it, while minutes of a large one are still unread: ticks would fall due without their samples. So
messages wait until every other topic has got as far, to the second, or is at its end. With nothing to catch up on, all
topics are at their ends, and nothing waits.

An end is that of the moment at which the fetch that showed it was asked for. After a process stood still, one topic may
be fetched alone, and what is written to another since is older than what that fetch brings: it waits for a fetch of the
other that was asked for as late, or to the second as late as its messages are.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from wire.batches import Message

NOTHING_SEEN = -1


class MergeOrder:
    """Messages by logical topic; times are Kafka's timestamps, cut to whole seconds."""

    def __init__(self, topics: Iterable[str]) -> None:
        self._held: dict[str, deque[Message]] = {topic: deque() for topic in topics}
        self._seen_s = dict.fromkeys(self._held, NOTHING_SEEN)
        self._held_bytes = dict.fromkeys(self._held, 0)
        self._asked_s = dict.fromkeys(self._held, 0.0)

    def clear(self) -> None:
        for topic, held in self._held.items():
            held.clear()
            self._seen_s[topic] = NOTHING_SEEN
            self._held_bytes[topic] = 0
            self._asked_s[topic] = 0.0

    def add(self, topic: str, messages: Sequence[Message], size: int, asked_s: float) -> None:
        """Messages of one topic, in log order, whose values have `size` bytes together.

        `asked_s`, UNIX s: when the fetch that brought them was asked for, or later.
        """
        self._asked_s[topic] = max(self._asked_s[topic], asked_s)
        self._held[topic].extend(messages)
        self._held_bytes[topic] += size
        self._seen_s[topic] = max(self._seen_s[topic], _second(messages[-1]))

    def held(self, topic: str) -> int:
        return len(self._held[topic])

    def held_bytes(self, topic: str) -> int:
        return self._held_bytes[topic]

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def take(self, at_end: Mapping[str, float]) -> tuple[str, list[Message]] | None:
        """The next messages to read, all of one topic; null when what is held has to wait, or nothing is.

        `at_end` are the topics of which everything in the log has been added, each with the moment, UNIX s, as of
        which it has.
        """
        heads = {topic: _second(held[0]) for topic, held in self._held.items() if held}
        if not heads:
            return None
        topic = min(heads, key=lambda name: heads[name])
        others = [second for name, second in heads.items() if name != topic]
        bounds = others + self._open_ends(heads, at_end, self._asked_s[topic])
        if not bounds:
            return topic, self._all(topic)
        until_s = min(bounds)
        return (topic, self._until(topic, until_s)) if heads[topic] <= until_s else None

    def _open_ends(self, heads: Mapping[str, int], at_end: Mapping[str, float], asked_s: float) -> list[int]:
        """How far the topics got of which something may come that is older than what a fetch of `asked_s` brought."""
        empty = [topic for topic in self._held if topic not in heads]
        return [
            max(self._seen_s[topic], int(at_end.get(topic, NOTHING_SEEN)))
            for topic in empty
            if topic not in at_end or at_end[topic] < asked_s
        ]

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
