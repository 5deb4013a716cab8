"""Messages as a consumer hands them over."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wire.codec import encode
from wire.frames import ARROW_CONTENT_TYPE, encode_frames
from wire.topics import key_of

FRAME_HEADERS = (("content-type", ARROW_CONTENT_TYPE),)


@dataclass
class Consumed:
    """Stands for aiokafka's ConsumerRecord, which decode_batch reads nothing else of."""

    topic: str
    value: bytes | None
    offset: int = 0
    timestamp: int = 1_700_000_000_000
    key: bytes | None = b"e"
    headers: tuple[tuple[str, bytes], ...] = field(default=())


@dataclass
class Framed:
    message: Consumed
    samples: list[Any]


def consumed(topic: str, value: bytes | None, **rest: Any) -> Consumed:
    return Consumed(topic="pre." + topic, value=value, **rest)


def keyed(topic: str, records: Sequence[Any], first_offset: int) -> list[Consumed]:
    """Records as JSON, each under its own key."""
    return [
        consumed(topic, encode(record), key=key_of(record).encode(), offset=offset)
        for offset, record in enumerate(records, first_offset)
    ]


def framed(topic: str, samples: list[Any]) -> list[Framed]:
    """Samples as frames, in offset order."""
    frames = encode_frames(samples)
    return [
        Framed(consumed(topic, frame.value, offset=offset, headers=FRAME_HEADERS), frame.samples)
        for offset, frame in enumerate(frames)
    ]
