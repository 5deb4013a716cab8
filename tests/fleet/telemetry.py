"""What a fleet has published, read by a plain consumer."""

import json
from typing import Any

import pyarrow as pa

from tests.line.audit import read_topic
from wire.codec import decode


async def published(bootstrap: str, prefix: str, topic: str) -> list[dict[str, Any]]:
    """Every record of a topic as a mapping, the rows of frames too, in the order of the log; all must be good."""
    found: list[dict[str, Any]] = []
    for message in await read_topic(bootstrap, prefix + topic):
        assert message.value is not None
        if message.is_frame:
            found += pa.ipc.open_stream(message.value).read_all().to_pylist()
        else:
            decode(topic, message.value)
            found.append(json.loads(message.value))
    return found
