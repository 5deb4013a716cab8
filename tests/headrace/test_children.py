"""Supervision of child processes: started, found ready, ended in order, gone with their parent."""

import asyncio
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from headrace.children import Children
from headrace.exit_codes import CannotRunError, ExitCode

SERVES = """
import asyncio, sys
from headrace.process import run_process
from headrace.settings import ProcessSettings, load
async def main(process):
    if sys.argv[1:] == ["never"]:
        process.health.expect("work", "it has none")
    await process.stop.wait()
    if len(sys.argv) == 3:
        with open(sys.argv[2], "a") as file:
            file.write(sys.argv[1] + " ")
sys.exit(run_process("example", load(ProcessSettings, {}), main))
"""
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
PARENT = """
import asyncio, sys
from pathlib import Path
from headrace.children import Children
async def main():
    async with Children(Path(sys.argv[1])) as children:
        child = children.start("sleeper", ["sleep", "600"])
        Path(sys.argv[1], "pid").write_text(str(child.pid))
        print("started", flush=True)
        await children.watch()
asyncio.run(main())
"""


def program(text: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", text, *arguments]


async def test_children_are_ready_and_end_in_the_reverse_order(tmp_path: Path) -> None:
    order = tmp_path / "order"
    async with Children(tmp_path) as children:
        first = children.start("first", program(SERVES, "first", str(order)))
        second = children.start("second", program(SERVES, "second", str(order)))
        await children.wait_ready(first)
        await children.wait_ready(second)
        assert first.health_address != second.health_address
        children.raise_ended()
    assert (first.process.returncode, second.process.returncode) == (0, 0)
    assert order.read_text() == "second first "
    assert children.running == ()


async def test_one_that_ends_is_named_with_status_and_log(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        steady = children.start("steady", ["sleep", "600"])
        children.start("brief", ["sh", "-c", "echo something went wrong >&2; exit 5"])
        with pytest.raises(CannotRunError) as caught:
            await asyncio.wait_for(children.watch(), 60)
    assert caught.value.code is ExitCode.CHILD_ENDED
    assert "brief ended unexpectedly with status 5 (a disk is full" in caught.value.message
    assert str(tmp_path / "brief.log") in caught.value.message
    assert "something went wrong" in caught.value.message
    assert steady.process.returncode is not None


async def test_a_killed_one_is_told_with_its_signal(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        child = children.start("victim", ["sleep", "600"])
        child.process.kill()
        with pytest.raises(CannotRunError, match="victim ended unexpectedly with signal SIGKILL"):
            await asyncio.wait_for(children.watch(), 60)


async def test_one_that_ends_before_it_is_ready_ends_the_waiting(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        waiting = children.start("waiting", program(SERVES, "never"))
        children.start("dying", ["false"])
        with pytest.raises(CannotRunError, match="dying ended unexpectedly with status 1"):
            await children.wait_ready(waiting)


async def test_one_that_is_not_ready_in_time_is_told_with_what_it_waits_for(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        child = children.start("waiting", program(SERVES, "never"))
        async with asyncio.timeout(60):
            while child.health_address is None:  # noqa: ASYNC110  # another process's file
                await asyncio.sleep(0.02)
        with pytest.raises(CannotRunError, match=r"waiting was not ready within 1 s: .*it has none"):
            await children.wait_ready(child, timeout_s=1)


async def test_a_program_that_cannot_be_executed_is_told(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        children.start("absent", [str(tmp_path / "nothing")])
        with pytest.raises(CannotRunError, match=r"absent ended(.|\n)*No such file"):
            await asyncio.wait_for(children.watch(), 60)


async def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    async with Children(tmp_path, stop_s=1.0) as children:
        child = children.start("stubborn", program(STUBBORN))
        async with asyncio.timeout(60):
            while "up" not in child.log_path.read_text():  # noqa: ASYNC110  # another process's output
                await asyncio.sleep(0.02)
    assert child.process.returncode == -9


async def test_one_ended_on_purpose_is_not_watched_any_more(tmp_path: Path) -> None:
    async with Children(tmp_path) as children:
        child = children.start("sleeper", ["sleep", "600"])
        assert await children.end(child) == -15
        children.raise_ended()


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with Children(tmp_path / "file") as children:
        with pytest.raises(CannotRunError, match="sleeper cannot be started"):
            children.start("sleeper", ["sleep", "600"])


def test_children_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(program(PARENT, str(tmp_path)), stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    next(line for line in parent.stdout if line == "started\n")
    child = psutil.Process(int((tmp_path / "pid").read_text()))
    parent.kill()
    parent.wait()
    assert psutil.wait_procs([child], timeout=60)[1] == []
