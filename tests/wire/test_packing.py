"""Waiting records as messages."""

from itertools import groupby

import pytest

from records.enums import Source
from records.telemetry import RequestSample
from wire.packing import frame_messages
from wire.send_buffer import Waiting


def waiting(index: int, timestamp_ms: int | None) -> Waiting:
    sample = RequestSample(endpoint="chat", replica=f"chat-{index}", at_s=1_700_000_000, source=Source.ENGINE)
    return Waiting("chat", sample, 1024, timestamp_ms)


@pytest.mark.parametrize(
    ("timestamps_ms", "rows"),
    [
        ([None] * 4, [4]),
        ([7_000, 7_400, 7_999], [3]),
        ([7_000, 8_000, 8_500, 9_999], [1, 2, 1]),
    ],
    ids=["times of sending", "one second", "three seconds"],
)
async def test_a_frame_holds_records_of_one_second(timestamps_ms: list[int | None], rows: list[int]) -> None:
    """It has one timestamp: the others would say that they came earlier, or later, than they did."""
    records = [waiting(index, timestamp_ms) for index, timestamp_ms in enumerate(timestamps_ms)]
    messages, unwritable = await frame_messages(records, partitions=4, bytes_max=100_000)
    assert [len(message.records) for message in messages] == rows
    assert [record for message in messages for record in message.records] == records
    for message in messages:
        seconds = groupby(record.timestamp_ms and record.timestamp_ms // 1000 for record in message.records)
        assert len(list(seconds)) == 1
    assert (unwritable.too_large, unwritable.unreadable) == ([], [])
