"""`headrace replay` as its users meet it: files, pipes, exit statuses, the same bytes."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.exit_codes import ExitCode
from headrace.replay import Replay
from records.outcomes import DeadLetter
from tests.streams.controller.line import Line
from tests.streams.controller.random_line import random_line

POLICY = """endpoint: {name}
scaleTargetRef: {{kind: Deployment, name: {name}}}
minReplicas: 1
maxReplicas: 8
metrics: [{{name: inflight_requests, target: 8}}, {{name: ttft, target: 400}}]
"""


def lines_of(line: Line) -> list[str]:
    """As contract.md has them: one record a line, in the order of arrival."""
    return [
        json.dumps({"topic": one.topic, **msgspec.to_builtins(one.record), "received_s": one.received_s})
        for one in line.arrivals
    ]


def engine(at_s: int, **fields: Any) -> str:
    values = {"arrivals": 1, "completions": 1, "errors": 0, "aborted": 0, "running": 4, "waiting": 0, **fields}
    head = {"topic": "telemetry.requests", "endpoint": "alpha", "replica": "r1", "source": "engine", "at_s": at_s}
    return json.dumps(head | values)


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    for name in ("alpha", "beta", "gamma"):
        (folder / f"{name}.yaml").write_text(POLICY.format(name=name))
    return folder


def replay(*flags: str | Path, stdin: bytes | None = None, seed: str = "0") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "headrace.main", "replay", *map(str, flags)]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(command, input=stdin, capture_output=True, env=environment, check=False)


def test_the_same_file_gives_the_same_bytes_in_any_process(tmp_path: Path, policies: Path) -> None:
    telemetry = tmp_path / "telemetry.jsonl"
    telemetry.write_text("\n".join(lines_of(random_line(1, 200))) + "\n")
    packed = tmp_path / "telemetry.jsonl.gz"
    packed.write_bytes(gzip.compress(telemetry.read_bytes()))
    every = ("--topics", "decisions.*,signals,deadletters", "--policies", policies)
    first = replay("--telemetry", telemetry, "--out", tmp_path / "a.jsonl", *every, seed="1")
    assert (first.returncode, first.stderr, first.stdout) == (0, b"", b"")
    out = (tmp_path / "a.jsonl").read_bytes()
    assert out.count(b'{"topic":"signals"') == out.count(b'{"topic":"decisions.scaling"') > 100
    second = replay("--telemetry", packed, "--out", tmp_path / "b.jsonl.gz", *every, seed="2")
    assert second.returncode == 0
    assert gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()) == out
    replay("--telemetry", packed, "--out", tmp_path / "c.jsonl.gz", *every)
    assert (tmp_path / "b.jsonl.gz").read_bytes() == (tmp_path / "c.jsonl.gz").read_bytes()
    piped = replay("--telemetry", "-", "--out", "-", *every, stdin=telemetry.read_bytes(), seed="3")
    assert piped.stdout == out
    assert sorted(tmp_path.glob("*.part")) == []


def test_each_ticks_decisions_are_there_before_the_next_line_is_read(policies: Path) -> None:
    """Another program can close the loop: it writes a line and waits for what comes of it."""
    command = [sys.executable, "-m", "headrace.main", "replay", "--policies", str(policies)]
    with subprocess.Popen(
        [*command, "--telemetry", "-", "--out", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for tick in (1005, 1010, 1015):
            for at_s in range(tick - 3, tick + 2):
                process.stdin.write(engine(at_s).encode() + b"\n")
            process.stdin.flush()
            decision = json.loads(process.stdout.readline())
            assert (decision["topic"], decision["at_s"]) == ("decisions.scaling", tick)
        process.stdin.close()
        assert process.wait() == 0


BAD_LINES = [
    ("", "empty", None),
    ("{half", "malformed", None),
    ("[1]", "wrong_type", None),
    (json.dumps({"at_s": 1}), "missing_field", "topic"),
    (json.dumps({"topic": "telemetry.nothing"}), "unknown_topic", "topic"),
    (engine(1020, running=-1), "out_of_range", "running"),
    (engine(1020, completions=1.5), "wrong_type", "completions"),
    (engine(1020).replace('"running": 4', '"running": NaN'), "not_finite", "running"),
    (json.dumps({"topic": "clock"}), "missing_field", "received_s"),
    (json.dumps({"topic": "policies", "deleted": True}), "missing_field", "endpoint"),
    ("\xff", "malformed", None),
]


@pytest.mark.parametrize(("bad", "reason", "field"), BAD_LINES)
def test_a_line_that_is_no_record_becomes_a_dead_letter(bad: str, reason: str, field: str | None) -> None:
    letters: list[msgspec.Struct] = []
    replay = Replay((), lambda topic, record: letters.append(record), source="file:telemetry.jsonl")
    replay.take(engine(1000).encode())
    replay.take(bad.encode("latin-1"))
    replay.finish()
    (letter,) = letters
    assert isinstance(letter, DeadLetter)
    assert (letter.offset, letter.reason, letter.field) == (2, reason, field)


def test_the_rest_of_a_file_with_bad_lines_goes_on(tmp_path: Path, policies: Path) -> None:
    telemetry = tmp_path / "telemetry.jsonl"
    good = [engine(at_s) for at_s in range(1000, 1030)]
    lines = [*good[:20], *(bad for bad, _, _ in BAD_LINES), *good[20:]]
    telemetry.write_bytes("\n".join(lines).encode("latin-1") + b"\n")
    done = replay("--telemetry", telemetry, "--out", "-", "--policies", policies, "--topics", "decisions.*,deadletters")
    assert done.returncode == 1
    assert f"lines that are no records: {len(BAD_LINES)}, the first is line 21: ".encode() in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    letters = [one for one in found if one["topic"] == "deadletters"]
    assert [one["offset"] for one in letters] == list(range(21, 21 + len(BAD_LINES)))
    assert {one["source_topic"] for one in letters} == {"file:telemetry.jsonl"}
    assert [one["at_s"] for one in found if one["topic"] != "deadletters"] == [1005, 1010, 1015, 1020, 1025, 1030]


def test_nothing_is_written_where_it_could_not_run(tmp_path: Path, policies: Path) -> None:
    telemetry = tmp_path / "telemetry.jsonl"
    telemetry.write_text(engine(1000))
    out = tmp_path / "out.jsonl"
    (policies / "bad.yaml").write_text(POLICY.format(name="delta").replace("minReplicas: 1", "minReplicas: 9"))
    refused = replay("--telemetry", telemetry, "--out", out, "--policies", policies)
    assert refused.returncode == 2
    assert b"bad.yaml:3: minReplicas: 9" in refused.stderr
    (policies / "bad.yaml").unlink()
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes(gzip.compress(b"x" * 10_000)[:40])
    for source, message in (
        (tmp_path / "none.jsonl", b"No such file"),
        (torn, b"--telemetry: %s: not a sound gzip file (Compressed file ended" % bytes(torn)),
        (tmp_path, b"Is a directory"),
    ):
        refused = replay("--telemetry", source, "--out", out, "--policies", policies)
        assert refused.returncode == 2
        assert message in refused.stderr
        assert b"Traceback" not in refused.stderr
    refused = replay("--telemetry", telemetry, "--out", out, "--policies", policies, "--topics", "decisions.*,nothing")
    assert refused.returncode == 2
    assert b"'nothing', allowed: decisions.*" in refused.stderr
    refused = replay("--telemetry", telemetry, "--out", tmp_path / "no" / "out.jsonl", "--policies", policies)
    assert refused.returncode == 2
    assert not out.exists()
    assert sorted(tmp_path.glob("*.part")) == []


def test_a_clock_line_lets_time_pass_and_an_outage_is_skipped(tmp_path: Path, policies: Path) -> None:
    telemetry = tmp_path / "telemetry.jsonl"
    text = [engine(at_s) for at_s in range(1000, 1020)]
    text.append(json.dumps({"topic": "clock", "received_s": 1041.0}))
    text.append(json.dumps({"topic": "clock", "received_s": 1241.0, "behind": True}))
    text += [engine(at_s) for at_s in range(1041, 1250)]
    telemetry.write_text("\n".join(text))
    done = replay("--telemetry", telemetry, "--out", "-", "--policies", policies)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["at_s"] for one in found if one["at_s"] <= 1035] == list(range(1005, 1040, 5))
    assert [(one["at_s"], one["skipped"]) for one in found if one["at_s"] > 1035][:2] == [
        (1230, {"first_tick": 1040, "last_tick": 1230}),
        (1235, None),
    ]
    assert found[-1]["at_s"] == 1250


def test_policies_in_the_file_change_and_end_an_endpoint(tmp_path: Path) -> None:
    document = {
        "topic": "policies",
        "endpoint": "alpha",
        "minReplicas": 2,
        "maxReplicas": 4,
        "scaleTargetRef": {"kind": "Deployment", "name": "alpha"},
        "metrics": [{"name": "inflight_requests"}],
    }
    telemetry = tmp_path / "telemetry.jsonl"
    text = [json.dumps(document), *(engine(at_s) for at_s in range(1000, 1020))]
    text += [json.dumps(document | {"minReplicas": 3}), *(engine(at_s) for at_s in range(1020, 1040))]
    text += [json.dumps({"topic": "policies", "endpoint": "alpha", "deleted": True})]
    text += [engine(at_s) for at_s in range(1040, 1060)]
    telemetry.write_text("\n".join(text))
    done = replay("--telemetry", telemetry, "--out", "-")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["at_s"], one["floors"]["minimum"]) for one in found] == [
        (1005, 2),
        (1010, 2),
        (1015, 2),
        *((at_s, 3) for at_s in range(1020, 1040, 5)),
    ]


def test_a_reader_that_ends_early_ends_it_quietly(tmp_path: Path) -> None:
    telemetry = tmp_path / "telemetry.jsonl"
    telemetry.write_text("no record\n" * 5_000)  # whose dead letters are more than a pipe holds
    command = [sys.executable, "-m", "headrace.main", "replay", "--telemetry", str(telemetry)]
    command += ["--topics", "deadletters"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == ExitCode.READER_GONE
