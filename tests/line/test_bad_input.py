"""Every kind of bad input at once, between good samples: counted or kept as a dead letter, and the line goes on."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.line.audit import TICK_S, ask, check_ticks, count_everything, read_decisions, until_decided, until_kept
from tests.line.conftest import MakeLine
from tests.line.deployment import PARTITIONS, Line, Sender, scraped
from wire.kafka import partition_of

SPEED = 8.0
SECONDS = 60
TOPICS = ["telemetry.requests", "policies", "decisions.scaling", "signals"]
POLICY = """
endpoint: {name}
scaleTargetRef: {{kind: Deployment, name: {name}}}
minReplicas: 1
maxReplicas: 9
metrics: [{{name: inflight_requests, target: 4}}]
"""


def sample(endpoint: str, at_s: int, **fields: object) -> dict[str, object]:
    counts = {"arrivals": 1, "completions": 1, "errors": 0, "aborted": 0, "rejections": 0}
    load = {"running": 6.0, "waiting": 0.0}
    identity = {"endpoint": endpoint, "replica": "r1", "epoch": "1", "at_s": at_s, "source": "engine"}
    return {**identity, **counts, **load, **fields}


def frame_without_times(endpoint: str) -> bytes:
    columns = {"endpoint": [endpoint] * 3, "replica": ["r1"] * 3, "source": ["engine"] * 3, "running": np.ones(3)}
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


UNREADABLE = [
    b'{"endpoint": "good", "repl',
    b"",
    None,
    b"[1, 2]",
    b"\xff\xfe\x00",
    json.dumps(sample("good", 1_790_000_000, completions=-1)).encode(),
    json.dumps(sample("good", 1_790_000_000, running=float("nan"))).encode(),
    json.dumps(sample("good", 1_790_000_000, source="rumour")).encode(),
    json.dumps({"endpoint": "good", "replica": "r1"}).encode(),
    json.dumps(
        sample("good", 1_790_000_000, ttft_ms={"explicit_bounds": [5, 4], "bucket_counts": [1, 1, 1], "sum": 3})
    ).encode(),
]
BAD_POLICIES = [
    {"endpoint": "good", "minReplicas": 5, "maxReplicas": 3, "metrics": [{"name": "ttft", "target": 500}]},
    {"endpoint": "good", "minReplicas": 1, "maxReplicas": 9, "metrics": [{"name": "vibes"}]},
    {"endpoint": "good", "minReplicas": 1, "maxReplicas": 9, "metrics": []},
]


async def send_bad(line: Line, sender: Sender, now_s: int) -> None:
    for value in UNREADABLE:
        await sender.send("telemetry.requests", "good", value)
    await sender.send_frame("telemetry.requests", "good", frame_without_times("good"))
    nothing: Any = None  # Kafka allows a header without a value
    await sender.send("telemetry.requests", "good", b"{}", headers=[("content-type", nothing)])
    boast = sample("good", now_s - 1, received_s=now_s + 3600)  # a duplicate, with a clock that is ahead
    await sender.send_record("telemetry.requests", **boast)
    for record in (sample("good", now_s + 3600), sample("good", now_s - 86_400), sample("nobody", now_s)):
        await sender.send_record("telemetry.requests", **record)
    astray = (partition_of("good", PARTITIONS) + 1) % PARTITIONS
    await sender.send("telemetry.requests", "good", json.dumps(sample("good", now_s)).encode(), partition=astray)
    for policy in BAD_POLICIES:
        await sender.send("policies", "good", json.dumps(policy).encode())
    await sender.send("policies", "gone", None)


async def feed(line: Line) -> tuple[int, int]:
    """A minute of good samples with all of the bad ones in the middle; how many good samples were sent, and the newest
    tick for which all are there."""
    begin_s = int(line.clock.now_s())
    good = 0
    async with line.sender() as sender:
        for second in range(SECONDS):
            await line.clock.sleep(begin_s + second + 1 - line.clock.now_s())
            if second == SECONDS // 2:
                await send_bad(line, sender, begin_s + second)
            for endpoint in ("good", "gone"):
                await sender.send_record("telemetry.requests", **sample(endpoint, begin_s + second))
                good += 1
            await sender.flush()
    return good, (begin_s + SECONDS) // TICK_S * TICK_S


@pytest.mark.kafka
async def test_bad_input_is_told_and_harms_nobody_else(make_line: MakeLine) -> None:
    line = make_line(speed=SPEED)
    await line.create([POLICY.format(name=name) for name in ("good", "gone")])
    sink, worker = await line.start_all("sink", "worker")
    good, last_tick_s = await feed(line)
    await until_decided(line.bootstrap, line.prefix, ["good"], last_tick_s)
    metrics = await scraped(worker)
    await line.drain(worker)
    await until_kept(line.bootstrap, line.prefix, line.tables, TOPICS)
    await line.drain(sink)

    counts = await count_everything(line.bootstrap, line.prefix, line.tables, TOPICS)
    assert counts["telemetry.requests"].dead == len(UNREADABLE) + 2
    assert counts["telemetry.requests"].kept == good + 5
    assert counts["policies"].dead == len(BAD_POLICIES)
    told = ask(f"SELECT reason, field, value FROM delta_scan('{line.tables / 'deadletters'}')")
    assert ("out_of_range", "completions", "-1") in told
    assert {field for _, field, _ in told} >= {"at_s", "source", "completions"}

    decisions = await read_decisions(line.bootstrap, line.prefix)
    assert set(decisions) == {"good", "gone"}
    spans = check_ticks(decisions)
    assert spans["good"][1] - spans["good"][0] >= SECONDS - 10
    assert spans["gone"][1] <= spans["good"][1] - SECONDS // 3, "a deleted policy ends its endpoint's ticks"
    last = next(decision for decision in decisions["good"] if decision["at_s"] == last_tick_s)["candidates"][0]
    assert (last["observed"], last["state"]) == (6.0, "fresh"), "the neighbours of bad samples count"
    for reason in ("wrong_partition", "no_policy", "too_far_ahead", "late"):
        assert f'"{reason}"' in metrics, f"{reason} is not counted:\n{metrics}"
