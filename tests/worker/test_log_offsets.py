"""Where logs begin and end is asked at the first try: between two tries of a client lies half a second."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from aiokafka.consumer.fetcher import Fetcher
from faust.types import TP

from streams.shell.inputs import INPUT_TOPICS
from streams.shell.log_offsets import LogOffsets
from streams.shell.memory_reader import MemoryReader
from tests.worker.pipeline import Pipeline
from wire.kafka import open_consumer


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Tries that brought no answer."""
    errors: list[BaseException] = []
    ask = Fetcher._proc_offset_requests

    async def followed(fetcher: Any, timestamps: Mapping[Any, int]) -> Any:
        try:
            return await ask(fetcher, timestamps)
        except BaseException as error:
            errors.append(error)
            raise

    monkeypatch.setattr(Fetcher, "_proc_offset_requests", followed)
    return errors


@pytest.mark.kafka
async def test_topics_are_known_before_they_are_asked_about(pipeline: Pipeline, failed: list[BaseException]) -> None:
    offsets = LogOffsets(partial(open_consumer, pipeline.access))
    await offsets.start()
    try:
        tps = [TP(pipeline.names.real(topic), 0) for topic in INPUT_TOPICS]
        assert {bounds.first for bounds in (await offsets.bounds(tps)).values()} == {0}
        assert not await offsets.records_at(dict.fromkeys(tps, 4e9))
        topics = [pipeline.names.real(topic) for topic in ("controllers", "policies")]
        memory = await MemoryReader(partial(open_consumer, pipeline.access), offsets).read(topics, 0)
        assert set(memory) == set(topics)
    finally:
        await offsets.stop()
    assert failed == []
