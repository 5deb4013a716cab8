"""A frame that is laid out as one before it gives what decoding it gives, whatever its bytes are."""

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from records.enums import Source
from records.telemetry import RequestSample
from streams.shell.sample_frames import SampleFrames
from streams.windows.buckets import BUCKET
from streams.windows.columns import COUNT_FIELDS, GAUGE_FIELDS, SampleColumns
from tests.streams.windows.test_columns import assert_equal, some_samples
from wire.codec import DecodeError
from wire.frames import Frame, decode_frame, encode_frames
from wire.known_frames import FrameReader, KnownFrame

TOPIC = "telemetry.requests"
STAMP_S = 2.0**33


def framed(samples: list[RequestSample]) -> bytes:
    (frame,) = encode_frames(samples)
    return frame.value


def later(random: Random, samples: list[RequestSample]) -> list[RequestSample]:
    """The same replicas with other numbers; what was null is null."""
    found = []
    for sample in samples:
        values: dict[str, Any] = {"at_s": sample.at_s + 1, "seq": sample.seq + 1}
        for name in COUNT_FIELDS:
            values[name] = None if getattr(sample, name) is None else random.randrange(2**32 - 1)
        for name in GAUGE_FIELDS:
            values[name] = None if getattr(sample, name) is None else random.random()
        found.append(msgspec.structs.replace(sample, **values))
    return found


def outcome(read: Any, value: bytes) -> Any:
    try:
        return read(value)
    except DecodeError as error:
        return error.reason, error.field, error.value, error.detail


def assert_same(value: bytes, frames: SampleFrames) -> bool:
    """Whether it was known, too."""
    found, expected = outcome(frames.read, value), outcome(lambda value: decode_frame(TOPIC, value), value)
    if not isinstance(expected, Frame):
        assert found == expected
        return False
    assert found.rows.tolist() == expected.rows.tolist()
    assert [(error.row, error.json) for error in found.errors] == [(error.row, error.json) for error in expected.errors]
    received_s = found.received_s(STAMP_S)
    np.testing.assert_array_equal(received_s, expected.received_s(STAMP_S))
    _soil(len(found.rows))
    assert_equal(frames.columns(found, received_s), SampleColumns.from_arrow(expected.batch, received_s))
    return isinstance(found, KnownFrame)


def _soil(size: int) -> None:
    """Leave memory behind in which nothing is unknown, for who takes it and does not fill it."""
    soiled = [np.ones(size, BUCKET) for _ in range(4)]
    del soiled


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [1, 2, 65])
def test_other_numbers_of_the_same_replicas_are_read_without_decoding(seed: int, size: int) -> None:
    random, frames = Random(seed), SampleFrames()
    samples = some_samples(seed, size)
    if seed % 2:
        samples = [msgspec.structs.replace(each, received_s=random.choice((None, 7.5))) for each in samples]
    assert not assert_same(framed(samples), frames)
    for _ in range(3):
        samples = later(random, samples)
        assert assert_same(framed(samples), frames)


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_frame_is_read_as_it_would_be_without_memory(seed: int) -> None:
    random, frames = Random(seed), SampleFrames()
    samples = some_samples(seed, 40)
    value = framed(samples)
    assert_same(value, frames)
    known = 0
    for _ in range(60):
        damaged = bytearray(framed(later(random, samples)))
        for _ in range(random.choice((1, 1, 3))):
            damaged[random.randrange(len(damaged))] = random.choice((0, 1, 0x7F, 0x80, 0xF0, 0xFF))
        known += assert_same(bytes(damaged), frames)
    assert 0 < known < 60


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": -1},
        {"steps": 2**32 - 1},
        {"running": float("nan")},
        {"running": -0.0},
        {"kv_cache_usage": 1.0000001},
        {"running": float("inf")},
        {"replica": "other"},
        {"reporter": "other"},
        {"epoch": "2"},
        {"running": None},
    ],
    ids=str,
)
def test_whatever_else_changes_is_looked_at_with_care(changes: dict[str, Any]) -> None:
    frames = SampleFrames()
    samples = [
        RequestSample(
            endpoint="chat",
            replica=f"r{number}",
            at_s=9,
            source=Source.ENGINE,
            steps=1,
            running=0.5,
            kv_cache_usage=0.5,
        )
        for number in range(5)
    ]
    assert not assert_same(framed(samples), frames)
    assert assert_same(framed(samples), frames)
    samples[3] = msgspec.structs.replace(samples[3], **changes)
    assert not assert_same(framed(samples), frames)


def test_what_is_remembered_is_bounded_and_a_part_of_too_many_is_still_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wire.known_frames.KNOWN_BYTES_MAX", 220_000)
    reader = FrameReader(TOPIC)
    values = [
        framed([RequestSample(endpoint=f"e{number}", replica="r", at_s=9, source=Source.ENGINE)])
        for number in range(100)
    ]
    rounds = [sum(isinstance(reader.read(value), KnownFrame) for value in values) for _ in range(6)]
    assert reader.nbytes <= 220_000
    assert rounds[0] == 0
    assert min(rounds[1:]) >= 5
