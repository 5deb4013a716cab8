"""A real vLLM's recording through collect, Kafka, a worker and the sink: nothing invented, nothing lost."""

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.line.audit import ask, check_ticks, count_everything, read_decisions, read_topic, until_decided, until_kept
from tests.line.conftest import MakeLine
from tests.line.deployment import Line

RECORDING = "vllm-recording/idle-overload-hang-death.jsonl.gz"
SPEED = 8.0
TOPICS = ["telemetry.requests", "signals", "decisions.scaling", "controllers", "policies"]
HANG = range(68, 81)
"""Seconds of the recording in which the engine was stopped, without those cut by its edges."""
DEATH_S = 93
SILENT_S = DEATH_S + 25
"""From here on the windows of 20 s are empty."""
POLICY = """
endpoint: tiny
scaleTargetRef: {kind: Deployment, name: tiny}
minReplicas: 1
maxReplicas: 9
metrics:
  - {name: inflight_requests, target: 4}
  - {name: ttft, percentile: p95, target: 500}
"""
COUNTERS = {
    "vllm:prompt_tokens_total": "input_tokens",
    "vllm:generation_tokens_total": "output_tokens",
    "vllm:num_preemptions_total": "preemptions",
}
REASONS = {
    "stop": "completions",
    "length": "completions",
    "repetition": "completions",
    "abort": "aborted",
    "error": "errors",
}


def read_lines(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt") as lines:
        return [json.loads(line) for line in lines]


def engine_totals(body: str) -> dict[str, float]:
    """The engine's own counters, by the name that a sample gives them."""
    totals: defaultdict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(body):
        for name, labels, value, *_ in family.samples:
            if name in COUNTERS:
                totals[COUNTERS[name]] += value
            elif name == "vllm:request_success_total":
                totals[REASONS[labels["finished_reason"]]] += value
    return totals


def engine_growth(lines: list[dict[str, Any]]) -> dict[str, float]:
    """Counters at the last scrape of the living engine less those at the first."""
    bodies = [line["body"] for line in lines if line["kind"] == "/metrics" and line.get("code") == 200]
    first, last = engine_totals(bodies[0]), engine_totals(bodies[-1])
    return {name: last[name] - first[name] for name in last}


async def play(line: Line, recordings: Path) -> int:
    """Play it into the tables, and go on for a while after the death; the event time of its first second."""
    await line.create([POLICY])
    sink, worker = await line.start_all("sink", "worker")
    where = ["--endpoint", "tiny", "--replica", "tiny-0", "--recording", str(recordings / RECORDING)]
    await line.run("collect", *where, "--speed", f"{SPEED:g}")
    samples = await read_topic(line.bootstrap, line.prefix + TOPICS[0])
    start_s = min(json.loads(sample.value or b"")["at_s"] for sample in samples)
    await until_decided(line.bootstrap, line.prefix, ["tiny"], start_s + SILENT_S + 15)
    await line.drain(worker)
    await until_kept(line.bootstrap, line.prefix, line.tables, TOPICS)
    await line.drain(sink)
    return int(start_s)


@pytest.mark.kafka
async def test_a_recorded_engine_is_told_truly_from_end_to_end(make_line: MakeLine, recordings: Path) -> None:
    line = make_line(speed=SPEED)
    start_s = await play(line, recordings)
    counts = await count_everything(line.bootstrap, line.prefix, line.tables, TOPICS)
    assert {count.dead for count in counts.values()} == {0}
    samples = f"delta_scan('{line.tables / 'telemetry_requests'}')"

    growth = engine_growth(read_lines(recordings / RECORDING))
    assert growth["completions"] > 500
    names = sorted(growth)
    (sums,) = ask(f"SELECT {', '.join(f'sum({name})' for name in names)} FROM {samples}")
    assert dict(zip(names, sums, strict=True)) == growth

    newest = ask(f"SELECT max(at_s) FROM {samples}")[0][0] - start_s
    assert DEATH_S - 2 <= newest <= DEATH_S, "samples end with the last /health that was 200"

    hang = ask(
        f"SELECT count(*), sum(running), sum(waiting), sum(steps), sum(output_tokens), count(running), count(steps) "
        f"FROM {samples} WHERE at_s BETWEEN {start_s + HANG.start} AND {start_s + HANG.stop - 1}"
    )[0]
    seconds = len(HANG)
    assert hang == (seconds, 0, 0, 0, 0, seconds, seconds), "a hang is a stretch of known zeros, not of unknowns"

    decisions = await read_decisions(line.bootstrap, line.prefix)
    check_ticks(decisions)
    after = [d for d in decisions["tiny"] if d["at_s"] >= start_s + SILENT_S]
    assert len(after) >= 3
    for decision in after:
        assert (decision["action"], decision["desired"]) == ("hold", decision["current"]), decision
        assert decision["reason"] in {"unknown", "insufficient_evidence"}, decision
        for candidate in decision["candidates"]:
            if candidate["window_s"] == 20:
                assert candidate["state"] in {"stale", "unknown"}, candidate
                assert candidate["observed"] is None
