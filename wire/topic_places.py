"""Where the partitions of topics are, asked before somebody asks for them.

aiokafka learns of a topic when it is first asked about one of its partitions, fails that try, and waits for as long as
between any two tries.
"""

import asyncio
from collections.abc import Iterable

from aiokafka.client import AIOKafkaClient


async def learn_topics(client: AIOKafkaClient, topics: Iterable[str]) -> None:
    """Return when the client knows of these topics (names on the cluster), or could not ask."""
    await asyncio.gather(*(client.add_topic(topic) for topic in topics))
