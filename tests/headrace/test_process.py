"""The frame of a long-running process, in a process of its own: signals, health, metrics, exit codes."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.exit_codes import ExitCode

PREAMBLE = """
import asyncio, sys
from opentelemetry import metrics
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.process import run_process, until_stopped
from headrace.settings import ProcessSettings, load
class Example(ProcessSettings):
    section = "example"
counter = metrics.get_meter("headrace.example").create_counter("headrace_examples", unit="1")
"""
END = """
sys.exit(run_process("example", load(Example, {}), main))
"""

WAITS = """
async def main(process):
    process.health.expect("kafka", "not connected yet")
    counter.add(7)
    await process.stop.wait()
    return ExitCode.OK
"""

Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    started: list[subprocess.Popen[str]] = []

    def start(body: str, **variables: str) -> subprocess.Popen[str]:
        env = {"HEADRACE_HEALTH_FILE": str(tmp_path / "health"), "HEADRACE_LOG_FORMAT": "json", "PATH": "", **variables}
        command = [sys.executable, "-c", PREAMBLE + body + END]
        started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def address(tmp_path: Path) -> str:
    deadline_s = time.monotonic() + 60
    while not (tmp_path / "health").exists():
        assert time.monotonic() < deadline_s
        asyncio.run(asyncio.sleep(0.05))
    return (tmp_path / "health").read_text().strip()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_readiness_and_metrics_are_served_where_the_file_says(run: Run, tmp_path: Path) -> None:
    process = run(WAITS)
    where = address(tmp_path)
    assert get(f"http://{where}/healthz") == (200, '{"process": "example", "ok": true, "problems": {}}')
    status, body = get(f"http://{where}/readyz")
    assert status == 503
    assert json.loads(body)["problems"] == {"kafka": "not connected yet"}
    _, exposed = get(f"http://{where}/metrics")
    assert "headrace_examples_total 7.0" in exposed
    assert "process_resident_memory_bytes" in exposed

    process.send_signal(signal.SIGTERM)
    _, logged = process.communicate(timeout=60)
    assert process.returncode == ExitCode.OK
    events = [json.loads(line)["event"] for line in logged.splitlines()]
    assert events == ["health_served", "stop_asked", "process_ended"]
    assert not (tmp_path / "health").exists()


def test_a_second_interrupt_ends_a_process_that_does_not_stop(run: Run, tmp_path: Path) -> None:
    process = run("async def main(process):\n    print('here', flush=True)\n    await asyncio.Event().wait()\n")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "stop_asked" in next(line for line in process.stderr if "stop_asked" in line)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert process.returncode == ExitCode.INTERRUPTED


def test_a_users_mistake_ends_it_with_its_message_and_code(run: Run) -> None:
    process = run("async def main(process):\n    raise CannotRunError('no such thing', ExitCode.PARTITIONS)\n")
    _, logged = process.communicate(timeout=60)
    assert process.returncode == ExitCode.PARTITIONS
    assert "no such thing" in logged.splitlines()
    assert "Traceback" not in logged


def test_a_bug_of_ours_is_logged_with_its_traceback(run: Run) -> None:
    process = run("async def main(process):\n    raise KeyError('oops')\n")
    _, logged = process.communicate(timeout=60)
    assert process.returncode == ExitCode.BUG
    failed = next(json.loads(line) for line in logged.splitlines() if "process_failed" in line)
    assert "KeyError: 'oops'" in failed["exception"]


def test_a_taken_port_is_named(run: Run) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        process = run(WAITS, HEADRACE_HEALTH_PORT=str(port))
        _, logged = process.communicate(timeout=60)
    assert process.returncode == ExitCode.UNAVAILABLE
    assert f"--health-port: 127.0.0.1:{port} cannot be used" in logged


def test_work_is_cancelled_when_the_process_is_asked_to_stop(run: Run) -> None:
    body = """
async def work():
    try:
        print("working", flush=True)
        await asyncio.Event().wait()
    finally:
        print("cleaned up", flush=True)
async def main(process):
    await until_stopped(process, work())
"""
    process = run(body)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == ExitCode.OK
    assert told == "cleaned up\n"
