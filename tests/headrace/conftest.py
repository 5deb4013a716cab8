"""Processes in the frame of all processes, ended with their test."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.headrace.example_process import END, PREAMBLE, Run


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
