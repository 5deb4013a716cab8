"""A process whose event loop is blocked ends itself with its own status, and says where it was."""

import json

from headrace.exit_codes import ExitCode
from tests.headrace.example_process import Run


def test_a_blocked_loop_ends_the_process_and_is_told_with_its_place(run: Run) -> None:
    body = """
import time
from headrace.loop_watch import LoopWatch
def stand_still():
    time.sleep(1000)  # Blocks the loop, until the watch ends the process.
async def main(process):
    with LoopWatch(0.3):
        await asyncio.sleep(0)
        stand_still()
"""
    process = run(body)
    _, logged = process.communicate(timeout=60)
    assert process.returncode == ExitCode.STUCK
    (told,) = [line for line in map(json.loads, logged.splitlines()) if line["event"] == "loop_blocked"]
    assert told["at"][0].endswith("stand_still")


def test_a_loop_that_answers_goes_on_and_a_watch_ends_with_its_context(run: Run) -> None:
    body = """
import time
from headrace.loop_watch import LoopWatch, LOOKS
async def main(process):
    with LoopWatch(30.0):
        for _ in range(1000):
            await asyncio.sleep(0)
    with LoopWatch(0.001):
        pass
    time.sleep(0.2)  # Blocks the loop for longer than the watch, which has ended, would allow.
"""
    process = run(body)
    process.communicate(timeout=60)
    assert process.returncode == ExitCode.OK
