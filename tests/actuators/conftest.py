"""A deployment of topics for each test, on the session's Kafka."""

from collections.abc import AsyncIterator

import pytest

from tests.actuators.deployment import Deployment
from tests.conftest import Kafka


@pytest.fixture
async def deployment(kafka: Kafka) -> AsyncIterator[Deployment]:
    made = await Deployment.create(kafka.bootstrap, kafka.prefix())
    yield made
    await made.close()
