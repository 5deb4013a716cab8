"""`headrace up`: real broker, sink and workers as children; how the whole ends."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from headrace.exit_codes import ExitCode
from headrace.policies.topic import published_policies
from tests.conftest import Kafka
from tests.headrace.test_policies import SMALL
from wire.kafka import KafkaAccess
from wire.topics import TopicNames

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `headrace up` on a folder of this test."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        env = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
        command = [sys.executable, "-m", "headrace.main", "up", "--data", str(tmp_path / "data"), "--partitions", "2"]
        output = (tmp_path / "stderr").open("w")
        process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=output, text=True, env=env)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def lines_until_ready(process: subprocess.Popen[str], tmp_path: Path) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if line.startswith("ready"):
            return lines
    raise AssertionError(f"up ended: {lines}\n{(tmp_path / 'stderr').read_text()}")


def test_everything_runs_and_ctrl_c_ends_it_and_tells_where_the_data_is(start: Start, tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "chat.yaml").write_text(SMALL)
    process = start("--policies", str(policies))
    told = dict(line.split(": ", 1) for line in lines_until_ready(process, tmp_path) if ": " in line)
    assert told.keys() == {"kafka", "policies", "sink", "worker-0", "tables", "first query"}
    assert told["tables"] == str(tmp_path / "data" / "tables")
    asked = subprocess.run(["sh", "-c", told["first query"]], capture_output=True, text=True, check=False)
    assert asked.returncode == ExitCode.OK, asked.stderr
    assert asked.stdout.split() == ["at", "endpoint", "current", "desired", "reason"]
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 3
    published = asyncio.run(published_policies(KafkaAccess(bootstrap=told["kafka"]), TopicNames()))
    assert list(published) == ["chat"]

    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == ExitCode.OK
    assert psutil.wait_procs(children, timeout=60)[1] == []
    data = tmp_path / "data"
    assert output.splitlines() == [f"data: {data}", f"logs: {data / 'logs'}", f"tables: {data / 'tables'}"]


def test_a_killed_worker_ends_all_with_its_name_and_log(start: Start, tmp_path: Path, kafka: Kafka) -> None:
    prefix = kafka.prefix()
    process = start("--bootstrap", kafka.bootstrap, "--topic-prefix", prefix)
    told = [line for line in lines_until_ready(process, tmp_path) if line.startswith("policies: ")]
    assert len(told) == 1
    apply = f"policy apply FOLDER --bootstrap {kafka.bootstrap} --topic-prefix {prefix} "
    assert told[0].startswith("policies: none, so nothing is decided; give one at any time: ")
    assert apply in told[0]
    children = psutil.Process(process.pid).children(recursive=True)
    worker = next(child for child in children if "worker" in child.cmdline())
    worker.kill()
    process.communicate(timeout=120)
    assert process.returncode == ExitCode.CHILD_ENDED
    assert psutil.wait_procs(children, timeout=60)[1] == []
    log = tmp_path / "data" / "logs" / "worker-0.log"
    assert f"worker-0 ended unexpectedly with signal SIGKILL; its log: {log}" in (tmp_path / "stderr").read_text()


def test_a_wrong_policy_starts_nothing(start: Start, tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "chat.yaml").write_text(SMALL.replace("minReplicas: 1", "minReplicas: 9"))
    process = start("--policies", str(policies))
    process.communicate(timeout=120)
    assert process.returncode == ExitCode.USAGE
    assert "chat.yaml:3: minReplicas: 9" in (tmp_path / "stderr").read_text()
    assert not (tmp_path / "data").exists()
