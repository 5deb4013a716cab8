"""Insists on a broker in the first metadata: one that is starting may answer that there is none.

aiokafka takes that for an answer (once it meant a cluster without topics), and then fails an assertion of its own,
which nobody expects of a Kafka that is back a moment later.
"""

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError


def insist_on_brokers(client: AIOKafkaClient) -> None:
    """Has the client's bootstrap raise KafkaConnectionError, as for a Kafka that does not answer."""
    bootstrap = client.bootstrap

    async def insisting() -> None:
        await bootstrap()
        if not client.cluster.brokers():
            raise KafkaConnectionError(f"{client.hosts} named no broker: Kafka is starting")

    client.bootstrap = insisting
