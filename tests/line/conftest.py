"""Deployments of the whole line on the session's Kafka."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headrace.children import Children
from tests.conftest import Kafka
from tests.line.deployment import Line

MakeLine = Callable[..., Line]


@pytest.fixture
async def children(tmp_path: Path) -> AsyncIterator[Children]:
    async with Children(tmp_path / "logs") as running:
        yield running


@pytest.fixture
def make_line(kafka: Kafka, tmp_path: Path, children: Children) -> MakeLine:
    """A line with topics of its own; `speed` is that of its clock."""

    def make(speed: float = 1.0) -> Line:
        return Line(kafka.bootstrap, kafka.prefix(), tmp_path / "line", children, speed)

    return make
