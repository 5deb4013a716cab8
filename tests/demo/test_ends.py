"""How a demo ends before its end: by Ctrl-C at several moments, by a child's death, by what is missing."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.exit_codes import ExitCode
from tests.conftest import Kafka
from tests.demo.runs import DemoRun

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

StartDemo = Callable[..., DemoRun]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartDemo]:
    started: list[DemoRun] = []

    def run(*flags: str, **env: str) -> DemoRun:
        started.append(DemoRun(tmp_path, *flags, env=env))
        return started[-1]

    yield run
    for one in started:
        one.kill()


def test_ctrl_c_while_the_broker_starts(start: StartDemo) -> None:
    run = start()
    run.until("kafka: starting")
    run.interrupt()
    assert run.end() == ExitCode.INTERRUPTED
    assert run.left_over() == []
    assert not (run.data / "tables").exists()
    assert run.lines[-1] == f"data: {run.data}", "no folder that is not there"


def test_ctrl_c_under_load(start: StartDemo) -> None:
    run = start()
    run.until("actuator: http")
    running = run.processes()
    assert len(running) == 7, "broker, sink, two workers, fleet, actuator, and the demo itself"
    run.interrupt()
    assert run.end() == ExitCode.INTERRUPTED
    assert run.left_over() == []
    assert run.lines[-3] == f"data: {run.data}"
    assert "Traceback" not in run.errors


@pytest.mark.slow
def test_ctrl_c_under_load_of_real_engines(start: StartDemo) -> None:
    run = start("engine")
    run.until("phase light")
    running = run.processes()
    assert len(running) == 10, "engines, broker, sink, workers, collectors, and the demo itself"
    run.interrupt()
    assert run.end() == ExitCode.INTERRUPTED
    assert run.left_over() == []
    assert "Traceback" not in run.errors


def test_ctrl_c_twice_ends_at_once(start: StartDemo) -> None:
    run = start()
    run.until("kafka: starting")
    run.interrupt()
    assert str(run.data) in run.until("interrupted")
    run.interrupt()
    assert run.end() == ExitCode.INTERRUPTED
    assert run.left_over() == []


def test_a_dead_fleet_is_named_with_its_log(start: StartDemo, kafka: Kafka) -> None:
    """On a Kafka that runs already, which is left as it was but for the topics."""
    run = start("--bootstrap", kafka.bootstrap, "--topic-prefix", kafka.prefix())
    run.until("fleet: http")
    (fleet,) = [process for process in run.processes() if "--scenario" in process.cmdline()]
    fleet.kill()
    assert run.end() == ExitCode.CHILD_ENDED
    log = run.data / "logs" / "fleet.log"
    assert f"fleet ended unexpectedly with signal SIGKILL; its log: {log}" in run.errors
    assert run.left_over() == []
    assert f"data: {run.data}" in run.lines[-3:]
    assert not (run.data / "broker").exists()


def test_a_dead_engine_is_named_with_its_log(start: StartDemo, kafka: Kafka) -> None:
    """The form with real engines starts, and ends as the other does."""
    run = start("engine", "--bootstrap", kafka.bootstrap, "--topic-prefix", kafka.prefix())
    run.until(f"kafka: {kafka.bootstrap}")
    folder = run.data / "engines" / "chat-1"
    (engine,) = [process for process in run.processes() if str(folder) in " ".join(process.cmdline())]
    engine.kill()
    assert run.end() == ExitCode.CHILD_ENDED
    assert f"chat-1 ended unexpectedly with signal SIGKILL; its log: {folder / 'llama-server.log'}" in run.errors
    assert run.left_over() == []


def test_a_missing_extra_is_said_before_anything_starts(start: StartDemo, tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('not here', name='xllamacpp')\n")
    run = start("engine", PYTHONPATH=str(tmp_path))
    assert run.end() == ExitCode.UNAVAILABLE
    assert "the package xllamacpp is missing: install Headrace with the extra `engine`" in run.errors
    assert not (run.data / "broker").exists()


def test_a_folder_with_something_in_it_is_refused(start: StartDemo, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").touch()
    run = start()
    assert run.end() == ExitCode.USAGE
    assert f"--data: {tmp_path / 'data'}, allowed: a new or an empty folder" in run.errors


@pytest.mark.parametrize("form", ["fleet", "engine"])
def test_another_clock_is_refused(start: StartDemo, form: str) -> None:
    run = start(form, HEADRACE_CLOCK_BASE="1700000000", HEADRACE_CLOCK_SPEED="4")
    assert run.end() == ExitCode.USAGE
    assert "HEADRACE_CLOCK_SPEED" in run.errors
    assert not run.data.exists()


def test_what_is_wrong_with_a_flag_is_said(start: StartDemo) -> None:
    run = start("--speed", "0", "--seconds", "soon")
    assert run.end() == ExitCode.USAGE
    assert "--speed: '0', allowed: 1 to 60" in run.errors
    assert "--seconds: 'soon', allowed: 10 to 3600" in run.errors
    assert not run.data.exists()
