"""Topics of one test on the session's Kafka."""

import pytest

from tests.conftest import Kafka
from tests.worker.pipeline import Pipeline


@pytest.fixture
async def pipeline(kafka: Kafka) -> Pipeline:
    made = Pipeline.unique(kafka.bootstrap)
    await made.create()
    return made
