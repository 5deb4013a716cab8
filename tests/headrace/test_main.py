"""The command line as a user meets it; help in this process, what ends in a status in one of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from headrace.exit_codes import ExitCode
from headrace.main import COMMANDS, main


def headrace(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    return subprocess.run(
        [sys.executable, "-m", "headrace.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, "COLUMNS": "120", **(env or {})},
    )


Help = Callable[..., str]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Help:
    """The help of a command on a terminal so wide; a process for each would take a second."""

    def show(*command: str, columns: int = 120) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit) as ended:
            main([*command, "--help"])
        assert ended.value.code == ExitCode.OK
        return capsys.readouterr().out

    return show


def test_help_names_every_command() -> None:
    told = headrace("--help")
    assert told.returncode == 0
    for name, summary in COMMANDS.items():
        assert name in told.stdout
        assert summary in told.stdout


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == ExitCode.OK
    assert capsys.readouterr().out == f"headrace {version('headrace')}\n"


@pytest.mark.parametrize(
    "command",
    [("broker",), ("up",), ("topics", "create"), ("topics", "check"), ("policy", "check"), ("policy", "apply")],
)
def test_each_help_has_an_example_and_the_exit_codes(command: tuple[str, ...], shown: Help) -> None:
    told = shown(*command)
    assert f"headrace {' '.join(command)}" in told
    assert "Example:" in told
    assert "Exit status: 0 done" in told


@pytest.mark.parametrize("command", [*((name,) for name in COMMANDS), ("tables", "query"), ("topics", "create")])
def test_examples_can_be_copied_from_a_terminal_of_80_columns(command: tuple[str, ...], shown: Help) -> None:
    wide = shown(*command, columns=400).splitlines()
    examples = [line.strip() for line in wide if line.startswith("     ") and line.strip()]
    narrow = [line.strip() for line in shown(*command, columns=80).splitlines()]
    assert max(len(line) for line in shown(*command, columns=80).splitlines()) <= 80
    assert [line for line in examples if line not in narrow] == []


@pytest.mark.parametrize("group", [(), ("topics",), ("policy",)])
def test_a_group_alone_shows_its_commands(group: tuple[str, ...]) -> None:
    told = headrace(*group)
    assert told.returncode == ExitCode.USAGE
    assert f"Usage: headrace {' '.join(group)}".strip() in told.stderr + told.stdout
    assert "Commands" in told.stderr + told.stdout


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    told = headrace("brokr")
    assert told.returncode == ExitCode.USAGE
    assert "'broker'" in told.stderr


def test_wrong_settings_are_told_together_without_a_traceback() -> None:
    told = headrace("topics", "create", "--partitions", "many", env={"HEADRACE_TOPIC_PREFIX": "a b"})
    assert told.returncode == ExitCode.USAGE
    assert len(told.stderr.splitlines()) == 3
    assert "Traceback" not in told.stderr


def test_a_kafka_that_does_not_answer_is_named() -> None:
    told = headrace("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert told.returncode == ExitCode.UNAVAILABLE
    assert told.stderr.startswith("No Kafka answers at 127.0.0.1:1")
    assert "Traceback" not in told.stderr


def test_without_java_a_broker_says_what_to_do(tmp_path: Path) -> None:
    told = headrace("broker", "--data", str(tmp_path), env={"PATH": "", "JAVA_HOME": ""})
    assert told.returncode == ExitCode.UNAVAILABLE
    assert "needs Java 17" in told.stderr
    assert "Traceback" not in told.stderr


def test_commands_are_imported_when_they_are_called() -> None:
    """`headrace worker` must not load what the sink needs: so the command line itself loads neither."""
    program = (
        "import headrace.main, sys; print([m for m in ('deltalake', 'scipy', 'faust', 'aiokafka') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() in ("[]", "['aiokafka']")


@pytest.mark.parametrize("command", [("--help",), ("policy", "check", "HERE"), ("topics", "acls")], ids=" ".join)
def test_a_reader_that_has_ended_is_a_status_and_no_message(command: tuple[str, ...], policies: Path) -> None:
    """As of `headrace topics acls | head -2`."""
    read, write = os.pipe()
    os.close(read)
    ended = _ended(command, policies, write)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (ExitCode.READER_GONE, "")


@pytest.mark.parametrize(
    "command", [("--help",), ("policy", "check", "--help"), ("topics",), ("policy", "check", "HERE")], ids=" ".join
)
def test_a_full_standard_output_is_told_in_a_line(command: tuple[str, ...], policies: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = _ended(command, policies, full.fileno())
    assert ended.returncode == ExitCode.STORAGE
    assert ended.stderr == "standard output cannot be written: No space left on device\n"


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    (tmp_path / "chat.yaml").write_text(
        "endpoint: chat\nscaleTargetRef: {kind: Deployment, name: chat}\nminReplicas: 1\nmaxReplicas: 2\n"
        "metrics: [{name: inflight_requests, target: 4}]\n"
    )
    return tmp_path


def _ended(command: Sequence[str], policies: Path, output: int) -> subprocess.CompletedProcess[str]:
    """With its standard output there; HERE stands for the policies."""
    arguments = [str(policies) if word == "HERE" else word for word in command]
    called = [sys.executable, "-m", "headrace.main", *arguments]
    return subprocess.run(called, stdout=output, stderr=subprocess.PIPE, text=True, check=False)


def test_an_interrupt_while_modules_are_imported_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headrace.main._import_command", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["topics", "create"])
    assert ended.value.code == ExitCode.INTERRUPTED
    assert "Traceback" not in capsys.readouterr().err
