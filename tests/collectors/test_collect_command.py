"""`headrace collect` as its users call it: what it says when it cannot run, and samples through a real Kafka."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiokafka import TopicPartition

from headrace.broker_files import free_port
from headrace.clock import monotonic_s
from headrace.commands.collect import CollectSettings
from headrace.engine import LlamaServer
from headrace.exit_codes import ExitCode
from headrace.load import LoadGenerator, LoadPhase, plan_load
from headrace.main import main
from headrace.settings import load
from records.telemetry import RequestSample
from tests.conftest import Kafka
from wire.admin import TopicSettings, create_topics
from wire.codec import decode
from wire.kafka import KafkaAccess, open_consumer, partition_of
from wire.topics import TopicNames

PARTITIONS = 3
COMMAND = [sys.executable, "-m", "headrace.main", "collect"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}


def collect(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**ENVIRONMENT, **environment},
    )


REFUSED = [
    (["--out", "-"], ["--endpoint: required", "--replica: required without --recording"]),
    (["--endpoint", "e"], ["--replica: required without --recording", "--bootstrap or --out"]),
    (
        ["--endpoint", "e", "--replica", "ftp://x", "--replica", "a=http://x/?q=1", "--start", "5", "--out", "-"],
        ["--replica: 'ftp://x'", "--replica: 'a=http://x/?q=1'", "--start: 5, allowed: only with --recording"],
    ),
    (
        ["--endpoint", "e", "--replica", "a=http://x", "--replica", "a=http://y", "--bootstrap", "nowhere"],
        ["--replica: 'a' is given twice", "--bootstrap: 'nowhere', allowed: HOST:PORT"],
    ),
    (["--endpoint", "e", "--replica", "http://a..b", "--out", "-"], ["--replica: 'http://a..b', allowed: NAME=URL"]),
    (["--endpoint", "e", "--recording", "x", "--replica", "http://x", "--out", "-"], ["one NAME, no URL"]),
    (["--endpoint", "e", "--recording", "nowhere.jsonl", "--out", "-"], ["nowhere.jsonl: no such file"]),
    (["--endpoint", "e", "--recording", __file__, "--speed", "0", "--out", "-"], ["--speed: '0', allowed"]),
]
REFUSED_LATER = [
    (["--endpoint", "e", "--recording", __file__, "--out", "/nowhere/out.jsonl"], ["/nowhere/out.jsonl cannot be"]),
    (
        ["--endpoint", "e", "--recording", __file__, "--speed", "3", "--bootstrap", "127.0.0.1:1"],
        ["--speed: 3, but the pipeline's clock runs at 1 (HEADRACE_CLOCK_SPEED)"],
    ),
]


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in os.environ.keys() - ENVIRONMENT.keys():
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.usefixtures("plain_environment")
@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_what_is_wrong_is_told_at_once(
    arguments: list[str], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["collect", *arguments])
    told = capsys.readouterr()
    assert ended.value.code == 2
    assert told.out == ""
    for text in said:
        assert text in told.err


@pytest.mark.parametrize(("arguments", "said"), REFUSED_LATER)
def test_what_cannot_run_is_told_and_nothing_is_written(arguments: list[str], said: list[str]) -> None:
    done = collect(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for text in said:
        assert text in done.stderr


def test_a_full_disk_is_told(recordings: Path) -> None:
    recording = recordings / "vllm-recording" / "idle-overload-hang-death.jsonl.gz"
    done = collect("--endpoint", "e", "--recording", str(recording), "--out", "/dev/full")
    assert done.returncode == 5
    assert "--out: /dev/full cannot be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_ends_early_is_no_error(recordings: Path) -> None:
    recording = recordings / "vllm-recording" / "idle-overload-hang-death.jsonl.gz"
    command = [sys.executable, "-m", "headrace.main", "collect", "--endpoint", "e", "--recording", str(recording)]
    with subprocess.Popen([*command, "--out", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        told = running.stderr.read().decode()
    assert running.returncode == ExitCode.READER_GONE
    assert "cannot be written" not in told
    assert "Traceback" not in told


def test_settings_come_from_the_environment_too(plain_environment: pytest.MonkeyPatch) -> None:
    plain_environment.setenv("HEADRACE_COLLECT_REPLICA", "a=http://x,b=http://y/,http://z:8000")
    plain_environment.setenv("HEADRACE_BOOTSTRAP", "k:9092")
    settings = load(CollectSettings, {"endpoint": "e"})
    assert settings.engines == {"a": "http://x", "b": "http://y", "z:8000": "http://z:8000"}
    assert settings.bootstrap == "k:9092"


def test_help_teaches() -> None:
    done = collect("--help", COLUMNS="200")
    assert done.returncode == 0
    told = " ".join(done.stdout.split())
    for text in ("--recording engine.jsonl.gz", "chat-70b-0=http://10.0.0.7:8000", "newest /health is not 200"):
        assert text in told


@pytest.fixture
async def topics(kafka: Kafka) -> tuple[KafkaAccess, TopicNames]:
    access, names = KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(kafka.prefix())
    await create_topics(access, names, TopicSettings(partitions=PARTITIONS))
    return access, names


async def read_samples(
    access: KafkaAccess, names: TopicNames, is_enough: Callable[[list[RequestSample]], bool]
) -> list[Any]:
    """Messages of the samples' topic until they are enough and nothing more is there."""
    async with open_consumer(access) as consumer:
        parts = [TopicPartition(names.real("telemetry.requests"), number) for number in range(PARTITIONS)]
        consumer.assign(parts)
        await consumer.seek_to_beginning()
        found: list[Any] = []
        async with asyncio.timeout(60):
            samples: list[RequestSample] = []
            while not is_enough(samples):
                found.append(await consumer.getone())
                samples.append(decoded(found[-1]))
        while rest := await consumer.getmany(timeout_ms=500):
            found += [message for messages in rest.values() for message in messages]
        return found


def has_tokens(output_tokens: int) -> Callable[[list[RequestSample]], bool]:
    return lambda samples: sum(sample.output_tokens or 0 for sample in samples) >= output_tokens


def are_of_both(samples: list[RequestSample]) -> bool:
    """An engine's tokens count from its first scrape on."""
    return {sample.replica for sample in samples} == {"a", "b"}


def decoded(message: Any) -> RequestSample:
    record = decode("telemetry.requests", message.value)
    assert isinstance(record, RequestSample)
    return record


@pytest.mark.kafka
async def test_a_recording_through_kafka_is_what_a_file_gets(
    topics: tuple[KafkaAccess, TopicNames], recordings: Path, tmp_path: Path
) -> None:
    """Sixty times as fast as life, under the clock of the whole pipeline."""
    access, names = topics
    recording = str(recordings / "vllm-recording" / "idle-overload-hang-death.jsonl.gz")
    start = ["--endpoint", "chat", "--recording", recording, "--start", "1700000000"]
    done = await asyncio.to_thread(
        collect,
        *start,
        *("--bootstrap", access.bootstrap, "--topic-prefix", names.prefix, "--speed", "60"),
        HEADRACE_CLOCK_BASE="1700000000",
        HEADRACE_CLOCK_SPEED="60",
    )
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out.jsonl"
    assert collect(*start, "--out", str(out)).returncode == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    messages = await read_samples(access, names, has_tokens(70904))
    assert {message.key for message in messages} == {b"chat"}
    assert {message.partition for message in messages} == {partition_of("chat", PARTITIONS)}
    samples = [decoded(message) for message in messages]
    assert all(sample.received_s is None for sample in samples)
    unreceived = [{name: line[name] for name in line.keys() - {"topic", "received_s"}} for line in lines]
    assert samples == [decode("telemetry.requests", msgspec.json.encode(line)) for line in unreceived]


@pytest.mark.kafka
async def test_live_engines_through_kafka_and_a_stop_in_order(
    topics: tuple[KafkaAccess, TopicNames], tmp_path: Path
) -> None:
    access, names = topics
    async with LlamaServer(tmp_path / "a") as first, LlamaServer(tmp_path / "b") as second:
        health_file = tmp_path / "health"
        arguments = ["--endpoint", "chat", "--replica", f"a={first.url}", "--replica", f"b={second.url}/"]
        arguments += ["--bootstrap", access.bootstrap, "--topic-prefix", names.prefix]
        collecting = await asyncio.to_thread(started, *arguments, "--health-file", str(health_file))
        try:
            await ready(health_file, collecting)
            await read_samples(access, names, are_of_both)
            plan = plan_load([LoadPhase(duration_s=1.0, requests_per_s=60)], seed=5)
            counts = await LoadGenerator([first.url, second.url], plan, monotonic_s).run()
            samples = [
                decoded(message) for message in await read_samples(access, names, has_tokens(counts.output_tokens))
            ]
        finally:
            collecting.send_signal(signal.SIGTERM)
            _, said = await asyncio.to_thread(collecting.communicate, timeout=60)
    assert collecting.returncode == 0, said.decode()
    assert counts.completed == counts.planned
    assert sum(sample.output_tokens or 0 for sample in samples) == counts.output_tokens
    assert sum(sample.input_tokens or 0 for sample in samples) == counts.prompt_tokens
    assert {sample.replica for sample in samples} == {"a", "b"}
    assert {sample.endpoint for sample in samples} == {"chat"}


def started(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, *arguments], env=ENVIRONMENT, stderr=subprocess.PIPE)


async def ready(health_file: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until /readyz answers 200: an engine was asked and Kafka took a sample."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        status = 0
        while status != 200:
            assert process.poll() is None
            address = await asyncio.to_thread(read_if_there, health_file)
            if address:
                async with session.get(f"http://{address}/readyz") as answer:
                    status = answer.status
            await asyncio.sleep(0.05)


def read_if_there(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


@pytest.mark.kafka
async def test_samples_that_kafka_never_took_are_told(tmp_path: Path) -> None:
    recording = tmp_path / "r.jsonl"
    body = "vllm:generation_tokens_total 5\n"
    recording.write_text(json.dumps({"t": 0, "kind": "/metrics", "code": 200, "body": body}) + "\n")
    nobody = f"127.0.0.1:{free_port()}"
    done = await asyncio.to_thread(collect, "--endpoint", "e", "--recording", str(recording), "--bootstrap", nobody)
    assert done.returncode == ExitCode.INCOMPLETE
    assert f"1 of 1 samples did not reach Kafka at {nobody}" in done.stderr
    assert "Traceback" not in done.stderr
