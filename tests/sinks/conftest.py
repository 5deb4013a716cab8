"""Deployments on the session's Kafka."""

from pathlib import Path

import pytest

from tests.conftest import Kafka
from tests.sinks.deployment import Deployment


@pytest.fixture
async def deployment(kafka: Kafka, tmp_path: Path) -> Deployment:
    folder = tmp_path / "tables"
    folder.mkdir()
    return await Deployment.create(kafka.bootstrap, folder)
