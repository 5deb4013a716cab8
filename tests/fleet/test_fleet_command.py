"""The fleet as a process: through a real Kafka to a real worker, and through what can happen to it."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import pytest

from headrace.broker_files import free_port
from headrace.children import Child, Children
from headrace.exit_codes import ExitCode
from headrace.local_stack import LocalStack
from headrace.main import main
from headrace.settings import LocalKafkaSettings, load
from tests.conftest import BrokerFactory, Kafka
from tests.fleet.telemetry import published
from tests.line.deployment import PARTITIONS, Line, scraped
from wire.admin import TopicSettings, create_topics
from wire.kafka import KafkaAccess
from wire.topics import TopicNames

SPEED = 10.0
SEEN_SPEED = 5.0
"""Where a worker looks on: a host that stalls for a second is then five seconds late."""
SCENARIO = """\
seed: 3
endpoints:
  - endpoint: chat
    engine: {model: llama-3.1-8b, hardware: H100}
    startup: {medianSeconds: 10, spread: 0}
    replicas: 2
    maxReplicas: 8
    traffic: {lengths: {like: conversation}, rate: [{second: 0, requestsPerSecond: 12}]}
  - endpoint: code
    engine: {model: llama-3.1-70b, hardware: H100x4}
    startup: {like: baseline}
    replicas: 1
    traffic: {lengths: {like: code}, rate: [{second: 0, requestsPerSecond: 2}]}
"""
POLICY = """\
endpoint: chat
scaleTargetRef: {kind: Deployment, name: chat}
mode: advise
minReplicas: 1
maxReplicas: 8
metrics: [{name: inflight_requests, target: 30}, {name: gpu_utilization, target: 0.8}, {name: ttft, target: 500}]
"""
COMMAND = [sys.executable, "-m", "headrace.main", "fleet"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}


@pytest.fixture
async def children(tmp_path: Path) -> AsyncIterator[Children]:
    async with Children(tmp_path / "logs") as running:
        yield running


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.yaml"
    file.write_text(SCENARIO)
    return file


class Api:
    """Calls to a running fleet."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def call(self, method: str, path: str, body: object = None) -> Any:
        async with aiohttp.ClientSession(self._url) as session, session.request(method, path, json=body) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def scale(self, endpoint: str, spec: int, decision: str | None = None) -> Any:
        target = await self.call("GET", f"/v1/targets/{endpoint}")
        body = {"spec_replicas": spec, "resource_version": target["resource_version"], "decision_id": decision}
        return await self.call("PUT", f"/v1/targets/{endpoint}/scale", body)

    async def until(self, holds: Callable[[Mapping[str, Any]], bool], endpoint: str = "chat") -> dict[str, Any]:
        """Ask for the summary until it holds; the endpoint's part of it."""
        async with asyncio.timeout(90):
            while True:
                told = await self.call("GET", "/v1/summary")
                seconds = {name: told[name] for name in ("first_s", "newest_s")}
                one: dict[str, Any] = {**told["endpoints"][endpoint], **seconds}
                if holds(one):
                    return one
                await asyncio.sleep(0.02)


def summary_of(child: Child) -> dict[str, Any]:
    """The line that a fleet wrote at its end."""
    lines = [line for line in child.log_path.read_text().splitlines() if line.startswith('{"first_s"')]
    told: dict[str, Any] = json.loads(lines[-1])
    return told


def check_seconds(samples: list[dict[str, Any]], newest_s: int) -> None:
    """Each replica's seconds follow each other without a gap, each once, up to the end or to its own."""
    seconds = defaultdict(list)
    for sample in samples:
        seconds[sample["endpoint"], sample["replica"], sample["epoch"]].append(sample["at_s"])
    for (endpoint, replica, _), told in seconds.items():
        assert sorted(told) == list(range(min(told), max(told) + 1)), (endpoint, replica)
    assert max(max(told) for told in seconds.values()) == newest_s


@pytest.mark.kafka
async def test_a_worker_sees_a_fleet_that_is_scaled_as_it_is(
    kafka: Kafka, children: Children, scenario: Path, tmp_path: Path
) -> None:
    line = Line(kafka.bootstrap, kafka.prefix(), tmp_path / "line", children, SEEN_SPEED)
    await line.create([POLICY])
    worker = await line.start("worker")
    settings = load(LocalKafkaSettings, {"topic_prefix": line.prefix, "partitions": PARTITIONS}, environment={})
    stack = LocalStack(settings, tmp_path, children, line.clock)
    await stack.start_kafka(kafka.bootstrap)
    fleet, url = await stack.start_fleet(scenario, "--journal", str(tmp_path / "journal.jsonl"))
    api = Api(url)
    await api.until(lambda told: told["newest_s"] >= told["first_s"])  # A target of two replicas has been reported.
    up = await api.scale("chat", 4, "up")
    assert (up["generation"], up["decision_id"]) == (2, "up")
    grown = await api.until(lambda told: told["replicas"] == {"ready": 4})
    await api.until(lambda told: told["newest_s"] > grown["newest_s"] + 5)
    metrics = await scraped(fleet)
    assert 'headrace_fleet_replicas{endpoint="chat",state="ready"} 4.0' in metrics
    assert 'headrace_fleet_api_calls_total{call="scale",result="ok"} 1.0' in metrics
    assert "headrace_fleet_behind_seconds" in metrics
    drain = {"replicas": ["chat-0"], "deadline_s": 40, "decision_id": "down"}
    assert (await api.call("POST", "/v1/targets/chat/drain", drain))["marked"] == ["chat-0"]
    await api.scale("chat", 3, "down")
    shrunk = await api.until(lambda told: told["replicas"] == {"ready": 3})
    await until_ticked(line, shrunk["newest_s"] + 5)
    await line.drain(fleet)
    await line.drain(worker)
    await check_telemetry(line, summary_of(fleet))
    await check_signals(line)
    entries = [json.loads(text) for text in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert [(e["call"], e["decision_id"], e["result"], e["spec_before"], e["spec_after"]) for e in entries] == [
        *(("get", None, "ok", 2, 2), ("scale", "up", "ok", 2, 4)),
        *(("drain", "down", "ok", 4, 4), ("get", None, "ok", 4, 4), ("scale", "down", "ok", 4, 3)),
    ]
    assert [entry["number"] for entry in entries] == [1, 2, 3, 4, 5]


async def until_ticked(line: Line, at_s: int) -> None:
    """Wait until the worker has made a signal of this second or later."""
    async with asyncio.timeout(90):
        while True:
            signals = await published(line.bootstrap, line.prefix, "signals")
            if signals and signals[-1]["at_s"] >= at_s:
                return
            await asyncio.sleep(0.2)


async def check_telemetry(line: Line, told: Mapping[str, Any]) -> None:
    """All that the fleet says it did is on the topics, once."""
    samples = await published(line.bootstrap, line.prefix, "telemetry.requests")
    check_seconds(samples, told["newest_s"])
    chat = [sample for sample in samples if sample["endpoint"] == "chat" and sample["replica"]]
    served = told["endpoints"]["chat"]
    assert sum(sample["arrivals"] for sample in chat) == served["arrivals"]
    assert sum(sample["completions"] for sample in chat) == served["completions"]
    gpus = await published(line.bootstrap, line.prefix, "telemetry.gpus")
    per_second = Counter((gpu["endpoint"], gpu["replica"], gpu["at_s"]) for gpu in gpus)
    assert per_second == {
        (sample["endpoint"], sample["replica"], sample["at_s"]): 4 if sample["endpoint"] == "code" else 1
        for sample in samples
        if sample["replica"]
    }
    changes = await published(line.bootstrap, line.prefix, "telemetry.replicas")
    entered: dict[tuple[str, str], int] = {}
    for change in changes:
        entered.setdefault((change["replica"], change["state"]), change["at_s"])
    assert entered["chat-3", "starting"] - entered["chat-3", "requested"] == 1
    assert entered["chat-3", "ready"] - entered["chat-3", "starting"] == 10
    assert {replica for replica, state in entered if state in ("draining", "gone")} == {"chat-0"}
    targets = await published(line.bootstrap, line.prefix, "telemetry.targets")
    specs = [target["spec_replicas"] for target in targets if target["endpoint"] == "chat"]
    assert [spec for spec, before in zip(specs, [None, *specs], strict=False) if spec != before] == [2, 4, 3]


async def check_signals(line: Line) -> None:
    """The worker finds nothing that contradicts itself, and counts the replicas as they are."""
    signals = await published(line.bootstrap, line.prefix, "signals")
    assert len(signals) >= 4
    values = [value for tick in signals for window in tick["windows"].values() for value in window.values()]
    assert {value["state"] for value in values} >= {"fresh", "partial"}
    assert [value for value in values if value["state"] == "suspect" or value["check"]] == []
    assert [one for tick in signals for one in tick["sources"] if one["state"] == "suspect"] == []
    assert {tick["supply"]["source"] for tick in signals} == {"observed"}
    assert max(tick["supply"]["starting"] for tick in signals) == 2
    assert max(tick["supply"]["ready"] for tick in signals) == 4
    assert signals[-1]["supply"]["ready"] == signals[-1]["spec_replicas"] == 3


@pytest.mark.kafka
async def test_a_dead_broker_and_a_stopped_process_lose_no_second(
    broker_factory: BrokerFactory, children: Children, scenario: Path, tmp_path: Path
) -> None:
    """Frames this time. The broker is away for some seconds, then the fleet itself is stopped for a moment."""
    broker = await asyncio.to_thread(broker_factory)
    line = Line(broker.bootstrap, "t.", tmp_path / "line", children, SPEED)
    wanted = TopicSettings(partitions=PARTITIONS, producer_timestamps=True)
    await create_topics(KafkaAccess(bootstrap=broker.bootstrap), TopicNames("t."), wanted)
    api_file = tmp_path / "api"
    flags = ["--scenario", str(scenario), "--api-file", str(api_file), "--messages", "arrow"]
    fleet = await line.start("fleet", *flags)
    api = Api(api_file.read_text().strip())
    before = await api.until(lambda told: told["simulated_seconds"] >= 5)
    broker.kill()
    await api.scale("chat", 3, "while the broker is away")
    away = await api.until(lambda told: told["newest_s"] > before["newest_s"] + 20)
    await asyncio.to_thread(broker.start)
    await children.wait_ready(fleet)
    fleet.process.send_signal(signal.SIGSTOP)
    stopped_s = line.clock.now_s()
    await line.clock.sleep(8)
    fleet.process.send_signal(signal.SIGCONT)
    await api.until(lambda told: told["newest_s"] > stopped_s + 10)
    await line.drain(fleet)
    told = summary_of(fleet)
    assert told["first_s"] < away["newest_s"]
    samples = await published(broker.bootstrap, "t.", "telemetry.requests")
    unique = {(s["endpoint"], s["replica"], s["epoch"], s["at_s"]): s for s in samples}
    check_seconds(list(unique.values()), told["newest_s"])
    arrivals = sum(s["arrivals"] for s in unique.values() if s["endpoint"] == "chat")
    assert arrivals == told["endpoints"]["chat"]["arrivals"]
    assert told["endpoints"]["chat"]["replicas"] == {"ready": 3}
    assert "Traceback" not in fleet.log_path.read_text()


def fleet(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**ENVIRONMENT, **environment},
    )


FAST = MappingProxyType({"HEADRACE_CLOCK_BASE": "1700000000", "HEADRACE_CLOCK_SPEED": "100"})


async def test_without_a_broker_it_runs_to_its_end_and_says_what_was_lost(scenario: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    flags = ["--scenario", str(scenario), "--bootstrap", nobody, "--seconds", "50"]
    done = await asyncio.to_thread(fleet, *flags, **FAST)
    assert done.returncode == ExitCode.INCOMPLETE, done.stderr
    told = json.loads(done.stdout)
    assert told["newest_s"] - told["first_s"] == 49
    assert told["endpoints"]["chat"]["simulated_seconds"] == 50
    assert told["endpoints"]["chat"]["gpu_seconds"] == 100
    assert told["endpoints"]["code"]["gpu_seconds"] == 200
    assert told["endpoints"]["chat"]["slo_kept_share"] > 0.9
    assert done.stderr.count("kafka_changed") == 1
    assert done.stderr.count("records_dropped") == 1
    assert "Traceback" not in done.stderr


async def test_every_answered_call_is_in_the_journals_file_after_a_kill(
    children: Children, scenario: Path, tmp_path: Path
) -> None:
    journal, api_file = tmp_path / "journal.jsonl", tmp_path / "api"
    journal.write_text('{"number":0}\n')
    flags = ["--scenario", str(scenario), "--bootstrap", f"127.0.0.1:{free_port()}", "--journal", str(journal)]
    child = children.start("fleet", [*COMMAND, *flags, "--api-file", str(api_file)])
    async with asyncio.timeout(90):
        while not api_file.exists():
            children.raise_ended()
            await asyncio.sleep(0.02)
    api = Api(api_file.read_text().strip())
    for number in range(5):
        await api.scale("chat", 3 + number % 2, f"d{number}")
    await children.end(child, signal.SIGKILL)
    entries = [json.loads(text) for text in journal.read_text().splitlines()]
    assert [entry["number"] for entry in entries] == list(range(11))
    assert [e["decision_id"] for e in entries[1:] if e["call"] == "scale"] == [f"d{number}" for number in range(5)]


CANNOT_RUN = [
    (["--api-port", "{taken}"], ExitCode.UNAVAILABLE, "--api-port: 127.0.0.1:{taken} cannot be used: "),
    (["--journal", "{folder}/no/j"], ExitCode.USAGE, "--journal: {folder}/no/j cannot be written: No such file"),
    (["--api-file", "{folder}/no/api"], ExitCode.USAGE, "--api-file: {folder}/no/api cannot be written: No such"),
]


async def test_what_cannot_be_had_is_told(scenario: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"taken": str(taken.getsockname()[1]), "folder": str(tmp_path)}
        flags = ["--scenario", str(scenario), "--bootstrap", f"127.0.0.1:{free_port()}", "--seconds", "1"]
        for given, code, said in CANNOT_RUN:
            done = await asyncio.to_thread(fleet, *flags, *(part.format(**places) for part in given))
            assert done.returncode == code, done.stderr
            assert said.format(**places) in done.stderr
            assert done.stdout == ""
            assert "Traceback" not in done.stderr


async def test_a_journal_that_cannot_be_kept_ends_the_fleet(children: Children, scenario: Path, tmp_path: Path) -> None:
    api_file = tmp_path / "api"
    flags = ["--scenario", str(scenario), "--bootstrap", f"127.0.0.1:{free_port()}", "--journal", "/dev/full"]
    child = children.start("fleet", [*COMMAND, *flags, "--api-file", str(api_file)])
    async with asyncio.timeout(90):
        while not api_file.exists():
            children.raise_ended()
            await asyncio.sleep(0.02)
    await Api(api_file.read_text().strip()).call("GET", "/v1/targets")
    assert await asyncio.to_thread(child.process.wait, 90) == ExitCode.STORAGE
    assert "--journal: /dev/full cannot be written: No space left on device" in child.log_path.read_text()


def test_wrong_settings_and_scenarios_are_told_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("seed: x\nendpoints: []\n")
    given = ["fleet", "--bootstrap", "127.0.0.1:1", "--scenario"]
    for flags, said in (
        (["nowhere.yaml"], ["nowhere.yaml:1: cannot be read: No such file or directory"]),
        ([str(bad)], [f'{bad}:1: seed: "x", allowed', f"{bad}:2: endpoints: a list of 0, allowed"]),
        ([str(bad), "--seconds", "0", "--messages", "xml"], ["--seconds: '0', allowed: 1 to", "--messages: 'xml'"]),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*given, *flags])
        told = capsys.readouterr()
        assert (ended.value.code, told.out) == (ExitCode.USAGE, "")
        for text in said:
            assert text in told.err
