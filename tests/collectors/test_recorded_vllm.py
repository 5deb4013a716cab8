"""The recording of a real vLLM through `headrace collect`, against what its own counters say.

The expectations are read from the recording by other means than the collector's.
"""

import gzip
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wire.codec import decode

START_S = 1_700_000_000


@dataclass(frozen=True)
class Recorded:
    """Lines of the recording by kind, as they stand in it."""

    metrics: list[dict[str, Any]]
    health: list[dict[str, Any]]

    @property
    def good(self) -> list[dict[str, Any]]:
        """Scrapes that succeeded while the newest /health before them, if any, was 200."""
        return [
            line
            for line in self.metrics
            if line.get("code") == 200
            and next((h.get("code") for h in reversed(self.health) if h["t"] <= line["t"]), 200) == 200
        ]

    def gained(self, pattern: str) -> float:
        """Last minus first value of a series among the good scrapes."""
        return value_of(self.good[-1]["body"], pattern) - value_of(self.good[0]["body"], pattern)


def value_of(body: str, pattern: str) -> float:
    """The sum over the lines that begin with `pattern`."""
    values = re.findall(rf"^{pattern} (\S+)$", body, re.MULTILINE)
    assert values, pattern
    return sum(float(value) for value in values)


@pytest.fixture(scope="module")
def recording(recordings: Path) -> Path:
    return recordings / "vllm-recording" / "idle-overload-hang-death.jsonl.gz"


@pytest.fixture(scope="module")
def recorded(recording: Path) -> Recorded:
    with gzip.open(recording, "rt") as file:
        lines = [json.loads(line) for line in file]
    return Recorded(
        metrics=[line for line in lines if line["kind"] == "/metrics"],
        health=[line for line in lines if line["kind"] == "/health"],
    )


def collect(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "headrace.main", "collect", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def samples(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What `--out` got, each line with its second since the start as `t`."""
    out = tmp_path_factory.mktemp("collect") / "out.jsonl"
    done = collect("--recording", str(recording), "--endpoint", "chat", "--start", str(START_S), "--out", str(out))
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return [{**line, "t": line["at_s"] - START_S} for line in lines]


def total(samples: list[dict[str, Any]], field: str) -> int:
    return sum(sample.get(field) or 0 for sample in samples)


@pytest.mark.parametrize(
    ("field", "pattern"),
    [
        ("completions", r"vllm:request_success_total\{[^}]*finished_reason=\"(?:stop|length|repetition)\"[^}]*\}"),
        ("aborted", r"vllm:request_success_total\{[^}]*finished_reason=\"abort\"[^}]*\}"),
        ("errors", r"vllm:request_success_total\{[^}]*finished_reason=\"error\"[^}]*\}"),
        ("rejections", r"vllm:admission_rejections_total\{[^}]*\}"),
        ("input_tokens", r"vllm:prompt_tokens_total\{[^}]*\}"),
        ("cached_tokens", r"vllm:prompt_tokens_cached_total\{[^}]*\}"),
        ("output_tokens", r"vllm:generation_tokens_total\{[^}]*\}"),
        ("preemptions", r"vllm:num_preemptions_total\{[^}]*\}"),
        ("steps", r"vllm:iteration_tokens_total_count\{[^}]*\}"),
    ],
)
def test_sums_are_the_differences_of_the_engines_counters(
    samples: list[dict[str, Any]], recorded: Recorded, field: str, pattern: str
) -> None:
    assert total(samples, field) == recorded.gained(pattern)
    assert all(field in sample for sample in samples[1:]), "known in every second but that of the first scrape"


def test_there_is_something_to_add_up(samples: list[dict[str, Any]]) -> None:
    assert total(samples, "completions") == 592
    assert total(samples, "output_tokens") == 70904
    assert total(samples, "input_tokens") == 38374


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("ttft_ms", "time_to_first_token_seconds"),
        ("tpot_ms", "request_time_per_output_token_seconds"),
        ("e2e_ms", "e2e_request_latency_seconds"),
        ("queue_ms", "request_queue_time_seconds"),
    ],
)
def test_histograms_add_up_bucket_by_bucket(
    samples: list[dict[str, Any]], recorded: Recorded, field: str, name: str
) -> None:
    bounds = re.findall(rf'^vllm:{name}_bucket\{{[^}}]*le="([^"]+)"', recorded.good[0]["body"], re.MULTILINE)
    cumulative = [recorded.gained(rf'vllm:{name}_bucket\{{[^}}]*le="{re.escape(le)}"[^}}]*\}}') for le in bounds]
    expected = [count - before for count, before in zip(cumulative, [0, *cumulative], strict=False)]
    histograms = [sample[field] for sample in samples[1:]]
    assert all([f"{bound / 1000}" for bound in h["explicit_bounds"]] == bounds[:-1] for h in histograms)
    assert [sum(h["bucket_counts"][i] for h in histograms) for i in range(len(bounds))] == expected
    seconds = recorded.gained(rf"vllm:{name}_sum\{{[^}}]*\}}")
    assert sum(h["sum"] for h in histograms) == pytest.approx(seconds * 1000, abs=1e-3)


def test_no_sample_during_the_503s_and_after_the_death(samples: list[dict[str, Any]], recorded: Recorded) -> None:
    unwell = [line["t"] for line in recorded.health if line.get("code") == 503]
    assert len(unwell) == 4
    assert max(sample["t"] for sample in samples) + 1 <= min(unwell)


def test_nothing_is_told_by_a_failed_scrape_or_while_health_is_bad(
    samples: list[dict[str, Any]], recorded: Recorded
) -> None:
    told_s = {round(sample["received_s"] - START_S, 3) for sample in samples}
    answered = {line["t"] for line in [*recorded.good, *recorded.health] if line.get("code") == 200}
    assert told_s <= answered


def test_the_hang_is_a_stretch_of_known_zeros_with_a_flat_step_counter(samples: list[dict[str, Any]]) -> None:
    hang = [sample for sample in samples if 67 <= sample["t"] <= 81]
    assert len(hang) == 15
    counted = ("completions", "aborted", "errors", "rejections", "input_tokens", "output_tokens", "steps")
    for sample in hang:
        assert [sample[field] for field in counted] == [0] * len(counted)
        assert (sample["running"], sample["waiting"]) == (0, 0)
        assert sum(sample["e2e_ms"]["bucket_counts"]) == 0


def test_every_second_has_one_sample_and_they_come_in_order(samples: list[dict[str, Any]]) -> None:
    assert [sample["t"] for sample in samples] == list(range(93))
    received = [sample["received_s"] for sample in samples]
    assert received == sorted(received)
    assert {sample["epoch"] for sample in samples} == {"1795967911050"}
    assert {(sample["endpoint"], sample["replica"], sample["source"]) for sample in samples} == {
        ("chat", "chat-0", "engine")
    }


def test_gauges_are_those_of_the_scrapes(samples: list[dict[str, Any]], recorded: Recorded) -> None:
    read: dict[int, list[float]] = {}
    for line in recorded.good:
        read.setdefault(int(line["t"]), []).append(value_of(line["body"], r"vllm:num_requests_running\{[^}]*\}"))
    for sample in samples:
        if found := read.get(sample["t"]):
            assert sample["running"] == sum(found) / len(found)
    silent = [sample for sample in samples if 24 <= sample["t"] <= 38]
    assert len(silent) == 15
    assert all("running" not in sample and sample["output_tokens"] > 0 for sample in silent)


def test_the_first_sample_has_gauges_alone(samples: list[dict[str, Any]]) -> None:
    assert samples[0].keys() & {"completions", "output_tokens", "ttft_ms", "steps"} == set()
    assert samples[0]["running"] == 0.0


def test_each_line_is_a_record_of_its_topic(samples: list[dict[str, Any]]) -> None:
    for sample in samples:
        fields = {name: value for name, value in sample.items() if name not in ("topic", "t")}
        assert decode(sample["topic"], msgspec.json.encode(fields))


def test_twice_gives_the_same_bytes_at_any_speed(
    recording: Path, samples: list[dict[str, Any]], tmp_path: Path
) -> None:
    arguments = ["--recording", str(recording), "--endpoint", "chat", "--replica", "r1", "--start", str(START_S)]
    written = []
    for speed in ("1", "25"):
        out = tmp_path / speed / "out.jsonl.gz"
        out.parent.mkdir()
        done = collect(*arguments, "--speed", speed, "--out", str(out))
        assert done.returncode == 0, done.stderr.decode()
        written.append(out.read_bytes())
    assert written[0] == written[1]
    lines = [json.loads(line) for line in gzip.decompress(written[0]).splitlines()]
    assert lines == [{**{k: v for k, v in sample.items() if k != "t"}, "replica": "r1"} for sample in samples]


def test_standard_output_and_a_recording_that_ends_now(recording: Path, samples: list[dict[str, Any]]) -> None:
    """It may begin anywhere in a second, so its 93 seconds touch 93 or 94 whole ones."""
    done = collect("--recording", str(recording), "--endpoint", "chat", "--out", "-")
    assert done.returncode == 0, done.stderr.decode()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    seconds = [line["at_s"] for line in lines]
    assert seconds == list(range(seconds[0], seconds[0] + len(seconds)))
    assert len(samples) <= len(seconds) <= len(samples) + 1
    assert total(lines, "output_tokens") == total(samples, "output_tokens")
    assert seconds[0] > START_S + 10**7, "it is no longer 2023"
    assert b"engine_changed" in done.stderr


def broken_variant(kind: str, lines: list[bytes]) -> list[bytes]:
    if kind == "cut":
        return [*lines[:100], lines[100][: len(lines[100]) // 2], *lines[101:]]
    html = {"t": 5.5, "kind": "/metrics", "code": 200, "body": "<html>Bad gateway</html>"}
    return [*lines[:20], json.dumps(html).encode(), *lines[20:]]


@pytest.mark.parametrize("kind", ["cut", "html"])
def test_broken_input_is_said_and_changes_nothing_else(
    recording: Path, samples: list[dict[str, Any]], tmp_path: Path, kind: str
) -> None:
    with gzip.open(recording) as file:
        lines = file.read().splitlines()
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"\n".join(broken_variant(kind, lines)) + b"\n")
    out = tmp_path / "out.jsonl"
    done = collect("--recording", str(broken), "--endpoint", "chat", "--start", str(START_S), "--out", str(out))
    assert done.returncode == 1
    assert (b"line_broken" if kind == "cut" else b"unreadable") in done.stderr
    assert b"Traceback" not in done.stderr
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert total(found, "output_tokens") == total(samples, "output_tokens")


def test_a_file_that_is_no_recording_does_not_fill_the_log(tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text("It was a dark night.\n" * 300)
    done = collect("--recording", str(tmp_path / "novel.txt"), "--endpoint", "chat", "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert done.stderr.count(b"line_broken") == 10
    assert b'"broken_lines": 300' in done.stderr
