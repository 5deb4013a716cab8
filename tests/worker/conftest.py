"""A broker whose consumer groups notice a dead member in two seconds, not six: the tests here kill many."""

from collections.abc import Iterator

import pytest

from headrace.broker import EmbeddedBroker
from tests.worker.pipeline import Pipeline

QUICK_GROUPS = {"group.min.session.timeout.ms": "1000"}


@pytest.fixture(scope="session")
def quick_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(tmp_path_factory.mktemp("quick-kafka"), properties=QUICK_GROUPS)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
async def pipeline(quick_kafka: EmbeddedBroker) -> Pipeline:
    made = Pipeline.unique(quick_kafka.bootstrap)
    await made.create()
    return made
