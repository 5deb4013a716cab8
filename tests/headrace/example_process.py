"""A small process in the frame of all processes, for tests of the frame."""

import asyncio
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

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
