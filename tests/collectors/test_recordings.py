"""Recordings as files: what is read, what is left out, what is broken."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from collectors.answers import Answer
from collectors.answers import Path as AnswerPath
from collectors.playing import Recording, play_recording
from collectors.recordings import LINE_BYTES_MAX, BrokenLine, RecordedAnswer, answer_of, length_of, read_recording

GOOD = '{"t": 1.5, "kind": "/metrics", "code": 200, "ms": 5.5, "body": "x"}'


def written(folder: Path, lines: Iterable[str | bytes], name: str = "recording.jsonl") -> Path:
    path = folder / name
    path.write_bytes(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines) + b"\n")
    return path


def test_answers_of_the_two_paths_are_read_and_other_kinds_are_not(tmp_path: Path) -> None:
    lines = [
        GOOD,
        '{"t": 2, "kind": "/health", "err": "TimeoutError"}',
        '{"t": 3, "kind": "req", "code": "odd", "ttft": 0.1}',
        '{"t": 4, "kind": "probe-100", "prio": -100, "err": "TimeoutError"}',
        '{"t": 5, "kind": "note", "pids": [1]}',
        "",
        '{"t": 6, "kind": "/health", "code": 503}',
    ]
    found = list(read_recording(written(tmp_path, lines)))
    assert found == [
        RecordedAnswer(t=1.5, kind="/metrics", code=200, body="x"),
        RecordedAnswer(t=2, kind="/health", err="TimeoutError"),
        RecordedAnswer(t=6, kind="/health", code=503),
    ]


def test_event_time_is_start_plus_t() -> None:
    answer = answer_of(RecordedAnswer(t=1.008, kind="/metrics", code=200, body="x"), 1_700_000_000)
    assert answer == Answer(at_s=1700000001.008, path=AnswerPath.METRICS, code=200, body="x")
    failed = answer_of(RecordedAnswer(t=2, kind="/health", code=200, err="TimeoutError"), 0)
    assert (failed.code, failed.failure) == (None, "TimeoutError")


@pytest.mark.parametrize(
    "line",
    [
        '{"t": 1.5, "kind": "/metr',
        "[]",
        '"text"',
        '{"kind": "/metrics", "code": 200}',
        '{"t": "soon", "kind": "/metrics", "code": 200}',
        '{"t": -1, "kind": "/metrics", "code": 200}',
        '{"t": NaN, "kind": "/metrics", "code": 200}',
        '{"t": 1e400, "kind": "/metrics", "code": 200}',
        '{"t": 1, "kind": "/metrics"}',
        '{"t": 1, "kind": "/metrics", "code": "200"}',
        '{"t": 1}',
        b'{"t": 1, "kind": "/metrics", "code": 200, "body": "\xff\xfe"}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_answer_is_named_and_the_rest_goes_on(tmp_path: Path, line: str | bytes) -> None:
    before, broken, after = read_recording(written(tmp_path, [GOOD, line, GOOD]))
    assert isinstance(broken, BrokenLine)
    assert broken.number == 2
    assert broken.reason
    assert isinstance(before, RecordedAnswer)
    assert before == after


def test_a_line_that_is_too_long_is_named_and_skipped(tmp_path: Path) -> None:
    long = json.dumps({"t": 1, "kind": "/metrics", "code": 200, "body": "x" * (3 * LINE_BYTES_MAX)})
    found = list(read_recording(written(tmp_path, [GOOD, long, GOOD])))
    assert [type(item) for item in found] == [RecordedAnswer, BrokenLine, RecordedAnswer]


def test_a_gzip_stream_that_breaks_off_ends_in_a_broken_line(tmp_path: Path) -> None:
    whole = gzip.compress("\n".join([GOOD] * 5000).encode())
    path = tmp_path / "recording.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    *read, last = read_recording(path)
    assert isinstance(last, BrokenLine)
    assert "cannot be read further" in last.reason
    assert all(isinstance(item, RecordedAnswer) for item in read)


def test_a_file_that_is_no_gzip_stream_in_spite_of_its_name(tmp_path: Path) -> None:
    (broken,) = read_recording(written(tmp_path, [GOOD], "recording.jsonl.gz"))
    assert isinstance(broken, BrokenLine)


def test_the_length_is_that_of_the_last_answer(tmp_path: Path) -> None:
    path = written(tmp_path, [GOOD, '{"t": 7.25, "kind": "/health", "code": 200}', '{"t": 99, "kind": "req"}'])
    assert length_of(path) == 7.25
    assert length_of(written(tmp_path, [], "empty.jsonl")) == 0.0


class TurnedClock:
    """A clock whose sleeps pass at once."""

    def __init__(self) -> None:
        self.shown_s = 5000.0
        self.slept: list[float] = []

    def now_s(self) -> float:
        return self.shown_s

    async def sleep(self, span_s: float) -> None:
        self.slept.append(span_s)
        self.shown_s += max(0.0, span_s)


async def test_with_a_clock_the_recording_keeps_its_pace(tmp_path: Path) -> None:
    lines = [f'{{"t": {t}, "kind": "/health", "code": 200}}' for t in (0.5, 1.5, 4.0)]
    recording = Recording(path=written(tmp_path, lines), replica="a", start_s=100.0)
    clock = TurnedClock()
    played: list[tuple[float, str, float]] = []
    await play_recording(
        recording, lambda replica, answer: played.append((clock.now_s(), replica, answer.at_s)), print, clock
    )
    assert played == [(5000.5, "a", 100.5), (5001.5, "a", 101.5), (5004.0, "a", 104.0)]
